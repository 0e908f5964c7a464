"""Probes of GPUs. Each asks the facts of all boards; without a GPU it is not applicable, never passed."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from aiperf_analysis.advice.probes.seen import NO_GPU, Answer, Seen, absent, decided, unknown
from aiperf_core import units
from aiperf_core.devices.sysfs import integer

Board = Mapping[str, Any]

# Reasons for lower clocks that are no setting of a user.
_SPOILING = (
    "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake", "board_limit", "reliability",
)  # fmt: skip
_MARGIN_C = 10
_BUSY = 0.05
_SAME_W = 1.0
_SAME_CLOCK = 0.99
_WHOLE_BAR = 0.95
_RESTING = 2  # performance states from this on are those of an idle GPU


def of_gpu(probe: Callable[[Seen], Answer]) -> Callable[[Seen], Answer]:
    """A probe that answers `not applicable` on a machine without a GPU."""

    @wraps(probe)
    def asked(seen: Seen) -> Answer:
        return probe(seen) if seen.boards else absent(NO_GPU)

    return asked


def _each(good: Callable[[Board], bool | None], tell: Callable[[Board], str]) -> Callable[[Seen], Answer]:
    """A probe that holds if it holds for every GPU. `good` is None where the driver does not tell."""

    @of_gpu
    def probe(seen: Seen) -> Answer:
        answers = [(board, good(board)) for board in seen.boards]
        bad = [board for board, one in answers if one is False]
        if bad:
            return decided(False, _told(bad, tell))
        if any(one is None for _, one in answers):
            return unknown("the driver does not tell")
        return decided(True, _told(seen.boards, tell))

    return probe


def _told(boards: Sequence[Board], tell: Callable[[Board], str]) -> str:
    """What the boards show; equal ones together: `GPU 0-7: on`."""
    by_text: dict[str, list[int]] = {}
    for board in boards:
        by_text.setdefault(tell(board), []).append(board["index"])
    return "; ".join(f"GPU {','.join(map(str, indices))}: {text}" for text, indices in by_text.items())


def _switched(name: str) -> Callable[[Board], str]:
    return lambda board: f"{name} {'on' if board.get(name) else 'off'}"


def _both(board: Board, *names: str) -> list[Any] | None:
    """The values of facts; None if any is lacking."""
    found = [board.get(name) for name in names]
    return None if None in found else found


def _full_width(board: Board) -> bool | None:
    pair = _both(board, "pcie_width", "pcie_width_max")
    return None if pair is None else bool(pair[0] >= pair[1])


def _full_generation(board: Board) -> bool | None:
    """None for a resting GPU, whose link slows down."""
    pair = _both(board, "pcie_generation", "pcie_generation_max")
    if pair is None or pair[0] >= pair[1]:
        return None if pair is None else True
    return None if (board.get("performance_state") or 0) >= _RESTING else False


def _links(board: Board) -> bool | None:
    return all(board["nvlinks"]) if board.get("nvlinks") else None


@of_gpu
def _nvlinks(seen: Seen) -> Answer:
    if not any(board.get("nvlinks") for board in seen.boards):
        return absent("no NVLink")
    return _each(_links, lambda board: f"{sum(board['nvlinks'])} of {len(board['nvlinks'])} links active")(seen)


def _whole_bar(board: Board) -> bool | None:
    pair = _both(board, "bar1_bytes", "memory_bytes")
    return None if pair is None else bool(pair[0] >= _WHOLE_BAR * pair[1])


def _default_power(board: Board) -> bool | None:
    pair = _both(board, "power_limit_w", "power_default_w")
    return None if pair is None else bool(abs(pair[0] - pair[1]) <= _SAME_W)


@of_gpu
def _equal_power(seen: Seen) -> Answer:
    if len(seen.boards) < 2:
        return absent("a single GPU")
    limits = [board["power_limit_w"] for board in seen.boards if board.get("power_limit_w") is not None]
    if len(limits) < len(seen.boards):
        return unknown("the driver does not tell")
    return decided(max(limits) - min(limits) <= _SAME_W, _told(seen.boards, lambda one: f"{one['power_limit_w']:g} W"))


def _not_throttled(board: Board) -> bool | None:
    found = board.get("throttled")
    return None if found is None else not set(found) & set(_SPOILING)


def _cool(board: Board) -> bool | None:
    pair = _both(board, "temperature_c", "slowdown_c")
    return None if pair is None else bool(pair[0] <= pair[1] - _MARGIN_C)


@of_gpu
def _clocks_held(seen: Seen) -> Answer:
    held = seen.fact("clocks_chosen")
    return decided(held, "the clocks are held at a setting" if held else "the clocks are free")


@of_gpu
def _application_clocks(seen: Seen) -> Answer:
    told = {}
    for clock in ("sm", "memory"):
        chosen, default = seen.fact(f"application_{clock}_clock_hz"), seen.fact(f"default_{clock}_clock_hz")
        if chosen != default:
            told[clock] = f"{clock} clock {chosen / 1e6:.0f} MHz, by default {default / 1e6:.0f} MHz"
    return decided(not told, "; ".join(told.values()) or "application clocks are the default")


def _memory_clock(board: Board) -> bool | None:
    """None for a resting GPU with a low clock."""
    pair = _both(board, "memory_clock_hz", "memory_clock_max_hz")
    if pair is None or pair[0] >= _SAME_CLOCK * pair[1]:
        return None if pair is None else True
    return None if (board.get("performance_state") or 0) >= _RESTING else False


def _rows(board: Board) -> bool | None:
    """`remapped_rows` has corrected and uncorrected rows, and whether a remapping is pending or has failed."""
    found = board.get("remapped_rows")
    return None if found is None else not (found[2] or found[3])


@of_gpu
def _near(seen: Seen) -> Answer:
    if len(seen.fact("numa_nodes")) < 2:
        return absent("a single NUMA node")
    nodes = seen.fact("process_nodes")
    far = {}
    for board in seen.boards:
        # NVML writes the domain with eight digits, sysfs with four.
        bus = str(board.get("bus", "")).lower().removeprefix("0000")
        node = integer(seen.root / f"sys/bus/pci/devices/{bus}/numa_node")
        if node is not None and node >= 0 and node not in nodes:
            far[board["index"]] = node
    told = "; ".join(f"GPU {index}: node {node}" for index, node in far.items())
    return decided(not far, f"the process runs on nodes {', '.join(map(str, nodes))}" + (f"; {told}" if told else ""))


@of_gpu
def _others_idle(seen: Seen) -> Answer:
    if len(seen.boards) < 2:
        return absent("a single GPU")
    return _each(
        lambda board: None if board.get("busy") is None else board["busy"] <= _BUSY,
        lambda board: f"busy {units.percent(board['busy'])} of the time",
    )(seen)


@of_gpu
def _counter_rights(seen: Seen) -> Answer:
    found = seen.read("proc/driver/nvidia/params")
    if not found:
        return unknown("/proc/driver/nvidia/params cannot be read")
    open_to_all = "RmProfilingAdminOnly: 0" in found
    return decided(open_to_all, f"counters are for {'all users' if open_to_all else 'administrators'}")


PROBES: dict[str, Callable[[Seen], Answer]] = {
    "gpu.persistence": _each(lambda board: board.get("persistence"), _switched("persistence")),
    "gpu.ecc": _each(lambda board: board.get("ecc"), _switched("ecc")),
    "gpu.mig": _each(lambda board: None if board.get("mig") is None else not board["mig"], _switched("mig")),
    "gpu.pcie_width": _each(
        _full_width, lambda board: f"{board.get('pcie_width')} of {board.get('pcie_width_max')} lanes"
    ),
    "gpu.pcie_generation": _each(
        _full_generation,
        lambda board: f"generation {board.get('pcie_generation')} of {board.get('pcie_generation_max')}",
    ),
    "gpu.nvlinks": _nvlinks,
    "gpu.bar1": _each(
        _whole_bar,
        lambda board: f"BAR1 {units.size(board['bar1_bytes'])}, memory {units.size(board['memory_bytes'])}",
    ),
    "gpu.power_limit": _each(
        _default_power,
        lambda board: f"limit {board['power_limit_w']:g} W, by default {board['power_default_w']:g} W",
    ),
    "gpu.power_limits_equal": _equal_power,
    "gpu.throttle": _each(_not_throttled, lambda board: ", ".join(board["throttled"]) or "no reason"),
    "gpu.temperature": _each(
        _cool, lambda board: f"{board['temperature_c']} degrees, slowdown at {board['slowdown_c']}"
    ),
    "gpu.clocks_held": _clocks_held,
    "gpu.application_clocks": _application_clocks,
    "gpu.memory_clock": _each(
        _memory_clock,
        lambda board: f"{board['memory_clock_hz'] / 1e6:.0f} of {board['memory_clock_max_hz'] / 1e6:.0f} MHz",
    ),
    "gpu.remapped_rows": _each(_rows, lambda board: "no remapping is pending" if _rows(board) else "remapping pending"),
    "gpu.numa": _near,
    "gpu.others_idle": _others_idle,
    "gpu.counter_rights": _counter_rights,
}
