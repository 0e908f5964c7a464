"""`aiperf ch07`: its three commands, and that the lessons' promises are kept by the machine code."""

import json
import shutil
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aiperf_ch07 import access_patterns, access_report, sass
from aiperf_ch07.cli import ch07
from aiperf_core.errors import KernelError, SkipError
from aiperf_core.kernels import CudaSource, instances_in, sources_in
from aiperf_core.plugins import load_plugins

TARGETS = [one for one in load_plugins().targets if one.group == "ch07"]
LISTING = """
\t.section\t.text.wide,"ax",@progbits
.text.wide:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0040*/              @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0050*/                   LDG.E.U8 R9, desc[UR4][R2.64+0x10] ;
        /*0060*/                   STS [R8], R4 ;
        /*0070*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0080*/                   STG.E.64 desc[UR4][R6.64], R4 ;
.text.sum:
        REDUX.SUM.S32 UR6, R0 ;
"""
NCU = """==PROF== Connected to process 1
"ID","Kernel Name","l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
"","","",""
"0","strided","1,000","32,000"
"1","coalesced","1000","n/a"
"""
DECLARED = {"promise": sass.PROMISES, "pattern": access_patterns.PATTERNS}


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(ch07, list(arguments), obj=load_plugins(), standalone_mode=False)


def test_read_counts_by_width() -> None:
    counts = sass.read(LISTING)
    assert counts == {
        "wide": {"LDG.128": 1, "LDG.8": 1, "STS.32": 1, "BAR": 1, "STG.64": 1},
        "sum": {"REDUX": 1},
    }


@pytest.mark.parametrize("what", DECLARED)
def test_what_is_declared_of_kernels_is_about_kernels_that_exist(what: str) -> None:
    modules = {one.name.partition(".")[2]: one.module for one in TARGETS}
    for target, kernels in DECLARED[what].items():
        sources = [source for source in sources_in(modules[target]) if isinstance(source, CudaSource)]
        instances = [name for source in sources for name in instances_in(modules[target], source)]
        templates = {name.partition("<")[0] for name in instances} if what == "pattern" else set()
        assert set(kernels) <= {*instances, *templates, *(name for source in sources for name in source.names())}
    assert sorted(sass.PROMISES) == sorted(modules)


@pytest.mark.parametrize("target", [one.name for one in TARGETS])
def test_the_machine_code_keeps_the_promises(target: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-bindings")
    try:
        result = invoke("widths", target, "--json")
        kernels: list[dict[str, Any]] = json.loads(result.output)["kernels"]
    except (SkipError, json.JSONDecodeError):
        pytest.skip("needs NVRTC and nvdisasm")
    assert {one["kernel"]: one["missing"] for one in kernels if one["missing"]} == {}
    assert result.return_value == 0
    assert kernels


def test_widths_fails_for_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-bindings")
    if sass._nvdisasm() is None:
        pytest.skip("needs nvdisasm")
    monkeypatch.setitem(sass.PROMISES, "vectorized_copy", {"scalar": ("LDG.128",)})
    result = invoke("widths", "ch07.vectorized_copy")
    assert result.return_value == 1
    head, *rows = result.output.splitlines()
    assert head.split() == ["target", "kernel", "instructions", "missing"]
    (broken,) = (row for row in rows if row.endswith(" LDG.128") and row.split()[1] == "scalar")
    assert broken.startswith("ch07.vectorized_copy  scalar")


def test_widths_says_how_to_get_nvdisasm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sass, "_nvdisasm", lambda: None)
    with pytest.raises(SkipError, match="install it with: pip install triton"):
        sass.disassemble(b"")


def test_access_report_reads_what_ncu_prints() -> None:
    strided, coalesced = access_report.parse(NCU, "strided")
    assert (strided.kernel, strided.sectors_per_load, strided.sectors_per_store) == ("strided", 32.0, None)
    assert coalesced.counters["load_sectors"] is None
    with pytest.raises(KernelError, match="ncu saw no kernel of 'wide'"):
        access_report.parse("nothing", "wide")


