"""Benchmark: the declarations of a target, a workload with a baseline and variants, in one file.

    bench = Benchmark(goal="speed", clock="device")

    @bench.workload(smoke={"n": 4096}, cpu={"n": 1 << 22}, cuda={"n": 1 << 28})
    def inputs(n, device, generator): ...        # the values, new before every sample

    @bench.reference(tolerance=exact)
    def reference(a): ...                        # the right answer, computed by the judge

    @bench.cost
    def cost(n): ...                             # the least bytes and operations

    @bench.baseline(device="cpu", kind="naive")
    def strided(a): ...

    @bench.variant(device="cpu", why="...")
    class Wide:
        def prepare(self, a): ...                # untimed; may look at shapes, not at values
        def run(self, a): ...

The functions take arguments by name: sizes by the names in the presets, inputs by the keys that `inputs` returns. This
module runs nothing; the harness reads the declarations.
"""

import ast
import contextlib
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from attrs import Factory, define, evolve, field, frozen

from aiperf_core import simulated
from aiperf_core.claims import SassClaim
from aiperf_core.contributed import as_names
from aiperf_core.cost import WORK, Cost
from aiperf_core.errors import BenchmarkError
from aiperf_core.goal import Goal, make_goal
from aiperf_core.precision import DTYPE_BITS, dtype_of
from aiperf_core.prediction import Prediction
from aiperf_core.requirements import ACCEPTED, is_requirement
from aiperf_core.switches import variants_of, with_flags
from aiperf_core.targets import GOALS, WORLD_SIZE, is_device, is_name
from aiperf_core.tolerance import TOLERANCES, Tolerance

CLOCKS = ("device", "wall")
CACHES = ("cold", "warm")
SUBJECTS = ("device", "host")
EVICTED = "evicted"  # of `folder`
KINDS = ("reasonable", "naive", "antipattern")
BUILT_IN_METRICS = ("rel_l2", "max_abs_error", "one_minus_cosine")

_MECHANISM = re.compile(r"[a-z0-9][a-z0-9_ -]*")

Params = dict[str, float]
# Sizes as an author gives them: numbers, and a `dtype` by its name.
Sizes = Mapping[str, Any]
# The place of a mistake: a file and line, or the code.
Place = str | Callable[..., Any]
Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@frozen
class Lossy:
    """The declaration of a variant that changes the answer by design: its quality metric and the largest value."""

    metric: str
    budget: float


def lossy(metric: str, *, at_most: float) -> Lossy:
    """Declare the error budget of a lossy variant.

    metric: `rel_l2`, `max_abs_error`, `one_minus_cosine`, each zero for a perfect answer, or a metric of the workload.
    at_most: its largest accepted value.
    """
    return Lossy(metric, at_most)


@frozen
class Implementation:
    """Code that does the work on one kind of device, and its declarations."""

    name: str
    role: str
    device: str
    code: Callable[..., Any]
    why: str = ""
    kind: str | None = None
    requires: tuple[str, ...] = ()
    builds_on: str | None = None
    lossy: Lossy | None = None
    adds: tuple[str, ...] = ()
    cost: Callable[..., Cost] | None = None
    predict: str = ""
    teaches: str = ""

    @property
    def where(self) -> str:
        """File and line of the code, and its name. Not stored, because a class needs a parse of its file."""
        return _where(self.code)

    @property
    def is_class(self) -> bool:
        """Whether the code is a class with `prepare` and `run` rather than a function."""
        return inspect.isclass(self.code)


@frozen
class Workload:
    """The work itself: sizes, inputs, static arguments, and inputs that a call may change.

    floor: the sizes at which an implementation leaves the host's work alone; empty where none were declared.
    """

    inputs: Callable[..., dict[str, Any]]
    presets: Mapping[str, Params]
    state: tuple[str, ...] = ()
    static: Callable[..., dict[str, Any]] | None = None
    files: tuple[str, ...] = ()
    served: tuple[str, ...] = ()
    floor: Params = field(factory=dict)


