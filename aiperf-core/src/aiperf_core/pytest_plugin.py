"""The pytest plugin: `pytest --aiperf [PATTERN]` makes a test of every implementation of the targets that a pattern chooses.

| test | fails where |
| --- | --- |
| `acme.gather:sorted[cpu-smoke]` | it is not right at the sizes of the preset `smoke` |
| `acme.gather:sorted[cpu-awkward]` | it is not right where each whole number among them is a prime |
| `acme.gather[cpu-lint]` | `aiperf lint` has a problem with the target |
| `acme.gather[cpu-result]` | a result of it is not of the schema, or another one when it is read again |

Each runs in a process of its own, so that one that crashes or hangs costs itself. What this machine cannot run is skipped with
the reason. The fixture `aiperf_measure` is for tests that an author writes. Without `--aiperf` and without the fixture neither
torch nor any benchmark is imported.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from aiperf_core.described import Described, DescribedImplementation
    from aiperf_core.targets import Selection
    from aiperf_core.testing import Measure, Measuring

TIMEOUT_S = 300.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("aiperf").addoption(
        "--aiperf",
        nargs="?",
        const="all",
        metavar="PATTERN",
        help="Test the implementations of the benchmarks that the pattern chooses (as in aiperf run), all without one. "
        "Put files and folders before it, or write --aiperf=PATTERN.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin where the option is given."""
    if config.getoption("--aiperf") is not None:
        config.pluginmanager.register(Conformance(str(config.getoption("--aiperf"))), "aiperf-conformance")


@pytest.fixture(scope="session")
def aiperf_measure() -> "Iterator[Measure]":
    """`aiperf_core.testing.Measuring.measure`, whose fork server ends with the tests.

    `aiperf_measure("acme.gather", device="cpu", n=1009)` returns a result, for `aiperf_core.testing.problems` and your own
    assertions.
    """
    from aiperf_core.testing import Measuring

    with Measuring() as measuring:
        yield measuring.measure


class Wrong(Exception):
    """A test of a benchmark failed; the message is all that there is to say."""


class Conformance:
    """Makes the tests, and holds the processes that they share."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._measuring: Measuring | None = None
        self._awkward: dict[tuple[str, str], dict[str, float]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Add the tests, before `-k` and `-m` choose among them."""
        from aiperf_core.errors import UsageError
        from aiperf_core.plugins import load_plugins

        try:
            for selection in load_plugins().select([self.pattern]):
                items.extend(self._items(session, selection))
        except UsageError as error:
            raise pytest.UsageError(f"--aiperf: {error}") from None

    def pytest_unconfigure(self) -> None:
        """End the processes."""
        if self._measuring is not None:
            self._measuring.__exit__()

    @property
    def measuring(self) -> "Measuring":
        """The processes that the tests share; started when they are first needed."""
        if self._measuring is None:
            from aiperf_core.testing import Measuring

            self._measuring = Measuring()
        return self._measuring

    def ask(self, role: str, do: str, **arguments: Any) -> Any:
        """Ask a fresh process of a role. Raises `ChildError`."""
        child = self.measuring.planner.spawn(role, f"{role}-{do}")
        try:
            answer = child.ask(do, timeout=TIMEOUT_S, **arguments)
        finally:
            child.kill()
        if isinstance(answer, dict):
            for memory in answer.pop("fds", ()):
                os.close(memory)
        return answer

    def awkward(self, target: dict[str, str], device: str, smoke: dict[str, float]) -> dict[str, float]:
        """Sizes of which each whole number is a prime near that of `smoke`, where the workload takes it."""
        from aiperf_core.harness.processes.child import ChildError
        from aiperf_core.targets import WORLD_SIZE

        key = (target["name"], device)
        if key not in self._awkward:
            sizes = dict(smoke)
            for name, size in smoke.items():
                if not isinstance(size, int) or name == WORLD_SIZE:
                    continue
                tried = {**sizes, name: prime_after(size)}
                # Not every number makes sense: of bits, or of heads that divide a width.
                with contextlib.suppress(ChildError):
                    on = self.measuring.device(device)
                    self.ask("judge", "open", target=target, device=on, params=tried, seed=0, static_seed=0)
                    sizes = tried
            self._awkward[key] = sizes
        return self._awkward[key]

    def _items(self, session: pytest.Session, selection: "Selection") -> Iterator[pytest.Item]:
        import cattrs

        from aiperf_core.described import Described
        from aiperf_core.errors import UsageError
        from aiperf_core.harness.processes.child import ChildError

        target = {"name": selection.target.name, "module": selection.target.module}
        facts: dict[str, Any] = {"conformance": self, "target": target}
        try:
            described = cattrs.structure(self.ask("describer", "describe", target=target), Described)
        except ChildError as error:
            yield _item(Broken, session, f"{target['name']}[import]", reason=str(error), **facts)
            return
        known = {one.name for one in described.implementations}
        if unknown := sorted(selection.implementations - known):
            named = ", ".join(map(repr, unknown))
            raise UsageError(
                f"{target['name']!r} has no implementation named {named}; it has {', '.join(sorted(known))}."
            )
        listed = {"goal": selection.target.goal, "devices": list(selection.target.devices)}
        for device in dict.fromkeys(one.device for one in described.implementations):
            facts |= {"device": device, "smoke": described.presets["smoke"]}
            yield _item(Lint, session, f"{target['name']}[{device}-lint]", listed=listed, **facts)
            if not selection.implementations:
                yield _item(Kept, session, f"{target['name']}[{device}-result]", **facts)
            for one in _chosen(described, device, selection):
                for size in ("smoke", "awkward"):
                    name = f"{target['name']}:{one.name}[{device}-{size}]"
                    yield _item(Right, session, name, size=size, implementation=one, **facts)


