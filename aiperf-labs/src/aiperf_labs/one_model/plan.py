"""The plan of a run: rungs and predictions, written before anything is measured, and the parts that a run measures."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from aiperf_core import atomic
from aiperf_core.errors import UsageError
from aiperf_core.targets import InstalledTarget
from aiperf_labs.one_model import chapters, costs, screen
from aiperf_labs.one_model.costs import Gain, Requests, Work
from aiperf_labs.one_model.sizes import Preset
from aiperf_labs.one_model.switches import LADDERS, SWITCHES, Rung, rungs

FILE = "plan.json"
KIND = "aiperf one-model plan 1"
PLACE = "aiperf_labs.one_model"
# What decides a result, of this package.
SOURCES = (
    "corpus",
    "declared",
    "model",
    "ranks",
    "schedule",
    "screen",
    "serve",
    "serve_screen",
    "serving",
    "sizes",
    "switches",
    "tokens",
    "train",
    "trained",
    "training",
)
SCREEN = "screen"
# Sizes that the ladders have as numbers, by ladder, as in their presets `cpu` and `cuda`.
SLOTS = {"ci": 4, "one": 32, "two": 32}
BATCHES = {"ci": (8, 96), "one": (4, 1024), "two": (4, 1024)}
SHARES = {"ci": (2, 96), "one": (4, 1024), "two": (4, 1024)}


@frozen
class Part:
    """A part, which is one bundle: some implementations of a ladder.

    names: of implementations, without the baseline; empty for all.
    """

    name: str
    target: InstalledTarget
    names: tuple[str, ...] = ()


def targets() -> dict[str, InstalledTarget]:
    """The ladders as targets. They are in no plugin, since each has an implementation that is wrong on purpose."""
    modules = {**{name: name for name in LADDERS}, SCREEN: "serve_screen"}
    devices = {SCREEN: ("cpu",)}
    return {
        name: InstalledTarget(
            f"labs.one_model_{name}",
            f"{PLACE}.{module}",
            LADDERS.get(name, "a screen of twelve switches"),
            "throughput",
            devices.get(name, ("cpu", "cuda")),
        )
        for name, module in modules.items()
    }


def parts(ladders: Sequence[str], device: str) -> list[Part]:
    """The parts of a run. Each has the placebo and the sabotage, and a size that is measured in minutes."""
    known, found = targets(), []
    for name in ladders:
        if name == SCREEN:
            found.append(Part(name, known[name]))
            continue
        every = rungs(name, device)
        guards = tuple(one.name for one in every if one.role in ("placebo", "sabotage"))
        steps = tuple(one.name for one in every if one.role == "step")
        others = tuple(one.name for one in every if one.role in ("without", "degraded"))
        found.append(Part(f"{name}-steps", known[name], (*steps, *guards)))
        if others:
            found.append(Part(f"{name}-without", known[name], (steps[-1], *others, *guards)))
    return found


def sources(installed: Iterable[InstalledTarget]) -> dict[str, str]:
    """The SHA-256 of all files that decide a result: of this package, and of the chapters that it takes code from."""
    folder, known = Path(__file__).parent, [*installed]
    found = {f"{name}.py": _hash(folder / f"{name}.py") for name in SOURCES}
    for target in sorted({one.target for one in SWITCHES} - {""}):
        module = chapters.module_of(target, known)
        found |= {path.name: _hash(path) for path in _files(module)} if module else {target: "not installed"}
    return found


def _files(module: str) -> list[Path]:
    """The file of a chapter's module, found without its import, and those of its kernels."""
    from importlib.util import find_spec

    package, _, name = module.rpartition(".")
    spec = find_spec(package)
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    return [folder / f"{name}.py", *sorted((folder / "kernels").glob(f"{name}*"))]


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --- predictions


