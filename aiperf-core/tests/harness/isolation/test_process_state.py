"""Snapshots of real processes: what code does between two of them must be seen, and honest code must leave no trace."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from aiperf_core.validity.checks.global_state import differences

# Imports torch once, and forks for each source that it reads. A fork has used no threads, as a worker has not.
SERVER = """
import json, os, sys, threading, time
import torch
from aiperf_core.devices import cpu, cpu_kind, cuda, ledger
from aiperf_core.harness.isolation import process_state
from aiperf_core.harness.roles import output, worker
torch.set_num_threads(2)
torch.set_num_interop_threads(2)


def around(source):
    device = cpu.CpuDevice(1 << 40)
    device._flush = torch.zeros(64, dtype=torch.uint8)
    channel, _ = worker.Channel.pair()
    served = worker.Worker(channel)
    memory = torch.zeros(64, dtype=torch.uint8)
    served._output = output.Output({}, memory, memory, cpu_kind.CpuKind(), device)
    ours = served, device, channel, served._output
    started = time.process_time()
    before = {**process_state.snapshot(), "objects": process_state.objects(*ours)}
    took = time.process_time() - started
    exec(compile(source, "candidate.py", "exec"), {"device": device, "served": served})
    return before, {**process_state.snapshot(), "objects": process_state.objects(*ours)}, took, None


