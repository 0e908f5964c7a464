"""A benchmark harness for GPU and AI-systems performance whose numbers can be believed.

Authors of benchmarks import this module, and `aiperf_core.kernels` for kernel sources. `compare` and `timeit` measure
functions where they are called. `run` measures targets from Python, and `aiperf_core.results` reads what runs leave
behind. `aiperf_core.hookspecs` has the hooks that a plugin may implement.
"""

from typing import TYPE_CHECKING, Any

from aiperf_core.benchmark import Benchmark, lossy
from aiperf_core.cost import Cost
from aiperf_core.precision import float32_precision
from aiperf_core.tolerance import Tolerance, bf16, exact, fp8, fp32, fp32_reduction, tf32
from aiperf_core.version import __version__

if TYPE_CHECKING:
    from aiperf_core.harness.run.from_python import run
    from aiperf_core.inline.compare import compare, do_bench, timeit
    from aiperf_core.results.models import RequestedTarget, RunRequest

__all__ = [
    "Benchmark",
    "Cost",
    "RequestedTarget",
    "RunRequest",
    "Tolerance",
    "__version__",
    "bf16",
    "compare",
    "do_bench",
    "exact",
    "float32_precision",
    "fp8",
    "fp32",
    "fp32_reduction",
    "lossy",
    "run",
    "tf32",
    "timeit",
]


def __getattr__(name: str) -> Any:
    # The harness is imported when it is used: an author's file needs none of it.
    if name == "run":
        from aiperf_core.harness.run.from_python import run

        return run
    if name in ("compare", "do_bench", "timeit"):
        from aiperf_core.inline import compare

        return getattr(compare, name)
    if name in ("RequestedTarget", "RunRequest"):
        from aiperf_core.results import models

        return getattr(models, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
