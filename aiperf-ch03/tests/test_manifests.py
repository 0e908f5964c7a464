"""Good and bad manifests, and a twin of a good one for each rule, which breaks that rule alone."""

import contextlib
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from aiperf_ch03.cli import ch03
from aiperf_ch03.manifests import dockerfile, kubernetes, linter, slurm
from aiperf_ch03.manifests.rules import RULES
from aiperf_ch03.manifests.shell import calls
from aiperf_core.errors import AiperfError, UsageError

MANIFESTS = Path(__file__).parent / "manifests"
EXPECTED = {
    "Dockerfile": [
        (1, "base_tag"),
        (2, "copy_order"),
        (3, "apt_lists"),
        (3, "apt_name"),
        (3, "driver"),
        (5, "pip_cache"),
        (5, "unpinned"),
        (6, "arch_list"),
        (7, "devel_base"),
        (8, "interleave"),
        (8, "shell_form"),
    ],
    "train.slurm": [
        (2, "cpus"),
        (2, "time"),
        (5, "late_directive"),
        (6, "cpu_bind"),
        (6, "launchers"),
        (7, "interleave"),
    ],
    "threads.slurm": [(4, "threads"), (5, "srun_cpus")],
    "pod.yaml": [
        (6, "kubelet_field"),
        (8, "interleave"),
        (8, "memlock"),
        (8, "shm"),
        (9, "image_tag"),
        (12, "all_gpus"),
        (13, "threads"),
        (15, "gpu_limit"),
        (15, "qos"),
        (16, "whole_cpus"),
        (18, "shm_size"),
    ],
}
# By rule: a text of the good file, and what stands there in its twin.
TWINS = {
    "dockerfile.base_tag": [("${CUDA}-runtime-ubuntu24.04", "latest"), ("cuda:${CUDA}-runtime-ubuntu24.04", "cuda")],
    "dockerfile.devel_base": [("${CUDA}-runtime", "${CUDA}-devel")],
    "dockerfile.driver": [("apt-get install -y python3", "apt-get install -y libcuda1-580 python3")],
    "dockerfile.apt_lists": [(" \\\n && rm -rf /var/lib/apt/lists/*", ""), ("--mount=type=cache,target=/var/cache/apt ", "")],
    "dockerfile.apt_name": [("libjemalloc2", "jemalloc"), ("libtcmalloc-minimal4", "tcmalloc-minimal")],
    "dockerfile.pip_cache": [("--no-cache-dir --target=/packages -r", "--target=/packages -r"), ("--no-cache-dir --target=/packages .", ".")],
    "dockerfile.unpinned": [("torch==2.13.0", "torch"), ("torch==2.13.0", "'torch>=2.13'"), ("torch==2.13.0", "torch[opt]")],
    "dockerfile.copy_order": [("COPY requirements.txt .", "COPY . /work")],
    "dockerfile.arch_list": [('"8.0 9.0 10.0+PTX"', '"10.0"'), ('"8.0 9.0 10.0+PTX"', "9.0a")],
    "dockerfile.shell_form": [('["--steps", "1000"]', "--steps 1000")],
    "dockerfile.interleave": [('["python3", "train.py"]', '["numactl", "--interleave=all", "python3", "train.py"]')],
    "slurm.late_directive": [("set -euo pipefail", "set -euo pipefail\n#SBATCH --nodes=4")],
    "slurm.cpus": [("#SBATCH -c 96\n", "")],
    "slurm.srun_cpus": [("--cpus-per-task=$SLURM_CPUS_PER_TASK ", "")],
    "slurm.cpu_bind": [("--cpu-bind=cores", "--cpu-bind=none")],
    "slurm.threads": [("OMP_NUM_THREADS=12", "OMP_NUM_THREADS=97")],
    "slurm.launchers": [("--ntasks-per-node=1", "--ntasks-per-node=8")],
    "slurm.time": [("#SBATCH --time=08:00:00\n", "")],
    "slurm.interleave": [("torchrun", "numactl --interleave=all torchrun")],
    "kubernetes.image_tag": [("train:1.4", "train"), ("train:1.4", "train:latest")],
    "kubernetes.gpu_limit": [("gpu: 8}", "gpu: 4}"), ("nvidia.com/gpu: 8, rdma", "rdma"), ("nvidia.com/gpu: 8", 'nvidia.com/gpu: "0.5"')],
    "kubernetes.qos": [('cpu: "32", ', "cpu: 16, "), ("limits: {cpu: 32, memory: 256Gi, ", "limits: {cpu: 32, ")],
    "kubernetes.whole_cpus": [('{cpu: "32", memory: 256Gi, nvidia.com/gpu: 8}\n            limits: {cpu: 32,', "{}\n            limits: {cpu: 31500m,")],
    "kubernetes.shm": [("/dev/shm", "/scratch"), ("medium: Memory, ", "")],
    "kubernetes.shm_size": [("Memory, sizeLimit: 64Gi", "Memory")],
    "kubernetes.kubelet_field": [("restartPolicy: Never", "topologyManagerPolicy: best-effort")],
    "kubernetes.threads": [('value: "4"', 'value: "64"')],
    "kubernetes.memlock": [("add: [IPC_LOCK]", "drop: [ALL]")],
    "kubernetes.all_gpus": [("{capabilities", "{privileged: true, capabilities"), ("OMP_NUM_THREADS\n              value: \"4\"", "NVIDIA_VISIBLE_DEVICES\n              value: all")],
    "kubernetes.interleave": [("[python, train.py]", "[sh, -c, numactl --interleave=all python train.py]")],
}  # fmt: skip
GOOD = {"dockerfile": "Dockerfile", "slurm": "train.slurm", "kubernetes": "pod.yaml"}


