"""What stands around CUPTI."""

import subprocess
import sys

# On a machine without a GPU the profiler runs all the same, and has nothing to record.
SCRIPT = """
import sys
import torch
import torch.autograd.profiler
from torch.profiler import ProfilerActivity

torch.cuda.is_available = lambda: True
torch.cuda.synchronize = lambda *_: None
torch.autograd.profiler._supported_activities = lambda: {ProfilerActivity.CUDA}

from aiperf_core.devices import ledger

with ledger.profiler() as profile:
    torch.ones(3)
assert [event for event in profile.kineto_results.events() if ledger._on_gpu(event)] == []
print(*[name for name in ("torch._inductor", "torch._dynamo") if name in sys.modules])
"""


def test_nothing_of_the_compiler_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