def works(preset: Preset, name: str, device: str, requests: Requests, tensors: int) -> dict[str, Work]:
    """The work of each rung of a ladder."""
    bits = 32 if device == "cpu" else 16
    found = {}
    for one in rungs(name, device):
        if name == "serve":
            found[one.name] = costs.of_serving(preset, one.switches, requests, bits)
        else:
            batch, length = (SHARES if name == "ranks" else BATCHES)[preset.name]
            ranks = 2 if name == "ranks" else 1
            found[one.name] = costs.of_training(preset, one.switches, tensors, batch, length, ranks)
    return found


def make(preset: Preset, device: str, ladders: Sequence[str], installed: Iterable[InstalledTarget]) -> dict[str, Any]:
    """The plan as a document. The model is trained already: the lengths of its answers decide the schedule."""
    from aiperf_labs.one_model import trained

    known = trained.load(preset)
    requests = Requests(
        texts=known.texts.tolist(),
        lengths=known.lengths,
        wanted=known.wanted,
        shared=known.shared,
        slots=SLOTS[preset.name],
    )
    return {
        "kind": KIND,
        "size": preset.name,
        "device": device,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "sources": sources(installed),
        "trained": {"sha256": _hash(trained.path_of(preset)), **trained.described(known)},
        "entropy": preset.grammar.entropy,
        "words": preset.grammar.mean_words,
        "ladders": {
            name: _rungs(rungs(name, device), works(preset, name, device, requests, len(known.weights)), device)
            for name in ladders
            if name != SCREEN
        },
        "screen": list(screen.SCREENED) if SCREEN in ladders else [],
    }


def _rungs(every: Sequence[Rung], counted: dict[str, Work], device: str) -> list[dict[str, Any]]:
    gains = costs.predicted(every, counted, device)
    found = []
    for one in every:
        predicted = {kind: [gain.low, gain.high] for kind, gain in gains.get(one.name, {}).items()}
        said = one.switch
        found.append(
            {
                "name": one.name,
                "role": one.role,
                "below": one.below,
                "switches": one.switches.changed,
                "adds": said.adds if said else "",
                "why": said.why if said else "",
                "teaches": said.teaches if said else "",
                "kind": said.kind if said else "",
                "stage": said.stage if said else 0,
                "techniques": [*said.techniques] if said else [],
                "work": asdict(counted[one.name]),
                "predicted": predicted,
                "must": {"placebo": "SAME", "sabotage": "INVALID"}.get(one.role, ""),
            }
        )
    return found


# --- the file


def write(folder: Path, document: dict[str, Any]) -> str:
    """Write a plan into a folder without one, and return its SHA-256. Raises `UsageError` where one is."""
    path = folder / FILE
    if path.exists():
        raise UsageError(f"'{path}' is a plan already, and predictions are never edited. Give another folder: --out")
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write(path, json.dumps(document, indent=1).encode())
    return _hash(path)


def read(folder: Path) -> tuple[dict[str, Any], str]:
    """The plan in a folder, and its SHA-256. Raises `UsageError` where there is none."""
    path = folder / FILE
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"'{path}' cannot be read as a plan. Make one: aiperf labs one-model plan") from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise UsageError(f"'{path}' is no plan of this version. Make one in another folder: aiperf labs one-model plan")
    return document, _hash(path)


def check(document: dict[str, Any], folder: Path, installed: Iterable[InstalledTarget], model: Path) -> None:
    """Raise `UsageError` where what a plan is about has changed since it was made."""
    now, then = sources(installed), document["sources"]
    changed = sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))
    if not model.is_file() or _hash(model) != document["trained"]["sha256"]:
        changed.append("the trained model")
    if changed:
        raise UsageError(
            f"{', '.join(changed)} changed since the plan in '{folder}' was made, so its rungs cannot be compared. "
            "Make a new plan in another folder: aiperf labs one-model plan --out FOLDER"
        )


def label(digest: str) -> dict[str, str]:
    """The label that says of which plan a bundle is."""
    return {"plan": digest[:16]}


def gain_of(predicted: dict[str, list[float]], kind: str) -> Gain | None:
    """A predicted gain of a stored rung."""
    return Gain(*predicted[kind]) if kind in predicted else None
