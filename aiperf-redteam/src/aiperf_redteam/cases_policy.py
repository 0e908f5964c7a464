"""Cases of the issues of policy."""

from aiperf_core.validity.cases import Case
from aiperf_redteam.cases_output import pair

CASES: tuple[Case, ...] = (
    *pair(
        "policy.library_fallback", "ledger:library", "ledger:fills_buffer", ("cuda",), gains="silence", tier="standard"
    ),
    *pair("policy.ghost_branch", "cuda:ghost_branch", "cuda:one_kernel", ("cuda",), gains="silence", tier="standard"),
    *pair(
        "policy.wrapper_extension",
        "ledger:wrapped_library",
        "ledger:loads_module",
        ("cuda",),
        gains="silence",
        tier="standard",
    ),
    *pair("policy.decoy_kernel", "cuda:decoy_kernel", "cuda:one_kernel", ("cuda",), gains="silence", tier="standard"),
)
