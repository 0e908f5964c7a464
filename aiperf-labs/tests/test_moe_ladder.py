"""The ladder's Triton kernels are right where they are interpreted; `pytest --aiperf` tests what runs here."""

from pathlib import Path

from aiperf_core.testing import interpreted
from aiperf_labs import moe_ladder


def test_the_kernels_are_right_when_interpreted() -> None:
    assert interpreted(Path(__file__).with_name("interpreted_experts.py")) == "the experts are right\n"


def test_each_variant_without_a_mechanism_has_all_others() -> None:
    here = {one.name: {*moe_ladder.bench.mechanisms_of(one)} for one in moe_ladder.bench.implementations_on("cuda")}
    assert here["graph"] - here["without_gather"] == {"gathered operands"}
    assert here["graph"] - here["without_fusion"] == {"fused activation"}
    assert here["graph"] - here["fused"] == {"cuda graph"}
