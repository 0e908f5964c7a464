import pytest

from aiperf_core.errors import UsageError
from aiperf_core.kernels.archs import arch_for, parse_arch


@pytest.mark.parametrize(
    ("machine", "declared", "expected"),
    [
        ("sm_80", ["sm_80"], "sm_80"),
        ("sm_90", ["sm_80"], "sm_90"),
        ("sm_120", ["sm_80"], "sm_120"),
        ("sm_75", ["sm_80"], None),
        ("sm_90", ["sm_90a"], "sm_90a"),
        ("sm_90a", ["sm_80"], "sm_90"),
        ("sm_100", ["sm_90a"], None),
        ("sm_80", ["sm_90a"], None),
        ("sm_90", ["sm_80", "sm_90a"], "sm_90a"),
        ("sm_100", ["sm_80", "sm_90a"], "sm_100"),
        ("sm_103", ["sm_100f"], "sm_100f"),
        ("sm_103", ["sm_100a"], None),
        ("sm_110", ["sm_100f"], None),
        ("sm_100", ["sm_103f"], None),
        ("sm_100", ["sm_100f", "sm_100a"], "sm_100a"),
    ],
)
def test_what_a_gpu_gets(machine: str, declared: list[str], expected: str | None) -> None:
    assert arch_for(parse_arch(machine), declared) == expected


@pytest.mark.parametrize("text", ["90a", "sm90", "sm_9", "sm_90b", "sm_90 ", "compute_90", ""])
def test_what_is_no_architecture(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not an architecture. One looks like 'sm_80', 'sm_90a' or 'sm_100f'\.$"):
        parse_arch(text)