def test_sectors_are_predicted_from_the_addresses_of_a_warp() -> None:
    found = [access_patterns.Access(*rule).sectors for rule in ((4, 4), (16, 16), (2, 2), (4, 128), (4, 0), (16, 64))]
    assert found == [4, 16, 2, 32, 1, 32]
    pattern = access_patterns.predicted("ch07.gather", "void warp_per_row<uint4>(const T1 *, const int *, T1 *)")
    assert (pattern.sectors_per_load, pattern.sectors_per_store) == (8.5, 16.0)


@pytest.mark.parametrize(
    ("kernel", "sectors"),
    [
        ("void by_pieces<unsigned char, (bool)1>(const unsigned char *, int *, long long)", 16.0),
        ("void by_block<unsigned char>(const unsigned char *, int *, long long, int)", 1.0),
        ("void by_block<unsigned short>(const unsigned short *, int *, long long, int)", None),
        ("by_thread1(const void *, int *, long long, int)", 16.0),
    ],
)
def test_sectors_of_an_instance_of_a_template_are_predicted(kernel: str, sectors: float | None) -> None:
    assert access_patterns.predicted("ch07.histogram", kernel).sectors_per_load == sectors


def test_access_report_shows_predicted_beside_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_report, "report", lambda target, module, name, params: access_report.parse(NCU, name))
    lines = invoke("access-report", "ch07.memory_access:strided").output.splitlines()
    assert lines[1:3] == [
        "  sectors per load request: 32, predicted 32",
        "  sectors per store request: not counted, predicted 32",
    ]
    launches = json.loads(invoke("access-report", "ch07.warp_scan", "--json").output)["launches"]
    assert {one["predicted_sectors_per_load"] for one in launches} == {None}


def test_access_report_leaves_the_clocks_alone() -> None:
    line = access_report.command("ncu", "ch07.transpose", "aiperf_ch07.transpose", "padded", ["rows=8"])
    assert line[line.index("--clock-control") + 1] == "none"
    assert line[-4:] == ["ch07.transpose", "aiperf_ch07.transpose", "padded", "rows=8"]


def test_access_report_without_ncu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    result = invoke("access-report", "ch07.transpose:padded")
    assert isinstance(result.exception, SkipError)
    assert str(result.exception) == (
        "needs Nsight Compute: no 'ncu' on the path or in /usr/local/cuda/bin; it comes with the CUDA toolkit"
    )


def test_access_report_refuses_unknown_implementations() -> None:
    result = invoke("access-report", "ch07.transpose:paded")
    assert str(result.exception) == (
        "'ch07.transpose' has no implementation 'paded' on cuda; "
        "it has direct, tiled, padded, swizzled, wide, streaming, tensor_map"
    )


def test_stride_sweep_on_the_cpu() -> None:
    result = invoke("stride-sweep", "--device", "cpu", "--mib", "1", "--json")
    points = json.loads(result.output)["points"]
    assert [(one["width_bytes"], one["stride"]) for one in points[:3]] == [(4, 1), (4, 2), (4, 4)]
    assert len(points) == 21
    assert all(one["bytes_per_s"] > 0 for one in points)


def test_stride_sweep_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert json.loads(invoke("stride-sweep", "--mib", "1", "--json").output)["device"] == "cpu"
    result = invoke("stride-sweep", "-d", "cuda")
    assert isinstance(result.exception, SkipError)
    assert str(result.exception) == (
        "--device cuda needs a GPU, and torch finds none. To measure the processor: --device cpu"
    )


@pytest.mark.gpu
def test_stride_sweep_on_a_gpu() -> None:
    points = json.loads(invoke("stride-sweep", "--device", "cuda", "--json").output)["points"]
    rates = {(one["width_bytes"], one["stride"]): one["bytes_per_s"] for one in points}
    assert rates[4, 1] > 2 * rates[4, 32]
