"""Policy: the answer is right, but not by the means claimed."""

from aiperf_core.validity.issues import NOTE, Issue
from aiperf_core.validity.registry import incidents as met

ISSUES = (
    Issue(
        id="policy.library_fallback",
        title="A library does the work",
        happens="Code said to be a kernel of its own calls a library for all that matters.",
        guard="cupti_ledger",
        protection=(
            "The kernels that ran stand in the result by name with their share of the time. Whether a library may be "
            "used is a rule of the task, told apart from fraud."
        ),
        needs=("cuda", "cupti"),
        severity=NOTE,
        incidents=(met.FIELD_GUIDE, met.MAKORA),
        owed="a machine with a CUDA GPU",
    ),
    Issue(
        id="policy.ghost_branch",
        title="The new code is never reached",
        happens="The optimised path stands behind a condition that never holds, and the ordinary path does everything.",
        guard="cupti_ledger",
        protection="The ledger shows what ran. A kernel in the source but not in the ledger took no part.",
        needs=("cuda", "cupti"),
        severity=NOTE,
        incidents=(met.MAKORA,),
        owed="a machine with a CUDA GPU",
    ),
    Issue(
        id="policy.wrapper_extension",
        title="A library behind an extension",
        happens="A compiled extension whose whole body is a call of a library passes for a kernel of one's own.",
        guard="cupti_ledger",
        protection="What the GPU ran is recorded with its name, through whichever language it was called.",
        needs=("cuda", "cupti", "compiler"),
        severity=NOTE,
        owed="a machine with a CUDA GPU and a C compiler",
    ),
    Issue(
        id="policy.decoy_kernel",
        title="A kernel for show",
        happens="A small kernel of its own runs beside the library's, so that a search for the name succeeds.",
        guard="cupti_ledger",
        protection="The ledger gives each kernel's share of the time and not only its name.",
        needs=("cuda", "cupti"),
        severity=NOTE,
        owed="a machine with a CUDA GPU",
    ),
)