@define
class Benchmark:
    """The declarations of a target, filled by its decorators in the order of the file.

    goal: what a variant improves: `speed`, `latency`, `throughput` or `memory`.
    clock: `device` for the GPU's own time, `wall` for the time that the caller waits, launches included.
    cache: `cold` flushes the last-level cache before every sample; `warm` leaves the fresh inputs in it, for work that
        lives there by design (its bytes then set no bound).
    threads: pins every implementation on the CPU to this number of CPUs, and torch to as many threads; None for all.
    folder: implementations may ask for `folder`, the path of an empty folder of their own on disk; the end of the run
        removes it. With `evicted` its files are not in the page cache when a call starts.
    deferred: a call may return before its work is done; the timed part is how long the caller is held up. Every
        implementation is then a class with `run`, `finish`, which waits for the work, and `output`, which returns what
        is judged. Both are excluded from all timings; the time until `finish` returns is recorded as `until_done_s`.
    prepare_timeout_s: seconds after which a preparation counts as hung, if longer than the default: for compilers,
        which take minutes on a slow machine.
    no_gain_on: devices on which no variant is expected to be better, with the reason; a run there checks the answers.
    subject: `device`, or `host` where the lesson is what the host does: launches, waits, allocations. A `why` about a
        row of which the host takes most is then right.
    """

    goal: str
    clock: str = "device"
    cache: str = "cold"
    threads: int | None = None
    folder: bool | str = False
    deferred: bool = False
    prepare_timeout_s: float = 0.0
    no_gain_on: Mapping[str, str] = field(factory=dict)
    subject: str = "device"
    metrics: dict[str, Callable[..., float]] = field(init=False, factory=dict)
    implementations: list[Implementation] = field(init=False, factory=list)
    simulation: simulated.Simulated | None = field(init=False, default=None)
    goals: list[Goal] = field(init=False, factory=list)
    claims: list[SassClaim] = field(init=False, factory=list)
    awkward_sizes: list[Params] | None = field(init=False, default=None)
    accepted: dict[str, str] = field(init=False, factory=dict)
    where: str = field(init=False, default=Factory(lambda: _caller()))
    _workload: Workload | None = field(init=False, default=None)
    _static: Callable[..., dict[str, Any]] | None = field(init=False, default=None)
    _reference: Callable[..., Any] | None = field(init=False, default=None)
    _tolerance: Tolerance | Callable[..., Tolerance] | None = field(init=False, default=None)
    _cost: Callable[..., Cost] | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._accept("goal", self.goal, GOALS)
        self._accept("clock", self.clock, CLOCKS)
        self._accept("cache", self.cache, CACHES)
        self._accept("subject", self.subject, SUBJECTS)
        if self.folder not in (False, True, EVICTED):
            self._mistake(self.where, f"has folder={self.folder!r}; accepted are True and {EVICTED!r}")
        if self.folder == EVICTED and self.cache == "warm":
            self._mistake(self.where, f"has folder={EVICTED!r} and cache='warm'; evicted files are for cold calls")
        if self.threads is not None and (type(self.threads) is not int or self.threads < 1):
            self._mistake(self.where, f"has threads={self.threads!r}; accepted are whole numbers from 1")
        limit = self.prepare_timeout_s
        if type(limit) not in (int, float) or not 0 <= limit < math.inf:
            self._mistake(self.where, f"has prepare_timeout_s={limit!r}; accepted are seconds from 0")
        if self.deferred and self.cache == "warm":
            self._mistake(
                self.where, "has deferred=True and cache='warm'; deferred calls are timed one at a time, cold"
            )
        told = self.no_gain_on.items() if isinstance(self.no_gain_on, Mapping) else ()
        if not all(isinstance(one, str) and isinstance(why, str) and why.strip() for one, why in told) or (
            self.no_gain_on and not told
        ):
            self._mistake(
                self.where,
                f"has no_gain_on={self.no_gain_on!r}; accepted are devices with a reason, such as {{'cpu': '...'}}",
            )

    # --- declarations, in the order of a file

    def workload(
        self,
        *,
        state: str | Iterable[str] = (),
        files: str | Iterable[str] = (),
        served: str | Iterable[str] = (),
        floor: Sizes | None = None,
        **presets: Sizes,
    ) -> Callable[[Decorated], Decorated]:
        """Declare the inputs and their sizes.

        The function takes the sizes by name, `device` (the torch name) and `generator`, and returns a dict of inputs:
        tensors, numbers or nested containers of them. The harness calls it with a new seed before every sample and
        copies the values to fixed addresses.

        presets: each keyword is a preset of sizes. `smoke` is required; a preset named after a device is its default.
            A size `dtype`, `bf16` or `fp32`, is stored as the number `bits`; functions take either, `dtype` as torch's.
        state: inputs that a call may change; the harness restores them.
        files: CPU tensors that implementations read from disk. They get the path of a file with the bytes, which with
            cache='cold' is not in the page cache when a call starts.
        served: makes the workload a trace of requests, and names tensors with a row for each request. The input
            `arrival_s` has their arrivals in seconds from the start of a call. Implementations ask for `desk` (see
            `aiperf_core.serving`); the reference takes the tensors and returns a dict of tensors with a row for each
            request. An answer within the size `deadline_s` counts as good. Latencies are recorded beside the time.
        floor: the sizes of the tensors, each as small as the code takes it, such as `{"n": 1}`. Those that are left out
            are the length of the program, such as its steps, and stay. A run by the wall clock then times every
            implementation at these sizes too: its host floor. Conformance tests it there.

        A size named `world_size` is the number of ranks, each a process of torch's elastic launcher. The function is
        then called for each rank, takes `rank` too, and returns the inputs of that rank.
        """

        def declare(function: Decorated) -> Decorated:
            self._only_one("workload", self._workload, function)
            numbers = {name: self._numbers(function, sizes) for name, sizes in presets.items()}
            self._check_served(function, as_names(served), numbers)
            self._check_presets(function, numbers)
            sizes = next(iter(numbers.values()))
            self._check_arguments(function, _given_to_draw(sizes))
            if files and WORLD_SIZE in sizes:
                self._mistake(function, f"has files={files!r} and ranks; files are for workloads of one process")
            smallest = self._numbers(function, floor or {})
            self._check_floor(function, smallest, sizes, served=bool(served), files=bool(files))
            self._workload = Workload(
                function, numbers, as_names(state), files=as_names(files), served=as_names(served), floor=smallest
            )
            return function

        return declare

    def static(self, function: Decorated) -> Decorated:
        """Declare arguments that may be prepared ahead, such as weights or an index.

        The function has the form of the workload's. Its values are drawn once a process and stay the same. `prepare`
        may read them; its time is printed beside the result.
        """
        self._only_one("static", self._static, function)
        self._static = function
        return function

    def reference(self, *, tolerance: Tolerance | Callable[..., Tolerance]) -> Callable[[Decorated], Decorated]:
        """Declare the right answer and the tolerance of outputs.

        The judge calls the function with inputs by name, floating-point inputs in float64 unless the tolerance is
        exact. It returns what an implementation must return, with the same structure and shapes. With several ranks
        each input is a list with an item for each rank, and so is the result.

        tolerance: one for all sizes, or a function of the sizes, as where a size chooses the precision.
        """

        def declare(function: Decorated) -> Decorated:
            if not (isinstance(tolerance, Tolerance) or inspect.isfunction(tolerance)):
                accepted = ", ".join(TOLERANCES)
                self._mistake(function, f"has tolerance={tolerance!r}; accepted are {accepted}")
            self._only_one("reference", self._reference, function)
            self._reference, self._tolerance = function, tolerance
            return function

        return declare

    def cost(self, function: Decorated) -> Decorated:
        """Declare the least work by a function of the sizes that returns a `Cost`."""
        self._only_one("cost", self._cost, function)
        self._cost = function
        return function

    def simulated(self, *, metric: str, seeds: int = 20) -> None:
        """Declare that the implementations simulate a schedule, and return the virtual time that it takes.

        Each returns a dict: what the reference returns, and the item `metric` with the virtual seconds; less is better.
        A sample is a seed, which draws the inputs of all implementations; no clock runs and nothing sleeps. The optimum
        of the cost, `Cost(optimum_s=...)`, is the bound: the least virtual time that any schedule can take.

        seeds: how many each implementation is simulated for.
        """
        try:
            self.simulation = simulated.Simulated(metric, seeds)
        except BenchmarkError as error:
            self._mistake(self.where, str(error))
        self.clock, self.cache = simulated.CLOCK, "warm"

    def metric(self, function: Decorated) -> Decorated:
        """Declare a quality metric, `f(output, reference) -> float`, zero for a perfect answer, named after itself."""
        self.metrics[function.__name__] = function
        return function

    def baseline(
        self,
        *,
        device: str | Iterable[str],
        kind: str,
        name: str | None = None,
        requires: str | Iterable[str] = (),
        cost: Callable[..., Cost] | None = None,
    ) -> Callable[[Decorated], Decorated]:
        """Declare the baseline of a device, with which its variants are compared.

        kind: `reasonable` (a competent first version), `naive` (plausible) or `antipattern` (teaches by being bad;
            excluded from summaries).
        cost: as of `variant`.
        """

        def declare(code: Decorated) -> Decorated:
            self._accept("kind", kind, KINDS, code)
            self._add(code, "baseline", device, name=name, requires=requires, kind=kind, cost=cost)
            return code

        return declare

    def variant(
        self,
        *,
        device: str | Iterable[str],
        why: str,
        name: str | None = None,
        requires: str | Iterable[str] = (),
        builds_on: str | None = None,
        adds: str | Iterable[str] = (),
        lossy: Lossy | None = None,
        cost: Callable[..., Cost] | None = None,
        predict: str = "",
        teaches: str = "",
    ) -> Callable[[Decorated], Decorated]:
        """Declare an implementation that should be better than the baseline.

        why: the mechanism that makes it better, in one sentence.
        builds_on: the variant that it extends by one mechanism; the result then shows the gain of that step too.
        adds: that mechanism in a few words, such as `double buffering`. A variant that builds on none may list several
            mechanisms; analyses separate their effects.
        lossy: the error budget of a variant that changes the answer by design.
        cost: the least work of this variant, a function of the sizes as for `cost`, where it is not the workload's:
            launches that this form cannot do without, or the precision and the bytes of a lossy one.
        predict: the gain that the author expects over `builds_on`, or over the baseline, at the sizes of the device's
            preset, with the arithmetic behind it: `1.6 to 1.9x: 1.2 ms of copies beside 1.0 ms of products`.
        teaches: of a step that gains nothing, the lesson of the loss.
        """

        def declare(code: Decorated) -> Decorated:
            if predict:
                try:
                    Prediction.parse(predict)
                except BenchmarkError as error:
                    self._mistake(code, str(error))
            if not isinstance(why, str) or not why.strip():
                self._mistake(code, "is a variant without a reason; say in why='...' what makes it faster")
            if lossy is not None and not (isinstance(lossy, Lossy) and lossy.budget >= 0):
                self._mistake(code, f"has lossy={lossy!r}; accepted is lossy('rel_l2', at_most=0.01)")
            names = as_names(adds)
            known = all(isinstance(name, str) and _MECHANISM.fullmatch(name) for name in names)
            if not known or len({*names}) < len(names):
                self._mistake(code, f"has adds={adds!r}; accepted are different names in lower case, as 'wide loads'")
            if builds_on is not None and len(names) > 1:
                added = ", ".join(names)
                self._mistake(
                    code, f"adds {len(names)} mechanisms to {builds_on!r} ({added}); a step adds one: make two"
                )
            self._add(
                code,
                "variant",
                device,
                name=name,
                requires=requires,
                why=why,
                builds_on=builds_on,
                lossy=lossy,
                adds=names,
                cost=cost,
                predict=predict,
                teaches=teaches,
            )
            return code

        return declare

    def yardstick(
        self,
        *,
        device: str | Iterable[str],
        why: str = "",
        name: str | None = None,
        requires: str | Iterable[str] = (),
        cost: Callable[..., Cost] | None = None,
    ) -> Callable[[Decorated], Decorated]:
        """Declare a library call that is timed beside the variants and is not counted as a variant.

        cost: as of `variant`.
        """

        def declare(code: Decorated) -> Decorated:
            self._add(code, "yardstick", device, name=name, requires=requires, why=why, cost=cost)
            return code

        return declare

    def switches(
        self,
        flags: type,
        *,
        device: str | Iterable[str],
        ladder: Sequence[str] = (),
        leave_one_out: bool = False,
        requires: str | Iterable[str] = (),
    ) -> Callable[[Decorated], Decorated]:
        """Declare the variants of a class that reads in `self.flags` which of its mechanisms are on.

        flags: a frozen dataclass whose fields are `switches.switch(...)`.
        ladder: the names of flags, each of which is turned on by a variant that builds on the one before; all flags in
            order by default. The first builds on the class itself, where that is a variant.
        leave_one_out: declare the whole ladder without each mechanism, too: `without_NAME`.
        requires: of all these variants.
        """

        def declare(code: Decorated) -> Decorated:
            if not inspect.isclass(code):
                self._mistake(code, "has switches; accepted is a class that reads self.flags")
            try:
                variants = list(variants_of(flags, ladder, leave_one_out))
            except BenchmarkError as error:
                self._mistake(code, str(error))
            place = _where(code).rpartition(" (")[0]
            own = (one.name for one in self.implementations if one.code is code and one.role == "variant")
            variants[0][1]["builds_on"] = next(own, None)
            for values, declared in variants:
                needs = (*as_names(requires), *declared.pop("requires"))
                self.variant(device=device, requires=needs, **declared)(
                    with_flags(code, values, declared["name"], place)
                )
            return code

        return declare

    def on(self, device: str | Iterable[str], *, requires: str | Iterable[str] = ()) -> "On":
        """Declare several implementations of a device, or of several, with what all of them require.

        cuda = bench.on("cuda", requires="sm_80")

        @cuda.variant(why="...")
        class Wide: ...
        """
        return On(self, as_names(device), as_names(requires))

    def awkward(self, *sizes: Sizes, **values: Iterable[float | str]) -> None:
        """Declare the sizes at which conformance tests every implementation besides `smoke`: those that break code.

        sizes: each replaces some sizes of `smoke`.
        values: of a single size, as in `awkward(n=(1, 31, 4099))`.

        Without them, and without `awkward()` for none, conformance tries primes just above the sizes of `smoke`.
        """
        if self.awkward_sizes is not None:
            self._mistake(self.where, "declares its awkward sizes a second time; give them in one bench.awkward(...)")
        single = [{name: value} for name, many in values.items() for value in many]
        self.awkward_sizes = [self._numbers(self.where, declared) for declared in (*sizes, *single)]

    def sass(
        self,
        kernel: str,
        *,
        has: str | Iterable[str] = (),
        lacks: str | Iterable[str] = (),
        loads_before_first_store: int | None = None,
        arch: str | Iterable[str] = (),
    ) -> None:
        """Claim what the machine code of a kernel is; see `SassClaim`. `aiperf kernels` checks it without a GPU.

        arch: the architectures that the claim is about; all for which the file is compiled by default.
        """
        try:
            claim = SassClaim(
                kernel=kernel,
                has=as_names(has),
                lacks=as_names(lacks),
                loads_before_first_store=loads_before_first_store,
                archs=as_names(arch),
            )
        except BenchmarkError as error:
            self._mistake(self.where, str(error))
        self.claims.append(claim)

    def accept(self, test: str, *, because: str) -> None:
        """Accept a note of `aiperf lint` that is right for this benchmark, such as `cost.bytes_read`."""
        if not because.strip():
            self._mistake(self.where, f"accepts {test!r} without a reason; say it in because='...'")
        self.accepted[test] = because

    def reach(
        self,
        *,
        of: str,
        at_least: float | None = None,
        at_most: float | None = None,
        device: str = "cuda",
        implementation: str | None = None,
        size: str | None = None,
        params: Sizes | None = None,
        launches: int = 1,
        cause: str = "",
        shown_by: str = "",
    ) -> None:
        """Declare a figure that the target is to reach; see `aiperf_core.goal` for `of`, and `Goal` for the rest.

        Give one of `at_least` and `at_most`. A goal that is missed needs a `cause`, and in `shown_by` the measurement
        that shows it.
        """
        if params is not None and not isinstance(params, Mapping):
            self._mistake(self.where, f"has a goal with params={params!r}; accepted are sizes, such as {{'n': 4096}}")
        try:
            declared = make_goal(
                of=of,
                at_least=at_least,
                at_most=at_most,
                device=device,
                implementation=implementation,
                size=size,
                params=self._numbers(self.where, params or {}),
                launches=launches,
                cause=cause,
                shown_by=shown_by,
            )
        except BenchmarkError as error:
            self._mistake(self.where, str(error))
        self.goals.append(declared)

    # --- what the harness reads

    @property
    def task(self) -> Workload:
        """The workload with its static arguments. The benchmark must have passed `check`."""
        assert self._workload is not None
        return evolve(self._workload, static=self._static)

    @property
    def tried_sizes(self) -> list[Params]:
        """The sizes of the presets, the awkward ones, and those of the floor."""
        presets = self._workload.presets if self._workload else {}
        more = [*(self.awkward_sizes or ()), *filter(None, [self._workload.floor if self._workload else {}])]
        awkward = ({**presets.get("smoke", {}), **sizes} for sizes in more)
        return [*presets.values(), *awkward]

    def rehearse(self, implementation: Implementation, sizes: Params) -> None:
        """Prepare and call an implementation once on tensors that have shapes and dtypes, and no values.

        They are torch's fake tensors on the CPU: nothing is allocated, and no kernel of torch runs. Code that reads a
        value or an address raises. Exceptions pass through.
        """
        import torch
        from torch._functorch import config
        from torch._subclasses.fake_tensor import FakeTensorMode

        task = self.task
        given = {**sizes, "device": "cpu", "rank": 0, "generator": torch.Generator().manual_seed(0)}
        with config.patch(fake_tensor_allow_unsafe_data_ptr_access=False):
            fake = FakeTensorMode(allow_non_fake_inputs=True)
        with fake:
            drawn: dict[str, Any] = {}
            for draw in filter(None, (task.static, task.inputs)):
                drawn |= call_with(draw, given)
            known = {**sizes, **drawn, "rank": 0}
            code: Any = implementation.code() if implementation.is_class else implementation.code
            if hasattr(code, "prepare"):
                call_with(code.prepare, known)
            call_with(code.run if implementation.is_class else code, known)

    def tolerance_at(self, params: Params) -> Tolerance:
        """The tolerance of outputs at these sizes."""
        assert self._tolerance is not None
        if isinstance(self._tolerance, Tolerance):
            return self._tolerance
        found = call_with(self._tolerance, params)
        if not isinstance(found, Tolerance):
            self._mistake(self._tolerance, f"returned {found!r}; accepted is a tolerance: {', '.join(TOLERANCES)}")
        return found

    @property
    def tolerances(self) -> dict[str, str]:
        """The tolerance at each preset of sizes, in words."""
        return {name: str(self.tolerance_at(sizes)) for name, sizes in self.task.presets.items()}

    def work(self, params: Params) -> Cost:
        """The cost at one size."""
        assert self._cost is not None
        return self._cost_by(self._cost, params)

    def own_work(self, implementation: Implementation, params: Params) -> dict[str, Any]:
        """The fields of an implementation's own cost that differ from the workload's.

        Raises `BenchmarkError` where an implementation that is not lossy declares less work than the workload.
        """
        if implementation.cost is None:
            return {}
        declared, least = self._cost_by(implementation.cost, params), self.work(params)
        differing = {name: getattr(declared, name) for name in (*WORK, "precision")}
        differing = {name: value for name, value in differing.items() if value != getattr(least, name)}
        for name in WORK:
            if not implementation.lossy and differing.get(name, math.inf) < getattr(least, name):
                self._mistake(
                    implementation.cost,
                    f"returned {name}={differing[name]:g} for {implementation.name!r}, and the workload's cost, which "
                    f"is the least, has {getattr(least, name):g}; accepted are equal or larger amounts",
                )
        return differing

    def _cost_by(self, function: Callable[..., Cost], params: Params) -> Cost:
        try:
            cost = call_with(function, params)
        except BenchmarkError as error:
            where = _where(function)
            raise error if where in str(error) else BenchmarkError(f"{where}: {error}") from None
        if not isinstance(cost, Cost):
            self._mistake(function, f"returned {type(cost).__name__}; accepted is a Cost(bytes_read=...)")
        return cost

    def answer(self, params: Params, inputs: Mapping[str, Any]) -> Any:
        """The answer of the reference for these inputs."""
        assert self._reference is not None
        return call_with(self._reference, {**params, **inputs})

    @property
    def reference_where(self) -> str:
        """File and line of the reference, for messages."""
        assert self._reference is not None
        return _where(self._reference)

    def mechanisms_of(self, implementation: Implementation) -> tuple[str, ...]:
        """The mechanisms that an implementation combines: what it adds, and what those before it on the ladder add."""
        below = next(
            (
                other
                for other in self.implementations_on(implementation.device)
                if other.name == implementation.builds_on and other is not implementation
            ),
            None,
        )
        return (*(self.mechanisms_of(below) if below else ()), *implementation.adds)

    @property
    def devices(self) -> list[str]:
        """The names of the devices with implementations, sorted."""
        return sorted({one.device for one in self.implementations})

    def implementations_on(self, device: str) -> list[Implementation]:
        """The implementations for a device: baseline, variants in the file's order, yardsticks."""
        here = [one for one in self.implementations if one.device == device]
        return sorted(here, key=lambda one: ("baseline", "variant", "yardstick").index(one.role))

    def check(self) -> None:
        """Check the declarations of the whole file. Raises `BenchmarkError` for missing or wrong ones."""
        if self._workload is None:
            self._mistake(self.where, "has no workload; declare one with @bench.workload(smoke={...})")
        if self._reference is None:
            self._mistake(self.where, "has no reference; declare the right answer with @bench.reference(tolerance=...)")
        if self._cost is None:
            self._mistake(self.where, "has no cost; declare the least work with @bench.cost")
        if self._static is not None:
            sizes = next(iter(self.task.presets.values()))
            self._check_arguments(self._static, _given_to_draw(sizes))
        for function in (self._cost, *filter(None, {one.cost for one in self.implementations})):
            self._check_arguments(function, _names_of(next(iter(self.task.presets.values()))))
        for device in {one.device for one in self.implementations}:
            self._check_device(device)
        for device in self.no_gain_on:
            if device not in self.devices:
                found = ", ".join(self.devices) or "none"
                self._mistake(self.where, f"has no_gain_on {device!r}, and no implementation for it; there are {found}")
        for declared in self.goals:
            self._check_goal(declared)
        self._check_simulated()
        self._check_awkward()
        if not self.implementations:
            self._mistake(self.where, "has no implementation; declare a @bench.baseline and a @bench.variant")

    # --- mistakes

    def _add(self, code: Callable[..., Any], role: str, device: str | Iterable[str], **declared: Any) -> None:
        name = declared.pop("name") or getattr(code, "declared_name", "") or snake_case(code.__name__)
        if not is_name(name):
            self._mistake(code, f"cannot be named {name!r}; accepted is a Python identifier, such as 'coalesced'")
        requires = as_names(declared.pop("requires"))
        for text in requires:
            if not is_requirement(text):
                self._mistake(code, f"requires {text!r}; accepted are {ACCEPTED}")
        if inspect.isclass(code) and not callable(getattr(code, "run", None)):
            self._mistake(
                code, f"is a class without run(self, ...); {name!r} needs it, and may have prepare(self, ...)"
            )
        if self.deferred and not all(callable(getattr(code, method, None)) for method in ("run", "finish", "output")):
            self._mistake(
                code, f"is not deferred; {name!r} needs a class with run(self, ...), finish(self), output(self)"
            )
        if not as_names(device):
            self._mistake(code, "names no device; accepted are cpu, cuda and those of plugins")
        for one in as_names(device):
            if not is_device(one):
                self._mistake(code, f"has device={one!r}; accepted are cpu, cuda and those of plugins, such as 'xpu'")
            twin = next((other for other in self.implementations if (other.name, other.device) == (name, one)), None)
            if twin:
                self._mistake(
                    code, f"is a second implementation named {name!r} for {one}; the first is at {twin.where}"
                )
            if hasattr(code, "graph_of"):
                self._resolve_graph(code, one)
            self.implementations.append(Implementation(name, role, one, code, requires=requires, **declared))

    def _resolve_graph(self, code: Any, device: str) -> None:
        """Put the code of the named implementation into an implementation that `graphs.graphed` made."""
        if device != "cuda":
            self._mistake(code, f"is a CUDA graph on {device!r}; declare it on 'cuda'")
        if isinstance(code.graph_of, str):
            codes = {other.name: other.code for other in self.implementations_on(device)}
            if code.graph_of not in codes:
                known = ", ".join(codes) or "none"
                self._mistake(code, f"is a graph of {code.graph_of!r}; declared before it on {device!r} are {known}")
            code.graph_of = codes[code.graph_of]

    def _check_device(self, device: str) -> None:
        here = self.implementations_on(device)
        baselines = [one for one in here if one.role == "baseline"]
        if not baselines:
            self._mistake(
                here[0].where, f"has no baseline to compare with on {device!r}; declare @bench.baseline for it"
            )
        if len(baselines) > 1:
            self._mistake(
                baselines[1].where, f"is a second baseline for {device!r}; the first is at {baselines[0].where}"
            )
        for one in here:
            names = [other.name for other in here if other is not one]
            if one.builds_on is not None and one.builds_on not in names:
                self._mistake(one.where, f"builds on {one.builds_on!r}; known on {device!r} are {', '.join(names)}")
            steps, step = {one.name}, one
            while step.builds_on is not None:
                step = next(other for other in here if other.name == step.builds_on)
                if step.name in steps:
                    self._mistake(one.where, f"builds on itself, through {step.name!r}")
                steps.add(step.name)
            if one.lossy and one.lossy.metric not in (*BUILT_IN_METRICS, *self.metrics):
                accepted = ", ".join((*BUILT_IN_METRICS, *self.metrics))
                self._mistake(one.where, f"has the metric {one.lossy.metric!r}; accepted are {accepted}")

    def _check_awkward(self) -> None:
        known = self.task.presets["smoke"]
        for sizes in self.awkward_sizes or ():
            for name, value in sizes.items():
                if name not in known:
                    self._mistake(self.where, f"has an awkward size {name!r}; sizes are {', '.join(known)}")
                if isinstance(value, bool) or not isinstance(value, int | float):
                    self._mistake(self.where, f"has the awkward size {name}={value!r}; accepted are numbers")

    def _check_simulated(self) -> None:
        if self.simulation is None:
            return
        task = self.task
        if self.goal == "memory" or self.deferred or task.files or task.served or task.floor:
            self._mistake(
                self.where,
                "is simulated; accepted for that is a goal of time, not deferred, without files, served requests and a "
                "floor",
            )
        for name, sizes in task.presets.items():
            if WORLD_SIZE in sizes:
                self._mistake(self.where, f"is simulated; preset {name!r} has ranks, and accepted is one process")
            cost = self.work(sizes)
            if any(getattr(cost, amount) for amount in WORK):
                self._mistake(self.where, "is simulated; its cost has Cost(optimum_s=..., tokens=...) and nothing else")
        if self.devices != ["cpu"]:
            self._mistake(self.where, f"is simulated; accepted is the device cpu, found {', '.join(self.devices)}")

    def _check_goal(self, goal: Goal) -> None:
        here = [one.name for one in self.implementations_on(goal.device)]
        if not here:
            found = ", ".join(self.devices) or "none"
            self._mistake(self.where, f"has a goal on {goal.device!r}, and no implementation for it; there are {found}")
        for name in (*goal.others, *filter(None, [goal.implementation])):
            if name not in here:
                self._mistake(self.where, f"has a goal about {name!r}; known on {goal.device!r} are {', '.join(here)}")
        presets = self.task.presets
        if goal.preset not in presets:
            self._mistake(self.where, f"has a goal at the size {goal.preset!r}; there are {', '.join(presets)}")
        unknown = [name for name in goal.params if name not in presets[goal.preset]]
        if unknown:
            sizes = ", ".join(presets[goal.preset])
            self._mistake(self.where, f"has a goal with params {unknown}; sizes are {sizes}")
        for name, value in goal.params.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                self._mistake(self.where, f"has a goal with {name}={value!r}; accepted are numbers")

    def _only_one(self, what: str, present: object, function: Callable[..., Any]) -> None:
        if present is not None:
            self._mistake(function, f"declares a second {what}; a target has one")

    def _numbers(self, where: Place, sizes: Sizes) -> Params:
        """Sizes with the number of bits of a dtype in place of its name."""
        if "dtype" not in sizes:
            return dict(sizes)
        dtype = sizes["dtype"]
        if dtype not in DTYPE_BITS:
            self._mistake(where, f"has dtype={dtype!r}; accepted are {', '.join(DTYPE_BITS)}")
        if "bits" in sizes:
            self._mistake(where, f"has dtype={dtype!r} and bits={sizes['bits']!r}; give the dtype alone")
        return dict(("bits", DTYPE_BITS[dtype]) if key == "dtype" else (key, value) for key, value in sizes.items())

    def _check_presets(self, where: Place, presets: Mapping[str, Params]) -> None:
        if "smoke" not in presets:
            found = ", ".join(presets) or "none"
            self._mistake(where, f"has no preset of sizes named 'smoke' (found: {found}); give smoke={{...}}")
        sizes = set(presets["smoke"])
        for name, preset in presets.items():
            if set(preset) != sizes:
                self._mistake(where, f"has sizes {sorted(preset)} in preset {name!r}, but {sorted(sizes)} in 'smoke'")
            for key, value in preset.items():
                if isinstance(value, bool) or not isinstance(value, int | float):
                    self._mistake(where, f"has {key}={value!r} in preset {name!r}; accepted are numbers")
                if key == WORLD_SIZE and (not isinstance(value, int) or value < 1):
                    self._mistake(where, f"has {key}={value!r} in preset {name!r}; accepted are whole numbers from 1")

    def _check_floor(self, where: Place, floor: Params, sizes: Params, *, served: bool, files: bool) -> None:
        if not floor:
            return
        if self.clock != "wall" or self.deferred or served or files or WORLD_SIZE in sizes:
            self._mistake(
                where,
                "has a floor; accepted for that is Benchmark(clock='wall') in one process, not deferred, without files "
                "and not served",
            )
        for name, value in floor.items():
            if name not in sizes:
                self._mistake(where, f"has a floor of {name!r}; sizes are {', '.join(sizes)}")
            if isinstance(value, bool) or not isinstance(value, int | float):
                self._mistake(where, f"has the floor {name}={value!r}; accepted are numbers")

    def _check_served(self, where: Place, served: tuple[str, ...], presets: Mapping[str, Params]) -> None:
        if not served:
            return
        if self.clock != "wall" or self.deferred:
            self._mistake(where, "serves requests; accepted for that is Benchmark(clock='wall'), not deferred")
        for name, preset in presets.items():
            if WORLD_SIZE in preset or not preset.get("deadline_s", 0) > 0:
                self._mistake(
                    where, f"serves requests; preset {name!r} needs the size 'deadline_s', above 0, and one process"
                )

    def _check_arguments(self, function: Callable[..., Any], accepted: set[str]) -> None:
        unknown = [name for name in _required(inspect.signature(function).parameters.values()) if name not in accepted]
        if unknown:
            self._mistake(
                function, f"takes {', '.join(map(repr, unknown))}; accepted are {', '.join(sorted(accepted))}"
            )

    def _accept(self, what: str, value: str, accepted: tuple[str, ...], where: Place | None = None) -> None:
        if value not in accepted:
            self._mistake(where or self.where, f"has {what}={value!r}; accepted are {', '.join(accepted)}")

    def _mistake(self, where: Place, what: str) -> NoReturn:
        raise BenchmarkError(f"{where if isinstance(where, str) else _where(where)}: {what}.")


