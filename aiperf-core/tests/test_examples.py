"""The example package, installed as a stranger would, offline."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "aiperf-example"

# Runs the Triton variant of `rms_norm` by Triton's interpreter, for which no GPU is needed.
INTERPRETED = """
import torch
from aiperf_core.benchmark import bind, call_with
from aiperf_example import rms_norm

for rows, columns in ((1, 1), (3, 31), (5, 1021)):
    given = rms_norm.inputs(rows, columns, "cpu", torch.Generator().manual_seed(rows))
    given.update(rows=rows, columns=columns)
    (code,) = (one.code for one in rms_norm.bench.implementations if one.name == "row_in_registers")
    instance = code()
    call_with(instance.prepare, given)
    out = bind(instance.run, given)()
    torch.testing.assert_close(out, rms_norm.reference(given["x"], given["weight"]))
print("right")
"""


@pytest.fixture(scope="module")
def example(offline, tmp_path_factory):
    """The example, installed from its wheel."""
    folder = tmp_path_factory.mktemp("example")
    environment = offline(folder / "environment")
    environment.run(f"pip wheel '{EXAMPLE}' --no-deps --wheel-dir dist", folder)
    environment.run("pip install dist/aiperf_example-0.3.0-py3-none-any.whl", folder)
    return environment, folder


def test_the_example_is_found_by_its_entry_point(example):
    environment, folder = example
    loaded = json.loads(environment.run("aiperf plugins --json", folder))["loaded"]
    (one,) = [one for one in loaded if one["distribution"] == "aiperf-example"]
    assert (one["version"], one["entry_point"], one["notes"]) == ("0.3.0", "example", [])
    assert one["hooks"] == [
        "aiperf_targets", "aiperf_commands", "aiperf_issues", "aiperf_attacks", "aiperf_formats", "aiperf_target_finished",
    ]  # fmt: skip
    where = environment.run("python -c 'import aiperf_example; print(aiperf_example.__file__)'", folder).strip()
    assert Path(where).is_relative_to(environment.folder)


def test_the_example_runs_is_observed_and_has_a_command(example, new_cache, tmp_path):
    environment, folder = example
    notes, cache = tmp_path / "notes.txt", str(new_cache())
    line = "aiperf run example.row_norms --device cpu --size smoke --budget 0.02 --quiet"
    assert "two_passes" in environment.run(line, tmp_path, AIPERF_EXAMPLE_NOTES=str(notes), AIPERF_CACHE_DIR=cache)
    assert re.fullmatch(
        r"(example\.row_norms:two_passes MEASURED\nexample\.row_norms:one_pass [A-Z]+\n)+", notes.read_text()
    )
    notes.write_text("a.b:c FASTER\na.b:d SLOWER\n")
    assert environment.run("aiperf example", folder, AIPERF_EXAMPLE_NOTES=str(notes)) == "1 of 2 rows were FASTER\n"


REFERENCE = """
import torch

def generate_input(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(40, 300, generator=generator), torch.randn(300, generator=generator)

def ref_kernel(data):
    x, weight = data
    return x * torch.rsqrt((x * x).mean(dim=1, keepdim=True) + 1e-6) * weight
"""
FUSED = """
import torch

def custom_kernel(data):
    x, weight = data
    return torch.nn.functional.rms_norm(x, (x.shape[1],), weight, 1e-6)
"""


@pytest.mark.parametrize(
    ("text", "code", "verdicts"),
    [
        (FUSED, 0, ("FASTER", "SLOWER", "SAME", "INCONCLUSIVE")),
        (FUSED.replace("1e-6)", "1e-6).bfloat16().float()"), 3, ("INVALID",)),
        pytest.param(FUSED.replace("return ", "return 0 * "), 3, ("INVALID",), marks=pytest.mark.long),
    ],
)
def test_the_example_s_format_is_judged(example, new_cache, tmp_path, text, code, verdicts):
    environment, _ = example
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "candidate.py").write_text(text)
    options = "--target reference.py --format custom-kernel --device cpu --budget 0.02 --json --quiet"
    line, cache = f"aiperf judge candidate.py {options}", str(new_cache())
    (result,) = json.loads(environment.run(line, tmp_path, (code,), AIPERF_CACHE_DIR=cache))["targets"]
    assert [one["name"] for one in result["rows"]] == ["ref_kernel", "candidate"]
    assert result["rows"][1]["verdict"] in verdicts


def test_a_reference_that_the_format_refuses_is_named(example, tmp_path):
    environment, _ = example
    (tmp_path / "reference.py").write_text("def generate_input(seed): ...\n")
    (tmp_path / "candidate.py").write_text(FUSED)
    line = "aiperf judge candidate.py --target reference.py --format custom-kernel --device cpu --quiet"
    done = environment.start(line, tmp_path, AIPERF_CACHE_DIR=str(tmp_path / "cache"), COLUMNS="400")
    assert done.returncode == 2
    assert f"{tmp_path}/reference.py: has no ref_kernel." in " ".join((done.stdout + done.stderr).split())


@pytest.mark.proof
def test_the_example_s_issue_is_proven(example):
    environment, folder = example
    told = environment.run("aiperf validity example.unfinished_rows", folder)
    assert "unfinished:whole_blocks (cpu)" in told
    proof = environment.run("aiperf selftest --issue example.unfinished_rows --device cpu --json --quiet", folder)
    (issue,) = json.loads(proof)["issues"]
    assert [(one["case"], one["outcome"]) for one in issue["proofs"]] == [
        ("unfinished:whole_blocks", "found"),
        ("unfinished:blocks_and_rest", "not flagged"),
    ]


def test_the_example_conforms(example):
    environment, folder = example
    (folder / "test_plugin.py").write_text(
        "from aiperf_core.testing import conformance\n"
        "def test_a_good_plugin(): assert conformance('aiperf-example') == []\n"
    )
    told = environment.run("pytest test_plugin.py --aiperf=example -q", folder)
    assert re.search(r"^(3 passed, 2 skipped|5 passed)", told, re.MULTILINE), told


def test_the_kernels_of_the_docs_example(example):
    environment, folder = example
    told = environment.run("aiperf kernels example", folder)
    for name in ("rms_norm.c ", "rms_norm.cu ", "rms_norm_triton.py "):
        assert re.search(rf"^example\.rms_norm +{re.escape(name)}.* ok$", told, re.MULTILINE), told


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
def test_the_triton_kernel_of_the_docs_example_when_interpreted(example):
    environment, folder = example
    (folder / "interpreted.py").write_text(INTERPRETED)
    assert environment.run("python interpreted.py", folder, TRITON_INTERPRET="1") == "right\n"


def test_the_docs_example_fits_on_a_page():
    source = EXAMPLE / "src" / "aiperf_example"
    assert len((source / "rms_norm.py").read_text().splitlines()) <= 120
    kernels = sorted(path.name for path in (source / "kernels").iterdir() if path.is_file())
    assert kernels == ["rms_norm.c", "rms_norm.cu", "rms_norm_triton.py"]
