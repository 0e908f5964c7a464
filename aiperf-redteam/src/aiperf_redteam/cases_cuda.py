"""Cases of the issues of CUDA."""

from aiperf_core.validity.cases import Case
from aiperf_redteam.cases_output import pair

CUDA = "aiperf_redteam.cuda"

CASES: tuple[Case, ...] = (
    Case(issue="cuda.host_callback_escape", module=CUDA, implementation="host_function", device="cuda"),
    Case(
        issue="cuda.host_callback_escape",
        module=CUDA,
        implementation="host_function_within",
        device="cuda",
        honest=True,
    ),
    Case(issue="cuda.async_memcpy_incomplete", module=CUDA, implementation="copy_under_way", device="cuda"),
    Case(issue="cuda.async_memcpy_incomplete", module=CUDA, implementation="copy_in_order", device="cuda", honest=True),
    Case(issue="cuda.workspace_pre_compute", module=CUDA, implementation="filled_workspace", device="cuda"),
    Case(issue="cuda.workspace_pre_compute", module=CUDA, implementation="kept_workspace", device="cuda", honest=True),
    Case(issue="cuda.persistent_kernel", module=CUDA, implementation="lingering", device="cuda"),
    Case(issue="cuda.persistent_kernel", module=CUDA, implementation="one_kernel", device="cuda", honest=True),
    Case(issue="cuda.undeclared_multi_gpu", module=CUDA, implementation="another_gpu", device="cuda"),
    Case(issue="cuda.undeclared_multi_gpu", module=CUDA, implementation="counts_gpus", device="cuda", honest=True),
    Case(issue="cuda.context_switch_overhead", module=CUDA, implementation="one_kernel", device="cuda", honest=True),
    Case(issue="cuda.driver_overhead", module=CUDA, implementation="driver_bound", device="cuda", gains="silence"),
    Case(issue="cuda.driver_overhead", module=CUDA, implementation="host_function_within", device="cuda", honest=True),
    Case(issue="cuda.dynamic_parallelism_hidden", module=CUDA, implementation="child_grids", device="cuda"),
    Case(
        issue="cuda.dynamic_parallelism_hidden",
        module=CUDA,
        implementation="child_grids_within",
        device="cuda",
        honest=True,
    ),
    Case(issue="cuda.unified_memory_faults", module=CUDA, implementation="filled_managed", device="cuda"),
    Case(issue="cuda.unified_memory_faults", module=CUDA, implementation="managed_in_call", device="cuda", honest=True),
    *pair(
        "cuda.cooperative_launch_abuse",
        "ledger:launched_past",
        "ledger:launched_within",
        ("cuda",),
        gains="silence",
        tier="standard",
    ),
    *pair(
        "cuda.context_switch_overhead",
        "contexts:rested",
        "contexts:in_halves",
        ("cuda",),
        gains="silence",
        tier="standard",
    ),
)