print("ready", flush=True)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        os.close(0)
        try:
            print(json.dumps(around(json.loads(line))), flush=True)
        except BaseException as error:
            print(json.dumps([{}, {}, 0.0, repr(error)]), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


@pytest.fixture(scope="module")
def server():
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()


@pytest.fixture
def run(server):
    def run(source):
        """What two snapshots around this source tell: `{key: kind}`, and both of them."""
        server.stdin.write(json.dumps(textwrap.dedent(source)) + "\n")
        server.stdin.flush()
        before, after, _, problem = json.loads(server.stdout.readline())
        assert problem is None
        return {one.key: one.kind for one in differences(before, after)}, before, after

    return run


HONEST = {
    "nothing": "",
    "products": """
        import torch
        a = torch.randn(300, 300)
        for _ in range(20):
            a = (a @ a).softmax(-1)
        a.sum().item()
    """,
    "a thread that is joined": """
        import threading
        one = threading.Thread(target=lambda: None)
        one.start()
        one.join()
    """,
    # All that import torch's compilers, which takes seconds.
    "modes that are left again, a profiler, and an option that is put back": """
        import torch
        from torch.overrides import TorchFunctionMode
        from torch.utils.flop_counter import FlopCounterMode
        class Mode(TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                return function(*args, **(kwargs or {}))
        with Mode(), torch.no_grad(), torch.inference_mode(), torch.autocast("cpu"), torch.device("cpu"):
            torch.ones(3) + 1
        with FlopCounterMode(display=False):
            torch.ones(3) + 1
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            torch.ones(3) + 1
        import torch._dynamo, torch._inductor.config as config, torch.utils.benchmark
        config.max_autotune, config.pre_grad_fusion_options
        with config.patch(max_autotune=True):
            pass
    """,
    "random numbers": "import random, torch; torch.manual_seed(1); torch.randn(3); random.random()",
    "triton": "import triton.testing",
    "a default device within a block": "import torch\nwith torch.device('meta'): torch.ones(3)",
    "the harness's own timing": """
        import torch
        device.time(lambda: torch.ones(3), "wall", 3)
        device.make_ready()
        served._output.value = torch.ones(3)
    """,
    "warnings in the harness's modules": """
        import warnings
        from aiperf_core.devices import cpu
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec("__import__('warnings').warn('x')", vars(cpu))
    """,
}


@pytest.mark.parametrize("source", HONEST.values(), ids=HONEST.keys())
def test_honest_code_leaves_no_difference(run, source):
    found, before, after = run(source)
    assert found == {}
    assert before["harness"]["aiperf_core.devices.cpu"]["CpuDevice.flush"].startswith("def aiperf_core.devices.cpu.")
    assert json.loads(json.dumps(after)) == after


CHANGES = {
    "clock": (
        "import time; time.perf_counter_ns = lambda: 0",
        {"time.perf_counter_ns": "clock"},
    ),
    "another clock": (
        "import time; time.perf_counter_ns = time.monotonic_ns",
        {"time.perf_counter_ns": "clock"},
    ),
    "events": (
        "import torch; torch.cuda.Event.elapsed_time = lambda self, other: 1e-3",
        {"torch.cuda.Event.elapsed_time": "clock"},
    ),
    "waiting": (
        "import torch; torch.cuda.synchronize = lambda device=None: None",
        {"torch.cuda.synchronize": "waiting"},
    ),
    "an inherited method is hidden": (
        "import torch; torch.Tensor.sum = lambda self: 0",
        {"torch.Tensor.sum": "tensors"},
    ),
    "comparison": (
        "import numpy, torch; torch.allclose = lambda *_: True; numpy.allclose = lambda *_: True",
        {"torch.allclose": "comparison", "numpy.allclose": "comparison"},
    ),
    "code of a function": (
        """
        from aiperf_core.devices import cpu
        cpu.wall_of.__code__ = (lambda call: 0.0).__code__
        """,
        {"aiperf_core.devices.cpu.wall_of": "harness", "aiperf_core.harness.roles.worker.wall_of": "harness"},
    ),
    "code of a method": (
        """
        from aiperf_core.devices.cpu import CpuDevice
        CpuDevice.flush.__code__ = (lambda self: None).__code__
        """,
        {"aiperf_core.devices.cpu.CpuDevice.flush": "harness"},
    ),
    "the same code over other globals": (
        """
        import types
        from aiperf_core.devices import cpu
        old = cpu.time_by_wall
        cpu.time_by_wall = types.FunctionType(old.__code__, {**vars(cpu), "time": None}, old.__name__)
        cpu.time_by_wall.__module__ = old.__module__
        cpu.time_by_wall.__qualname__ = old.__qualname__
        """,
        {"aiperf_core.devices.cpu.time_by_wall": "harness"},
    ),
    "a default argument": (
        """
        from aiperf_core.devices.cpu import CpuDevice
        CpuDevice.time.__defaults__ = (0,)
        """,
        {"aiperf_core.devices.cpu.CpuDevice.time": "harness"},
    ),
    "a module among a module's names": (
        """
        import types
        from aiperf_core.devices import cpu
        cpu.time = types.ModuleType("time")
        """,
        {"aiperf_core.devices.cpu.time": "harness"},
    ),
    "a constant": (
        "from aiperf_core.devices import cuda; cuda._FLUSH_FACTOR = 0",
        {"aiperf_core.devices.cuda._FLUSH_FACTOR": "harness"},
    ),
    "a new name hides a builtin": (
        "from aiperf_core.devices import timing; timing.range = lambda n: ()",
        {"aiperf_core.devices.timing.range": "harness"},
    ),
    "a new method": (
        "from aiperf_core.devices.cpu import CpuDevice; CpuDevice.__getattribute__ = lambda self, name: None",
        {"aiperf_core.devices.cpu.CpuDevice.__getattribute__": "harness"},
    ),
    "a method on the object": (
        "served.do_sample = lambda **_: {}",
        {"Worker.overridden": "objects"},
    ),
    "a method on the output": (
        "served._output.copy = lambda: {}",
        {"Output.overridden": "objects"},
    ),
    "other memory for the output": (
        "import torch; served._output.memory = torch.zeros(64, dtype=torch.uint8)",
        {"Output.memory": "objects"},
    ),
    "the flushing buffer": (
        "device._flush = None",
        {"CpuDevice._flush": "objects"},
    ),
    "another flushing buffer": (
        "import torch; device._flush = torch.zeros(1, dtype=torch.uint8)",
        {"CpuDevice._flush": "objects"},
    ),
    "a module is hidden": (
        "import sys; del sys.modules['statistics']",
        {f"statistics.{name}": "statistics" for name in ("fmean", "mean", "median", "quantiles")},
    ),
    "a function mode": (
        """
        from torch.overrides import TorchFunctionMode
        class Rose(TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                return function(*args, **(kwargs or {}))
        Rose().__enter__()
        """,
        {"torch.function_modes": "modes"},
    ),
    "a dispatch mode": (
        """
        from torch.utils._python_dispatch import TorchDispatchMode
        TorchDispatchMode().__enter__()
        """,
        {"torch.dispatch_modes": "modes"},
    ),
    "subnormal numbers": (
        "import torch; torch.set_flush_denormal(True)",
        {"cpu.results_flushed": "denormals", "cpu.operands_flushed": "denormals"},
    ),
    "threads": ("import torch; torch.set_num_threads(1)", {"torch.intra_op": "threads"}),
    "a default dtype": ("import torch; torch.set_default_dtype(torch.float64)", {"torch.default_dtype": "settings"}),
    "a default device": ("import torch; torch.set_default_device('meta')", {"torch.default_device": "settings"}),
    "no gradients": ("import torch; torch.set_grad_enabled(False)", {"torch.grad": "settings"}),
    "libraries": (
        "import torch; torch.backends.cudnn.benchmark = True; torch.backends.mkldnn.set_flags(False)",
        {"torch.cudnn.benchmark": "libraries", "torch.mkldnn.enabled": "libraries"},
    ),
    "a compiler's option": (
        "import torch._inductor.config as config; config.max_autotune = True",
        {"torch._inductor.config.max_autotune": "compiler"},
    ),
    "a compiler's variable": (
        "import os; os.environ['TORCHINDUCTOR_MAX_AUTOTUNE'] = '1'; os.environ['TORCHINDUCTOR_CACHE_DIR'] = '/tmp'",
        {"environment.TORCHINDUCTOR_MAX_AUTOTUNE": "compiler"},
    ),
    "a library's timer": (
        "import triton.testing; triton.testing.do_bench = lambda function, **_: 0.002",
        {"triton.testing.do_bench": "library_timer"},
    ),
    "a signal": (
        "import signal; signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 100)",
        {"handlers.SIGALRM": "signals", "kernel.real": "timers"},
    ),
    "a profiler of Python": ("import cProfile; cProfile.Profile().enable()", {"python.cProfile": "profilers"}),
    "a profiler of torch": (
        "import torch; torch.autograd.profiler.profile(use_kineto=True).__enter__()",
        {"torch.profiler": "profilers"},
    ),
    "a trace": ("import sys; sys.setprofile(lambda *_: None)", {"python.profile": "hooks"}),
    "the collector": ("import gc; gc.set_threshold(1)", {"python.gc.threshold": "settings"}),
    "processors": (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); os.nice(1)",
        {"scheduling.affinity": "process", "scheduling.nice": "process"},
    ),
}