@frozen
class On:
    """The declarations of a benchmark for some devices. Each method takes code, or decorates it."""

    benchmark: Benchmark
    devices: tuple[str, ...]
    requires: tuple[str, ...]

    def baseline(self, code: Any = None, /, **declared: Any) -> Any:
        """See `Benchmark.baseline`."""
        return self._declare(self.benchmark.baseline, code, declared)

    def variant(self, code: Any = None, /, **declared: Any) -> Any:
        """See `Benchmark.variant`."""
        return self._declare(self.benchmark.variant, code, declared)

    def yardstick(self, code: Any = None, /, **declared: Any) -> Any:
        """See `Benchmark.yardstick`."""
        return self._declare(self.benchmark.yardstick, code, declared)

    def switches(self, flags: type, **declared: Any) -> Any:
        """See `Benchmark.switches`."""
        return self._declare(partial(self.benchmark.switches, flags), None, declared)

    def reach(self, **declared: Any) -> None:
        """See `Benchmark.reach`."""
        for device in self.devices:
            self.benchmark.reach(device=device, **declared)

    def _declare(self, role: Callable[..., Any], code: Any, declared: dict[str, Any]) -> Any:
        more = as_names(declared.pop("requires", ()))
        # An architecture in place of the common one, not besides it.
        replaced = "sm_" if any(text.startswith("sm_") for text in more) else "\0"
        common = [text for text in self.requires if not text.startswith(replaced)]
        declare = role(device=self.devices, requires=(*common, *more), **declared)
        return declare if code is None else declare(code)


