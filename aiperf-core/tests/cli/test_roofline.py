from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result

from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

LEFT_OUT = (
    "left out: ch07.memory_access:remembered: INVALID\n"
    "left out: ch07.memory_access:swizzled: FAILED\n"
    "left out: ch07.memory_access:tensor_memory: SKIPPED\n"
)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(Shell(load_plugins()), ["roofline", *map(str, arguments)])


def test_a_picture(bundle: Bundle, tmp_path: Path) -> None:
    file = tmp_path / "roof.svg"
    problem = example.result().problem
    bundle.write_target(
        attrs.evolve(
            example.result(),
            target="ch07.dense",
            rows=[row for row in example.rows() if row.is_believed],
            problem=attrs.evolve(problem, flops=16 * problem.flops),
        )
    )
    bundle.write_manifest(example.manifest())
    result = run(bundle.path, "--out", file)
    assert (result.exit_code, result.stderr) == (0, LEFT_OUT)
    assert result.stdout == f"{file}: 10 implementations\n"
    text = file.read_text()
    for written in (
        "arithmetic intensity, FLOP/byte, logarithmic",
        "1 dense:strided 9.5 %",
        "memory_access:wide 82 %",
        "dense:wide 82 %",
        "copy 4.34 TB/s",
        "fp32 matmul 59.0 TFLOP/s",
        "best variant",
    ):
        assert f">{written}</text>" in text
    assert " on NVIDIA H200, ceilings of 2026-11-20</text>" in text
    for left_out in ("remembered", "swizzled", "tensor_memory"):
        assert left_out not in text
    alone = tmp_path / "one.svg"
    assert run(f"{bundle.path}:ch07.memory_access", "--out", alone).stdout == f"{alone}: 5 implementations\n"
    assert "ch07.memory_access: 9.5 → 76 → 82 % of copy" in alone.read_text()
    assert "arithmetic intensity" not in alone.read_text()


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_same_bytes_from_the_same_results(bundle: Bundle, tmp_path: Path, kind: str) -> None:
    if kind != "svg":
        pytest.importorskip("vl_convert")
    files = [tmp_path / f"{name}.{kind}" for name in ("one", "two")]
    for file in files:
        run(f"{bundle.path}:ch07.memory_access", "--out", file)
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(("name", "magic"), [("roof.PNG", b"\x89PNG"), ("roof.pdf", b"%PDF-")])
def test_other_formats(bundle: Bundle, tmp_path: Path, name: str, magic: bytes) -> None:
    pytest.importorskip("vl_convert")
    assert run(bundle.path, "--out", tmp_path / name).exit_code == 0
    assert (tmp_path / name).read_bytes().startswith(magic)


def test_a_file_of_another_kind(bundle: Bundle) -> None:
    result = run(bundle.path, "--out", "roof.gif")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "aiperf: 'roof.gif' is not .svg, .png or .pdf; give --out a name that ends in one of them.\n"
    )


def test_without_the_package(bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    result = run(bundle.path, "--out", tmp_path / "roof.png")
    assert result.exit_code == 1
    assert result.stderr == (
        "aiperf: .png needs the package 'vl-convert-python': pip install 'aiperf-core[plots]'. Without it, write .svg.\n"
    )
    assert run(bundle.path, "--out", tmp_path / "roof.svg").exit_code == 0


def test_of_many_implementations(bundle: Bundle, tmp_path: Path) -> None:
    for index in range(5):
        bundle.write_target(attrs.evolve(example.result(), target=f"ch07.more_{index}"))
    result = run(bundle.path, "--out", tmp_path / "roof.svg")
    assert result.stdout == f"{tmp_path}/roof.svg: 30 implementations\n"


def test_a_bundle_that_is_none(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere", "--out", tmp_path / "roof.svg")
    assert result.exit_code == 1
    assert result.stderr == (
        f"aiperf: '{tmp_path}/nowhere' does not exist; a result bundle is a folder with a manifest.json in it.\n"
    )


def test_a_target_that_is_not_there(bundle: Bundle, tmp_path: Path) -> None:
    result = run(f"{bundle.path}:ch07.other", "--out", tmp_path / "roof.svg")
    assert result.exit_code == 2
    assert result.stderr == f"aiperf: '{bundle.path}' has no result of 'ch07.other'. There are: ch07.memory_access\n"


def test_a_folder_with_a_colon(bundle: Bundle, tmp_path: Path) -> None:
    bundle.path.rename(tmp_path / "a:b")
    assert run(tmp_path / "a:b", "--out", tmp_path / "roof.svg").exit_code == 0


def test_without_ceilings(bundle: Bundle, tmp_path: Path) -> None:
    bundle.write_manifest(attrs.evolve(example.manifest(), ceilings={}))
    result = run(bundle.path, "--out", tmp_path / "roof.svg")
    assert result.exit_code == 1
    assert result.stderr == (
        "aiperf: There is nothing to draw on a roofline: ch07.memory_access: no ceilings of 'cuda' were measured in "
        "that run.\n"
    )
    assert not (tmp_path / "roof.svg").exists()


def test_a_file_that_cannot_be_written(bundle: Bundle, tmp_path: Path) -> None:
    result = run(bundle.path, "--out", tmp_path / "nowhere" / "roof.svg")
    assert result.exit_code == 1
    assert result.stderr == (
        f"aiperf: cannot write '{tmp_path}/nowhere/roof.svg': No such file or directory. Choose another --out.\n"
    )


def test_help_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys, aiperf_core.cli.roofline, aiperf_core.cli.ceilings\n"
        "print([m for m in ('torch', 'numpy', 'rich', 'vl_convert') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