def found(path: Path) -> list[tuple[int, str]]:
    return [(finding.line, finding.rule) for finding in linter.lint([path])]


@pytest.mark.parametrize("path", sorted((MANIFESTS / "good").iterdir()), ids=lambda path: path.name)
def test_good_manifests_are_quiet(path: Path) -> None:
    assert found(path) == []


@pytest.mark.parametrize("name", EXPECTED)
def test_bad_manifests_and_their_lines(name: str) -> None:
    kind = linter.kind_of(Path(name), (MANIFESTS / "bad" / name).read_text())
    assert found(MANIFESTS / "bad" / name) == [(line, f"{kind}.{rule}") for line, rule in EXPECTED[name]]


@pytest.mark.parametrize("rule", RULES)
def test_a_twin_of_a_good_manifest_breaks_one_rule(rule: str, tmp_path: Path) -> None:
    name = GOOD[RULES[rule].kind]
    good = (MANIFESTS / "good" / name).read_text()
    for old, new in TWINS[rule]:
        assert old in good
        twin = tmp_path / name
        twin.write_text(good.replace(old, new, 1))
        assert {broken for _, broken in found(twin)} == {rule}


def test_every_rule_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "ch03.md").read_text().splitlines()
    rows = [line for line in page if line.startswith(("| `dockerfile.", "| `slurm.", "| `kubernetes."))]
    assert rows == [f"| `{rule.id}` | {rule.reason} |" for rule in RULES.values()]


def test_the_command_prints_findings_and_exits_with_3() -> None:
    path = str(MANIFESTS / "bad" / "threads.slurm")
    run = CliRunner().invoke(ch03, ["lint", path], standalone_mode=False)
    assert (run.return_value, run.output.splitlines()[:4]) == (
        3,
        [
            f"{path}:4: slurm.threads",
            "  OMP_NUM_THREADS=64 with --cpus-per-task=8",
            f"  {RULES['slurm.threads'].reason}",
            f"  Write: {RULES['slurm.threads'].write}",
        ],
    )
    assert run.output.endswith("\n2 findings in 1 file\n")
    whole = CliRunner().invoke(ch03, ["lint", "--json", path], standalone_mode=False)
    (first, _) = json.loads(whole.output)["findings"]
    assert set(first) == {"rule", "path", "line", "text", "reason", "write"}
    good = CliRunner().invoke(ch03, ["lint", str(MANIFESTS / "good" / "Dockerfile")], standalone_mode=False)
    assert (good.return_value, good.output) == (0, "0 findings in 1 file\n")


