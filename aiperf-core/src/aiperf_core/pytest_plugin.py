"""The pytest plugin: `pytest --aiperf [PATTERN]` tests targets, one item for each target and device.

`acme.gather[cpu]` fails where `aiperf lint` has a problem with the target, where an implementation is not right at the
sizes of `smoke` or at an awkward size, and where a result changes when it is written and read; see
`aiperf_core.target_check`.

Implementations run in other processes, which are replaced after a crash or a hang: it fails its item alone. An item is
skipped where its device is missing; what else this machine cannot run is listed with its reason at the end. Items of
`cuda` have the marker `gpu`, others those of the ini option `aiperf_marks`.

The benchmark declares its awkward sizes with `bench.awkward(...)`. With the ini option `aiperf_strict` notes of `aiperf
lint` fail too, unless the benchmark accepts them with `bench.accept(...)`.

The fixture `aiperf_measure` is for tests that an author writes. `@pytest.mark.aiperf_gpus(2)` skips a test on a machine
with fewer GPUs. Without `--aiperf` and without the fixture neither
torch nor any benchmark is imported.
"""

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from aiperf_core.targets import Selection
    from aiperf_core.testing import Measure, Measuring

_SKIPPED = "aiperf_skipped"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("aiperf").addoption(
        "--aiperf",
        nargs="?",
        const="all",
        metavar="PATTERN",
        help="Test the targets that the pattern chooses (as in aiperf run), all without a pattern. "
        "Put files and folders before it, or write --aiperf=PATTERN.",
    )
    parser.addini("aiperf_strict", "With --aiperf: fail for notes of aiperf lint too.", type="bool", default=False)
    parser.addini(
        "aiperf_marks", "With --aiperf: markers of targets, a line each: `acme.solve*: slow`.", type="linelist"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Describe the markers, and make the items where the option is given."""
    config.addinivalue_line("markers", "aiperf_gpus(count): skipped where there are fewer NVIDIA GPUs")
    if config.getoption("--aiperf") is not None:
        config.addinivalue_line("markers", "gpu: needs an NVIDIA GPU")
        config.pluginmanager.register(Conformance(config), "aiperf-conformance")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs more GPUs than there are."""
    marker = item.get_closest_marker("aiperf_gpus")
    if marker is None:
        return
    import torch

    (wanted,), here = marker.args, torch.cuda.device_count()
    if here < wanted:
        pytest.skip(f"needs {wanted} GPUs ({here} here)")


@pytest.fixture(scope="session")
def aiperf_measure() -> "Iterator[Measure]":
    """`aiperf_core.testing.Measuring.measure`, whose fork server ends with the tests.

    `aiperf_measure("acme.gather", device="cpu", n=1009)` returns a result, for `aiperf_core.testing.problems` and your
    own assertions.
    """
    from aiperf_core.testing import Measuring

    with Measuring() as measuring:
        yield measuring.measure


class Wrong(Exception):
    """A target is not conformant; the message is all that there is to say."""


class Conformance:
    """Makes the items, and holds the fork server that they share."""

    def __init__(self, config: pytest.Config) -> None:
        from aiperf_core.errors import UsageError
        from aiperf_core.plugins import load_plugins

        # Before the collection: pytest-xdist's workers collect, and their errors are lost.
        try:
            self.selections = load_plugins().select([str(config.getoption("--aiperf"))])
        except UsageError as error:
            raise pytest.UsageError(f"--aiperf: {error}") from None
        self.strict = bool(config.getini("aiperf_strict"))
        self.marks = [line.rsplit(":", 1) for line in config.getini("aiperf_marks")]
        self._measuring: Measuring | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Add the items, before `-k` and `-m` choose among them."""
        for selection in self.selections:
            for device in selection.target.devices:
                name = f"{selection.target.name}[{device}]"
                facts = {"conformance": self, "selection": selection, "device": device}
                items.append(TargetItem.from_parent(session, name=name, nodeid=name, **facts))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """List what was skipped within items that passed."""
        passed = terminalreporter.getreports("passed")
        lines = [f"{one.nodeid} {text}" for one in passed for key, text in one.user_properties if key == _SKIPPED]
        if lines:
            terminalreporter.section("implementations that this machine cannot test")
            terminalreporter.write("".join(f"{line}\n" for line in lines))

    def pytest_unconfigure(self) -> None:
        """End the processes."""
        if self._measuring is not None:
            self._measuring.__exit__()

    @property
    def measuring(self) -> "Measuring":
        """The processes that the items share; started when they are first needed."""
        if self._measuring is None:
            from aiperf_core.testing import Measuring

            self._measuring = Measuring()
        return self._measuring


class TargetItem(pytest.Item):
    """The test of a target on a device; it stands in no file."""

    def __init__(self, *, conformance: Conformance, selection: "Selection", device: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conformance, self.selection, self.device = conformance, selection, device
        if device == "cuda":
            self.add_marker("gpu")
        for pattern, marker in conformance.marks:
            if fnmatch(selection.target.name, pattern):
                self.add_marker(marker.strip())

    def runtest(self) -> None:
        """Fail with everything that is wrong."""
        from aiperf_core.target_check import TargetCheck

        measuring = self.conformance.measuring
        known = measuring.planner.options.known.devices
        if self.device not in known:
            raise Wrong(f"no plugin provides the device {self.device!r}; known are {', '.join(sorted(known))}")
        if self.device not in measuring.devices:
            pytest.skip(f"needs a device {self.device!r}; here is {', '.join(measuring.devices)}")
        check = TargetCheck(measuring, self.selection, self.device, self.conformance.strict)
        check.run()
        if check.problems:
            raise Wrong("\n".join(check.problems))
        if not check.tested:
            pytest.skip("; ".join(check.skipped) or "no implementation was tested")
        self.user_properties += [(_SKIPPED, one) for one in check.skipped]

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *style: Any) -> Any:
        """Say what is wrong, without the frames of this module."""
        return str(excinfo.value) if isinstance(excinfo.value, Wrong) else super().repr_failure(excinfo, *style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The heading of a failure. Unlike the name, or pytest would show the name with `::` for its dot."""
        return self.path, None, self.name.replace("[", " [")