def _given_to_draw(sizes: Iterable[str]) -> set[str]:
    """The names of arguments that the functions of a workload may take."""
    return {*_names_of(sizes), "device", "generator", *(("rank",) if WORLD_SIZE in sizes else ())}


def _names_of(sizes: Iterable[str]) -> set[str]:
    """The names of arguments that sizes give."""
    return {*sizes, *(("dtype",) if "bits" in sizes else ())}


def call_with(function: Callable[..., Any], available: Mapping[str, Any]) -> Any:
    """Call a function with the available arguments that its signature names."""
    return bind(function, available)()


def bind(function: Callable[..., Any], available: Mapping[str, Any]) -> partial[Any]:
    """Bind a function to the available arguments that its signature names; `**kwargs` takes all of them.

    Raises `BenchmarkError` for an argument that is not available.
    """
    parameters = inspect.signature(function).parameters.values()
    names = _required(parameters)
    if "dtype" in names and "dtype" not in available and "bits" in available:
        available = {**available, "dtype": dtype_of(available["bits"])}
    missing = [name for name in names if name not in available]
    if missing:
        raise BenchmarkError(
            f"{_where(function)}: asks for {', '.join(map(repr, missing))}; there are {', '.join(sorted(available))}."
        )
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return partial(function, **available)
    optional = {one.name for one in parameters if one.default is not one.empty and one.name in available}
    return partial(function, **{name: available[name] for name in (*names, *optional)})