ACCEPTED = "accepted are Dockerfiles, Slurm scripts with #SBATCH lines, and Kubernetes manifests"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("Dockerfile", b"", f"is empty; {ACCEPTED}"),
        ("Dockerfile", b" \n\n", f"is empty; {ACCEPTED}"),
        ("Dockerfile", b"FROM \xff", "is not UTF-8: byte 0xff at position 5. Save it as UTF-8."),
        ("Dockerfile", b"FROM a\0", f"has a NUL, so it is no text; {ACCEPTED}"),
        ("Dockerfile", b"#" * (1 << 20), f"is larger than 256 KiB, which no manifest is; {ACCEPTED}"),
        ("notes.txt", b"hello\n", f"is of no known kind; {ACCEPTED}"),
        ("compose.yaml", b"services: {a: {image: b}}", "is YAML without apiVersion and kind; accepted are Kubernetes manifests, such as of a Pod"),
        ("pod.yaml", b"a: [1", "is not YAML in line 1: expected ',' or ']', but got '<stream end>'. Correct it there."),
        ("pod.yaml", b"a: " + 5000 * b"[", "is nested too deeply for a manifest. Give a file that kubectl accepts."),
        ("pod.yaml", b"a: \x01", "is not YAML: a character that YAML does not allow. Correct it there."),
    ],
)  # fmt: skip
def test_what_is_no_manifest_is_refused(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        linter.lint([path])
    assert str(caught.value) == f"'{path}' {message}"


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(UsageError) as caught:
            linter.lint([path])
        assert str(caught.value) == f"'{path}' cannot be read ({reason}); {ACCEPTED}"


def test_manifests_of_kubernetes_need_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    path = MANIFESTS / "good" / "pod.yaml"
    with pytest.raises(AiperfError) as caught:
        linter.lint([path])
    assert str(caught.value) == (
        f"'{path}' is YAML, which the package 'pyyaml' reads. Install it: pip install 'aiperf-ch03[lint]'"
    )
    assert linter.lint([MANIFESTS / "good" / "train.slurm"]) == []


def test_files_are_known_by_their_text_where_the_name_says_nothing() -> None:
    texts = {"# a\nARG X\nFROM a": "dockerfile", "\n#SBATCH -n 1": "slurm", "# a\napiVersion: v1": "kubernetes"}
    assert {text: linter.kind_of(Path("file"), text) for text in texts} == texts


def test_aliases_are_followed_once() -> None:
    levels = "\n".join(f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]" for level in range(1, 30))
    text = f"apiVersion: v1\nkind: Pod\nl0: &l0 {{containers: [{{image: a}}]}}\n{levels}\nself: &self [*self]\n"
    assert [mark.rule for mark in kubernetes.lint(text, "pod.yaml")] == ["kubernetes.image_tag"]


@pytest.mark.parametrize(
    ("text", "number"), [("8", 8), ("3500m", 3.5), ("1k", 1000), ("2Ki", 2048), ("16Gi", 16 << 30), ("1x", None), ("", None)]
)  # fmt: skip
def test_quantities(text: str, number: float | None) -> None:
    assert kubernetes.quantity(text) == number


def test_instructions_of_a_dockerfile() -> None:
    text = "from a AS b\nRUN x \\\n # no\n  y\nRUN <<END\npip install a\nEND\nCMD z"
    assert [(one.keyword, one.value, one.line) for one in dockerfile.instructions(text)] == [
        ("FROM", "a AS b", 1),
        ("RUN", "x  y", 2),
        ("RUN", "<<END\npip install a", 5),
        ("CMD", "z", 8),
    ]


def test_options_of_slurm() -> None:
    text = " -c4 -n 2 --gres gpu:8 --exclusive --time=1:00 --comment='a b' # -N 7"
    assert dict(slurm.options(text)) == {
        "cpus-per-task": "4",
        "ntasks": "2",
        "gres": "gpu:8",
        "exclusive": "",
        "time": "1:00",
        "comment": "a b",
    }


def test_merged_mappings_count_as_written() -> None:
    text = """apiVersion: v1
kind: List
a: &a {image: a, name: x}
b: &b {image: b:1}
items:
  - containers:
      - {<<: *a}
      - {<<: *b}
      - {<<: [*b, *a]}
      - {<<: *a, image: c:1}
"""
    assert [(mark.line, mark.text) for mark in kubernetes.lint(text, "list.yaml")] == [(3, "image: a")]


def test_a_manifest_in_json_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pod.json"
    path.write_text('{"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"image": "a"}]}}')
    assert found(path) == [(1, "kubernetes.image_tag")]


@given(st.text(max_size=200), st.sampled_from(["Dockerfile", "job.sh", "pod.yaml"]))
def test_any_text_has_findings_or_is_refused(tmp_path_factory: pytest.TempPathFactory, text: str, name: str) -> None:
    path = tmp_path_factory.getbasetemp() / name
    head = {"Dockerfile": "RUN ", "job.sh": "#SBATCH ", "pod.yaml": "apiVersion: v1\nkind: Pod\n"}[name]
    path.write_text(head + text, encoding="utf-8", errors="replace")
    with contextlib.suppress(UsageError):
        linter.lint([path])


def test_calls_of_a_program_in_a_line() -> None:
    assert calls("A=1 srun -n 1 a && B= srun b; echo srun | srun c", "srun") == ["-n 1 a", "b", "c"]


def test_a_file_does_not_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "Dockerfile"
    path.write_bytes(b"\xef\xbb\xbfFROM a\x1b[2J\r\n")
    assert [finding.text for finding in linter.lint([path])] == ["FROM a?[2J"]