def _chosen(described: "Described", device: str, selection: "Selection") -> "Iterable[DescribedImplementation]":
    """The implementations for a device, those that were asked for where some were."""
    asked = selection.implementations
    return [one for one in described.on(device) if not asked or one.name in asked]


def _item(kind: "type[BenchmarkTest]", session: pytest.Session, name: str, **facts: Any) -> "BenchmarkTest":
    return kind.from_parent(session, name=name, nodeid=name, **facts)


def prime_after(size: int) -> int:
    """The first prime above a number: 4099 gives 4111."""
    candidate = max(size, 1) + 1
    while any(candidate % divisor == 0 for divisor in range(2, isqrt(candidate) + 1)):
        candidate += 1
    return candidate


class BenchmarkTest(pytest.Item):
    """A test of a target; it stands in no file."""

    def __init__(self, *, conformance: Conformance, target: dict[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conformance, self.target = conformance, target

    def skip_without(self, device: str) -> None:
        """Skip where the device is not here; fail where no plugin provides it, as where it is misspelt."""
        known = self.conformance.measuring.planner.options.devices
        if device not in known:
            raise Wrong(f"no plugin provides the device {device!r}; known are {', '.join(sorted(known))}")
        if device not in self.conformance.measuring.devices:
            pytest.skip(f"needs a device {device!r}; here is {', '.join(self.conformance.measuring.devices)}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *style: Any) -> Any:
        """Say what is wrong, without the frames of this module."""
        return str(excinfo.value) if isinstance(excinfo.value, Wrong) else super().repr_failure(excinfo, *style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The heading of a failure. Unlike the name, or pytest would show the name with `::` for its dot."""
        return self.path, None, self.name.replace("[", " [")


class Broken(BenchmarkTest):
    """A target that cannot be imported."""

    def __init__(self, *, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason

    def runtest(self) -> None:
        """Fail."""
        raise Wrong(self.reason)


class Lint(BenchmarkTest):
    """What `aiperf lint` says of the target's own judge, cost and form."""

    def __init__(self, *, device: str, smoke: dict[str, float], listed: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.device, self.smoke, self.listed = device, smoke, listed

    def runtest(self) -> None:
        """Fail where there is a problem; what is only noted stands in `aiperf lint`."""
        from aiperf_core.harness.processes.child import ChildError

        self.skip_without(self.device)
        device = self.conformance.measuring.device(self.device)
        request = {"target": self.target, "device": device, "params": self.smoke, "listed": self.listed}
        try:
            outcomes = self.conformance.ask("linter", "lint", **request)
        except ChildError as error:
            raise Wrong(f"{self.target['name']!r} could not be linted on {self.device}: {error}") from None
        problems = [one for one in outcomes if one["verdict"] == "problem"]
        if problems:
            raise Wrong("\n".join(f"{one['test']}: {one['found']}\n    {one['remedy']}" for one in problems))


class Kept(BenchmarkTest):
    """That a result of the target, with all of its implementations, is of the schema, and the same when it is read again."""

    def __init__(self, *, device: str, smoke: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.device, self.smoke = device, smoke

    def runtest(self) -> None:
        """Measure at the smallest sizes, write, and read."""
        from aiperf_core.errors import BundleError
        from aiperf_core.results.bundle import Bundle

        self.skip_without(self.device)
        try:
            result = self.conformance.measuring.measure(self.target["name"], device=self.device, **self.smoke)
        except AssertionError as error:
            verdict, _, reason = str(error).partition(": ")
            if verdict == "SKIPPED":
                pytest.skip(reason)
            raise Wrong(str(error)) from None
        with tempfile.TemporaryDirectory(prefix="aiperf-result-") as folder:
            try:
                bundle = Bundle.create_at(Path(folder) / "bundle")
                bundle.write_target(result)
                read = bundle.target(result.target)
            except BundleError as error:
                raise Wrong(f"{result.target} on {self.device}: its result cannot be kept: {error}") from None
        if read != result:
            raise Wrong(f"{result.target} on {self.device}: its result is another one when it is read again")


class Right(BenchmarkTest):
    """That an implementation is right on several draws of the inputs."""

    def __init__(
        self,
        *,
        device: str,
        smoke: dict[str, float],
        size: str,
        implementation: "DescribedImplementation",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.device, self.smoke, self.size, self.implementation = device, smoke, size, implementation

    def runtest(self) -> None:
        """Run it beside the reference; of several ranks, measure it, since the ranks need each other."""
        from aiperf_core.requirements import lacking
        from aiperf_core.targets import WORLD_SIZE

        self.skip_without(self.device)
        hardware = self.conformance.measuring.planner.hardware_of(self.device)
        for reason in filter(None, (lacking(text, hardware) for text in self.implementation.requires)):
            pytest.skip(reason)
        sizes = self.smoke
        if self.size == "awkward":
            sizes = self.conformance.awkward(self.target, self.device, self.smoke)
            if sizes == self.smoke:
                pytest.skip("the workload takes no other sizes than those of 'smoke'")
        wrong = self._measured(sizes) if WORLD_SIZE in sizes else self._tried(sizes)
        if wrong:
            said = ", ".join(f"{name}={size:g}" for name, size in sizes.items())
            where = f"{self.target['name']}:{self.implementation.name} on {self.device} at {said}"
            raise Wrong(f"{where}: {wrong}\n    {self.implementation.where}")

    def _tried(self, sizes: dict[str, float]) -> str | None:
        from aiperf_core.harness.processes.child import ChildError

        device = self.conformance.measuring.device(self.device)
        request = {"target": self.target, "device": device, "params": sizes}
        try:
            return self.conformance.ask("linter", "try", **request, implementation=self.implementation.name)  # type: ignore[no-any-return]
        except ChildError as error:
            if error.kind == "skip":
                pytest.skip(str(error))
            return str(error)

    def _measured(self, sizes: dict[str, Any]) -> str | None:
        from aiperf_core.testing import problems

        name = f"{self.target['name']}:{self.implementation.name}"
        try:
            result = self.conformance.measuring.measure(name, device=self.device, **sizes)
        except AssertionError as error:
            verdict, _, reason = str(error).partition(": ")
            if verdict == "SKIPPED":
                pytest.skip(reason)
            return str(error)
        (row,) = [one for one in result.rows if one.name == self.implementation.name]
        if row.verdict == "SKIPPED":
            pytest.skip(str(row.reason))
        return "; ".join(problems(result)) or None
