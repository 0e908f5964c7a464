import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aiperf_core.cli.kernels import _print_table, kernels
from aiperf_core.cli.main import Shell
from aiperf_core.errors import UsageError
from aiperf_core.kernels.check import Outcome
from aiperf_core.kernels.nvrtc import known_archs

pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-bindings")

PLUGIN = """
@hookimpl
def aiperf_targets():
    yield Target("first", "The first lesson.", "speed", ("cuda",))
    yield Target("second", "Another.", "speed", ("cpu",))
    yield Target("plain", "Without kernels.", "speed", ("cpu",))
"""
CUDA = 'extern "C" __global__ void wide(float* a) { a[threadIdx.x] = 1; }\n'


@pytest.fixture
def acme(site: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path / "cache"))
    site.install("aiperf-acme", PLUGIN)
    site.write(
        "aiperf_acme/first.py", "from aiperf_core.kernels import cuda_source\ndevice = cuda_source('first.cu')\n"
    )
    site.write("aiperf_acme/first.cu", CUDA)
    site.write("aiperf_acme/second.py", "from aiperf_core.kernels import host_source\nhost = host_source('second.c')\n")
    site.write("aiperf_acme/second.c", "int one(void) { return 1; }\n")
    site.write("aiperf_acme/plain.py", "")
    return site


def invoke(site: Any, *arguments: str) -> Result:
    return CliRunner().invoke(kernels, list(arguments), obj=site.load())


def test_a_table_of_all_targets(acme: Any) -> None:
    result = invoke(acme)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0].split() == ["target", "file", "kind", "arch", "bytes", "result"]
    found = [line.split()[:4] for line in lines if line.startswith("acme.")]
    assert found == [
        ["acme.first", "first.cu", "cuda", "sm_80"],
        ["acme.first", "first.cu", "cuda", "sm_90"],
        ["acme.first", "first.cu", "cuda", "sm_100"],
        ["acme.second", "second.c", "host", "native"],
    ]
    assert lines[-1] == "4 ok"
    assert "\x1b" not in result.output
    assert max(map(len, lines)) <= 100
    assert not any(line.endswith(" ") for line in lines)


def test_a_failure_ends_with_1_and_shows_the_error(acme: Any) -> None:
    acme.write("aiperf_acme/first.cu", CUDA + "\n__device__ int f() { return missing; }\n")
    result = invoke(acme, "--arch", "sm_80,sm_75")
    assert result.exit_code == 1
    assert re.search(r"acme.first +first.cu +cuda +sm_80 +failed", result.output)
    assert re.search(r"acme.first +first.cu +cuda +sm_75 +skipped: needs sm_80", result.output)
    assert re.search(r"^acme.first, sm_80:\n\S+/first.cu:\d+: error: identifier", result.output, re.MULTILINE)
    assert "\n  does not compile: first.cu for sm_80\n" in result.output
    assert 'identifier "missing" is undefined' in " ".join(result.output.split())
    assert result.output.endswith("\n1 ok, 1 failed, 1 skipped\n")
    assert max(len(line) for line in result.output.splitlines() if "/" not in line) <= 100


def test_a_message_stays_on_its_line_in_a_pipe_and_is_wrapped_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "needs a package " + "and another " * 30
    outcome = Outcome("acme.first", "first.cu", "cuda", "sm_80", status="skipped", reason=reason)
    _print_table([outcome])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert reason.strip() in lines[1]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    _print_table([outcome])
    assert len(capsys.readouterr().out.splitlines()) > 5


def test_several_processes_say_what_one_says(acme: Any) -> None:
    acme.write("aiperf_acme/second.c", "broken\n")
    two, one = invoke(acme, "--jobs", "2", "--json"), invoke(acme, "--json")
    assert json.loads(two.output) == json.loads(one.output)
    assert [outcome["status"] for outcome in json.loads(two.output)] == ["ok"] * 3 + ["failed"]
    assert two.exit_code == one.exit_code == 1


def test_a_path_is_never_broken(acme: Any) -> None:
    name = f"a_{'very_' * 30}long_name.cu"
    acme.write("aiperf_acme/first.py", f"from aiperf_core.kernels import cuda_source\ndevice = cuda_source({name!r})\n")
    acme.write(f"aiperf_acme/{name}", "__device__ int f() { return missing; }\n")
    result = invoke(acme, "acme.first", "--arch", "sm_90")
    assert f"{acme.folder}/aiperf_acme/{name}:1:" in result.output


def test_json_has_everything(acme: Any) -> None:
    result = invoke(acme, "acme.first", "--arch", "sm_90", "--json")
    (outcome,) = json.loads(result.output)
    assert {key: outcome[key] for key in ("target", "file", "kind", "arch", "kernel", "status", "reason")} == {
        "target": "acme.first",
        "file": "first.cu",
        "kind": "cuda",
        "arch": "sm_90",
        "kernel": "",
        "status": "ok",
        "reason": "",
    }
    assert outcome["size_bytes"] > 500


def test_patterns_and_kept_code(acme: Any, tmp_path: Path) -> None:
    result = invoke(acme, "acme.first", "acme.second", "--arch", "sm_90", "--keep", str(tmp_path / "kept"))
    assert result.exit_code == 0
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["acme.first.first.sm_90.cubin"]


