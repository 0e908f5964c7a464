"""The cost that a benchmark declares, compared with the work that is observed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from aiperf_core import pytree
from aiperf_core.units import percent
from aiperf_core.validity.lint import SAME_WORK, Outcome, outcome

# Factors for what an author may round or leave out of figures computed from the same sizes.
SLACK = 1.02
BYTES_SLACK = 1.05
# The most FLOPs per element that are usually counted for one torch operation: layer norm, softmax, GELU.
OPERATIONS_AN_ELEMENT = 8
# No last cache of a GPU, and no processor's share of one, holds more.
LAST_CACHE_BYTES = 128 << 20
REPEATED = "cost.repeated_reads"
# The part of what all steps read, up to which static arguments were counted once, or for a few steps only.
COUNTED_ONCE = 0.5
# The largest difference between the work of two draws, as a part of the larger one.
SPREAD = 0.02


class Work(TorchDispatchMode):
    """Counts operations.

    products: FLOPs of matrix products and convolutions, by torch's formulas.
    elements: elements of the results of all other operations.

    Used in place of torch's `FlopCounterMode`, which imports the compiler at the first operation: seconds in each
    process.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        from torch.utils.flop_counter import flop_registry  # takes as long as the rest of a small target

        self._formulas = flop_registry
        self.products = 0
        self.elements = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or the compiler is imported for this mode too

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count it."""
        kwargs = kwargs or {}
        formula = self._formulas.get(function._overloadpacket)
        if formula is None:
            with self:  # in inference mode a linear layer arrives whole
                result = function.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = function(*args, **kwargs)
        if formula is not None:
            self.products += formula(*args, **kwargs, out_val=result)
        elif not function.is_view:
            self.elements += max((one.numel() for one in pytree.tensors([args, result])), default=0)
        return result


def flops(declared: float, work: Work) -> Outcome:
    """Compare the declared operations with those of the reference's matrix products and convolutions.

    Too high a figure makes honest code look faster than the speed of light. Products are counted exactly; each element
    of another operation may account for a few FLOPs. A lower figure is right where the reference does more than
    necessary (it masks what a kernel would skip), so it is only noted.
    """
    test, counted = "cost.flops", work.products
    if not counted:
        return Outcome(
            test, "not applicable", "the reference has no matrix products or convolutions, which can be counted"
        )
    most = SLACK * counted + OPERATIONS_AN_ELEMENT * work.elements
    found = f"declares {declared:,.0f} FLOP; the reference's products are {counted:,.0f}"
    if declared > most:
        found = f"{found}, and with all else at most {most:,.0f}"
        return Outcome(test, "problem", found, "Count a multiply-add as two, and only necessary operations.")
    if declared * SLACK < counted:
        return Outcome(
            test, "note", found, "Right where the reference does more than necessary; say so beside the cost."
        )
    return Outcome(test)


def bytes_read(declared: float, inputs: int, needed: Callable[[], Mapping[str, int]], *, warm: bool) -> Outcome:
    """Compare the declared bytes read with the inputs.

    needed: the bytes of the inputs of which the answer needs everything, by path.
    warm: whether inputs may be in a cache.

    A cost counts every input once. A higher figure makes honest code look faster than the speed of light. A lower
    figure is right where an answer needs only a part (a gather), and wrong where it needs everything: impossible
    results would then pass.
    """
    test = "cost.bytes_read"
    found = f"declares {declared:,.0f} bytes read; the inputs have {inputs:,.0f}"
    if declared > BYTES_SLACK * inputs:
        return Outcome(test, "problem", found, "Count every input once: what is read again can stay in a cache.")
    if declared * BYTES_SLACK >= inputs or warm:
        return Outcome(test)
    whole = needed()
    if declared * BYTES_SLACK < sum(whole.values()):
        found = f"{found}, and the answer depends on each of the {sum(whole.values()):,.0f} of {', '.join(whole)}"
        return Outcome(test, "problem", found, "Count every input once.")
    return Outcome(test, "note", found, "Right where the answer needs only a part of them; say so beside the cost.")


def bytes_written(declared: float, output: int, state: int, *, cold: bool) -> Outcome:
    """Compare the declared bytes written with the output and the state.

    With state, the output may be a part of the state that the call did not write, so that a lower figure is right.
    """
    test = "cost.bytes_written"
    found = f"declares {declared:,.0f} bytes written; output and state have {output + state:,.0f}"
    if declared > BYTES_SLACK * (output + state):
        return Outcome(test, "problem", found, "Count every output once: intermediate values stay in registers.")
    if declared * BYTES_SLACK < output and not state and cold:
        return Outcome(test, "problem", found, "Count every output once.")
    return Outcome(test)


def repeated_reads(presets: Mapping[str, tuple[int, float, int]]) -> Outcome:
    """Compare the declared bytes read with what many steps read of static arguments that no cache holds.

    presets: by name the steps of a call, the declared bytes, and the bytes of the static arguments.
    """
    large = {name: sizes for name, sizes in presets.items() if sizes[0] > 1 and sizes[2] > LAST_CACHE_BYTES}
    if not large:
        return Outcome(REPEATED, "not applicable", "a last cache may hold the static arguments from step to step")
    wrong = [
        f"{declared:,.0f} bytes at {name!r}, where each of {steps} steps has {static:,} of static arguments"
        for name, (steps, declared, static) in large.items()
        if declared <= COUNTED_ONCE * steps * static
    ]
    remedy = "Count weights for each step that reads them; say so beside the cost where a step needs a part of them."
    return outcome(REPEATED, wrong, "declares {}", remedy, "note")


def same_work(works: Sequence[Work]) -> Outcome:
    """Compare the work of the reference for several draws: samples of different work are not one time."""
    wrong = []
    for name in ("products", "elements"):
        amounts = [getattr(work, name) for work in works]
        least, most = min(amounts), max(amounts)
        if least < (1 - SPREAD) * most:
            wrong.append(f"the {name} of the reference ({least:,} to {most:,}, {percent(1 - least / most)})")
    found = f"{len(works)} draws differ by more than {percent(SPREAD)} in {{}}"
    remedy = "Draw schedules and orders once: with @bench.static, or from a generator with a seed of its own."
    return outcome(SAME_WORK, wrong, found, remedy)