def _required(parameters: Iterable[inspect.Parameter]) -> list[str]:
    """The names of the required arguments."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [one.name for one in parameters if one.kind in named and one.default is one.empty]


def snake_case(name: str) -> str:
    """The name of an implementation from the name of its class: `wide_loads` of `WideLoads`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _where(code: Callable[..., Any]) -> str:
    """File and line of a function or class, and its name."""
    source = inspect.unwrap(code)
    if declared_at := getattr(source, "declared_at", ""):
        return f"{declared_at} ({code.declared_name})"  # type: ignore[attr-defined]
    module = inspect.getmodule(source)
    file = getattr(module, "__file__", None) or getattr(getattr(source, "__code__", None), "co_filename", "?")
    line = getattr(getattr(source, "__code__", None), "co_firstlineno", None)
    if inspect.isclass(source):
        line = getattr(source, "__firstlineno__", None)  # of Python 3.13 and later
        if line is None:
            with contextlib.suppress(OSError, SyntaxError, ValueError):
                line = _class_lines(Path(str(file)).read_bytes()).get(source.__qualname__)
    return f"{file}:{line or '?'} ({source.__name__})"


@lru_cache(maxsize=4)
def _class_lines(text: bytes) -> dict[str, int]:
    """The first line of each class of a file, by its qualified name; that of a decorator where it has one.

    `inspect.getsourcelines` parses the file for each class anew. Raises `SyntaxError` and `ValueError` as `ast.parse`.
    """
    lines: dict[str, int] = {}

    def look(parent: ast.AST, prefix: str) -> None:
        for node in ast.iter_child_nodes(parent):
            inner = prefix
            if isinstance(node, ast.ClassDef):
                name = f"{prefix}{node.name}"
                lines.setdefault(name, min([node.lineno, *(one.lineno for one in node.decorator_list)]))
                inner = f"{name}."
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = f"{prefix}{node.name}.<locals>."
            look(node, inner)

    look(ast.parse(text), "")
    return lines


def _caller() -> str:
    """File of the benchmark that is being declared: the first frame outside this module and attrs."""
    frame = inspect.currentframe()
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name != __name__ and not name.startswith("attr") and not frame.f_code.co_filename.startswith("<attrs"):
            return frame.f_code.co_filename
        frame = frame.f_back
    return "?"
