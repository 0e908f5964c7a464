"""What a user asked of a run."""

from attrs import field, frozen


@frozen(kw_only=True)
class Options:
    """Options of a run.

    device: `cpu` or `cuda`; None takes the GPU where there is one and the target has a use for it.
    size: a preset's name; None takes the one named after the device. `params` override single sizes.
    budget_s: how long to sample one target, in seconds; sampling ends earlier when every interval is narrow enough.
    timeout_s: how long one call, or one preparation, may take before its process counts as hung.
    floor: the smallest relative difference that matters in practice.
    memory_limit_bytes: how much memory a worker on the CPU may take; None leaves it most of what is free.
    width: sampling may stop when half the interval of every speedup, relative to it, is below this.
    """

    device: str | None = None
    size: str | None = None
    params: dict[str, float] = field(factory=dict)
    budget_s: float = 5.0
    timeout_s: float = 60.0
    floor: float = 0.01
    width: float = 0.005
    memory_limit_bytes: int | None = None