@pytest.mark.parametrize(("source", "expected"), CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_a_difference(run, source, expected):
    if "affinity" in source and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two processors")
    found, _, _ = run(source)
    assert found == expected


@pytest.mark.parametrize(
    "source",
    [
        "torch.set_float32_matmul_precision('medium')",
        "torch.backends.cuda.matmul.allow_tf32 = True",
        "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False",
        "torch.backends.cudnn.allow_tf32 = False",
        "import os; os.environ['NVIDIA_TF32_OVERRIDE'] = '1'",
    ],
)
def test_precision_flags(run, source):
    found, _, _ = run("import torch; " + source)
    assert found
    assert set(found.values()) == {"precision"}


def test_newer_switches_of_precision(run):
    found, before, after = run(
        """
        import torch
        if hasattr(torch.backends.cuda.matmul, "fp32_precision"):
            torch.backends.cuda.matmul.fp32_precision = "tf32"
        """
    )
    name = "cuda.matmul.fp32_precision"
    if name not in before["precision"]["torch"]:
        pytest.skip("this torch has none")
    assert (before["precision"]["torch"][name], after["precision"]["torch"][name]) == ("none", "tf32")
    assert found[f"torch.{name}"] == "precision"


@pytest.mark.parametrize(("stream", "expected"), [(0, []), (7, ["cuda.is_default"])])
def test_the_current_stream(monkeypatch, stream, expected):
    import torch

    from aiperf_core.harness.isolation import process_state

    monkeypatch.setattr(torch.cuda, "_initialized", False)
    before = {"stream": process_state._stream()}
    monkeypatch.setattr(torch.cuda, "_initialized", True)
    for name, answer in (("device", lambda: 1), ("stream", lambda d: (stream, d, 1)), ("default", lambda d: (0, d, 1))):
        monkeypatch.setattr(process_state, f"_cuda_{name}", answer)
    after = {"stream": process_state._stream()}
    # That CUDA is used now is no difference.
    assert [one.key for one in differences(before, after)] == expected
    assert after["stream"]["cuda.device"] == {"current": 1}


@pytest.mark.quiet
def test_a_snapshot_is_cheap(server):
    took = []
    for _ in range(3):
        server.stdin.write(json.dumps("") + "\n")
        server.stdin.flush()
        took.append(json.loads(server.stdout.readline())[2])
    assert min(took) < 0.1  # processor time; some 20 ms, with room for a slow machine
