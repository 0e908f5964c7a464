"""A benchmark harness for GPU and AI-systems performance whose numbers can be believed.

This module is what an author of benchmarks imports; `aiperf_core.kernels` has the kernel sources, and
`aiperf_core.hookspecs` what a plugin may implement.
"""

from aiperf_core.benchmark import Benchmark, lossy
from aiperf_core.cost import Cost
from aiperf_core.tolerance import Tolerance, bf16, exact, fp8, fp32, fp32_reduction, tf32

__version__ = "0.1.0"

__all__ = ["Benchmark", "Cost", "Tolerance", "bf16", "exact", "fp8", "fp32", "fp32_reduction", "lossy", "tf32"]