def test_a_pattern_that_reaches_nothing(acme: Any) -> None:
    result = invoke(acme, "acme.frist")
    assert isinstance(result.exception, UsageError)
    assert "Did you mean 'acme.first'?" in str(result.exception)


def test_a_word_that_is_no_architecture(acme: Any) -> None:
    result = invoke(acme, "--arch", "hopper")
    assert isinstance(result.exception, UsageError)
    message = str(result.exception)
    assert message.startswith("--arch 'hopper' is not an architecture of this NVRTC; accepted: sm_")
    assert message.endswith(", ".join(known_archs()[-3:]))


def test_an_architecture_that_nvrtc_does_not_know_is_refused(acme: Any) -> None:
    result = CliRunner().invoke(Shell(acme.load()), ["kernels", "--arch", "sm_90,sm_91"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("aiperf: --arch 'sm_91' is not an architecture of this NVRTC; accepted: sm_")
    assert " sm_90a, " in result.stderr


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a", "sm_100f"])
def test_exactly_the_given_architecture_is_compiled(acme: Any, arch: str) -> None:
    (outcome,) = json.loads(invoke(acme, "acme.first", "--arch", arch, "--json").output)
    assert (outcome["arch"], outcome["status"]) == (arch, "ok")


def test_nothing_that_fits_ends_with_1(acme: Any) -> None:
    result = invoke(acme, "acme.first", "--arch", "sm_75")
    assert result.exit_code == 1
    assert result.output.endswith("skipped: needs sm_80\n\n1 skipped\n")


SPILLING = """
extern "C" __global__ void spilling(float* a, int n) {
    __shared__ float tile[256];
    float v[64];
    for (int i = 0; i < 64; i++) v[i] = a[i * n + threadIdx.x];
    tile[threadIdx.x] = v[3];
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++) sum += v[i] * v[j] * tile[(i + j) & 255];
    a[threadIdx.x] = sum;
}
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_the_resources_of_a_kernel(acme: Any, arch: str) -> None:
    acme.write("aiperf_acme/first.cu", SPILLING)
    acme.write(
        "aiperf_acme/first.py",
        "from aiperf_core.kernels import cuda_source\n"
        "device = cuda_source('first.cu', options=('--maxrregcount=24',))\n",
    )
    (outcome,) = json.loads(invoke(acme, "acme.first", "--arch", arch, "--json").output)
    used = outcome["resources"]["spilling"]
    assert used["registers"] == 24
    # 256 floats; what the system reserves from sm_90 on is not the kernel's.
    assert used["shared_bytes"] == 1024
    assert used["stack_bytes"] > 0
    assert used["spill_bytes"] > 0
    table = " ".join(invoke(acme, "acme.first", "--arch", arch).output.split())
    assert f"24 registers, 1,024 B shared, {used['stack_bytes']:,} B stack, {used['spill_bytes']:,} B spilled" in table


def test_targets_without_kernels(acme: Any) -> None:
    result = invoke(acme, "acme.plain")
    assert (result.exit_code, result.output) == (0, "The chosen benchmarks have no kernels.\n")


def test_the_whole_command_ends_with_1(acme: Any) -> None:
    acme.write("aiperf_acme/second.c", "broken\n")
    result = CliRunner().invoke(Shell(acme.load()), ["kernels", "acme.second"])
    assert result.exit_code == 1
    assert "does not compile: second.c" in result.output


def test_help_imports_nothing_heavy() -> None:
    import subprocess

    code = (
        "import sys, aiperf_core.cli.kernels\n"
        "print([m for m in ('torch', 'triton', 'cuda', 'numpy', 'rich') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_a_report_has_occupancy_and_instructions(acme: Any, tmp_path: Path) -> None:
    acme.write("aiperf_acme/first.cu", SPILLING + CUDA.replace("void wide", "__launch_bounds__(512) void wide"))
    shown = invoke(acme, "acme.first", "--arch", "sm_90", "--report")
    assert shown.exit_code == 0
    assert shown.output.startswith("Compiled kernels\n2 kernels, 0 of them with spilled registers\n")
    out = tmp_path / "kernels.json"
    assert invoke(acme, "acme.first", "--arch", "sm_90", "--out", str(out)).exit_code == 0
    resources, instructions = json.loads(out.read_text())["tables"]
    cells = {row["cells"]["kernel"]: row["cells"] for row in resources["records"]}
    assert (cells["spilling"]["threads"], cells["wide"]["threads"], cells["wide"]["blocks"]) == (None, 512, 4)
    assert cells["wide"]["limiter"] == "threads"
    pytest.importorskip("triton", reason="nvdisasm")
    counts = {row["cells"]["kernel"]: row["cells"] for row in instructions["records"]}
    assert counts["spilling"]["loads"] >= 64
    assert (counts["wide"]["stores"], counts["wide"]["loads"]) == (1, 0)
    assert counts["spilling"]["FMA"] >= 64


def test_a_report_of_what_does_not_compile(acme: Any) -> None:
    acme.write("aiperf_acme/first.cu", "__device__ int f() { return missing; }\n")
    result = invoke(acme, "acme.first", "--arch", "sm_90", "--report")
    assert result.exit_code == 1
    assert "No kernel of a GPU was compiled." in result.output
    assert 'identifier "missing" is undefined' in " ".join(result.output.split())
