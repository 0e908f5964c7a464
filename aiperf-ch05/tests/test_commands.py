"""`aiperf ch05`: audits of made-up disks, and reports whose figures are counted by hand."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aiperf_ch05.cli import ch05
from aiperf_ch05.dataset_report import Padding, paddings, report, sequences
from aiperf_ch05.gds_check import check
from aiperf_ch05.io_audit import audit, mount_of
from aiperf_ch05.stall_report import found as function_of
from aiperf_ch05.stall_report import measure
from aiperf_core.audit import Setting
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.testing import advised, made_up_machine


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(ch05, list(arguments), standalone_mode=False)


def mounted(kind: str, options: str = "rw,relatime", source: str = "/dev/sda1") -> dict[str, str]:
    return {"proc/self/mountinfo": f"1 0 8:1 / / rw,relatime shared:1 - {kind} {source} {options}"}


QUEUE = {
    "rotational": "0",
    "scheduler": "[none] mq-deadline bfq",
    "read_ahead_kb": "4096",
    "max_sectors_kb": "1280",
    "nr_requests": "256",
    "write_cache": "write back",
}
MEMORY = {"proc/meminfo": "MemAvailable: 1048576 kB\nDirty: 8 kB", "proc/sys/vm/dirty_ratio": "20"}


def disk(**changed: str) -> dict[str, str]:
    return {f"sys/dev/block/8:1/queue/{name}": text for name, text in {**QUEUE, **changed}.items()}


def test_a_disk_without_advice(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(4096))
    settings = audit(file, made_up_machine(tmp_path / "root", {**mounted("ext4"), **disk(), **MEMORY}))
    values = {setting.name: setting.value for setting in settings}
    assert values["file system"] == "ext4 on /dev/sda1, mounted at /"
    assert values["scheduler"] == "none"
    assert values["read-ahead"] == "4096 KiB"
    assert values["page cache"] == "Dirty 8 KiB, MemAvailable 1 GiB"
    assert values["dirty pages before a writer waits"] == "20 % of the available memory (205 MiB)"
    # Of the real file system, whose room is not ours to choose.
    assert set(advised(settings)) <= {"free space", "free files", "direct reads"}


def test_a_disk_that_is_set_badly(tmp_path: Path) -> None:
    options = "rw,sync,strictatime,discard,data=journal,nobarrier"
    slow = disk(scheduler="none [bfq]", read_ahead_kb="128")
    much = {"proc/meminfo": f"MemAvailable: {100 << 20} kB", "proc/sys/vm/dirty_ratio": "40"}
    settings = audit(tmp_path, made_up_machine(tmp_path / "root", {**mounted("ext4", options), **slow, **much}))
    found = advised(settings)
    assert found["scheduler"] == "bfq"
    assert found["read-ahead"] == "128 KiB"
    assert found["dirty pages before a writer waits"] == "40 % of the available memory (40 GiB)"
    (advice,) = (setting.advice for setting in settings if setting.name == "mount options")
    for part in ("noatime", "without sync", "fstrim", "data=ordered", "fsync does not reach the disk"):
        assert part in advice


def test_file_systems_without_a_disk(tmp_path: Path) -> None:
    options = "rw,vers=4.2,rsize=65536,wsize=1048576"
    settings = audit(tmp_path, made_up_machine(tmp_path / "nfs", mounted("nfs4", options, "server:/data")))
    values = {setting.name: setting.value for setting in settings}
    assert values["disk"] == "over the network"
    (advice,) = (setting.advice for setting in settings if setting.name == "mount options")
    assert advice == "rsize below 1 MiB: more requests for the same bytes. " + (
        "one connection carries all requests. Mount with nconnect=8."
    )
    settings = audit(tmp_path, made_up_machine(tmp_path / "memory", mounted("tmpfs", "rw,size=8g", "tmpfs")))
    assert advised(settings)["file system"] == "tmpfs on tmpfs, mounted at /"


def test_a_partition_has_the_queue_of_its_disk(tmp_path: Path) -> None:
    files = {f"sys/devices/sda/queue/{name}": text for name, text in QUEUE.items()}
    root = made_up_machine(tmp_path / "root", {**mounted("xfs"), **files, "sys/devices/sda/sda1/partition": "1"})
    (root / "sys/dev/block").mkdir(parents=True)
    (root / "sys/dev/block/8:1").symlink_to(root / "sys/devices/sda/sda1")
    assert {setting.name: setting.value for setting in audit(tmp_path, root)}["requests in the queue"] == "256"


def test_the_innermost_and_latest_mount_holds_a_path() -> None:
    table = "\n".join(
        [
            "1 0 8:1 / / rw - ext4 /dev/a rw",
            "2 1 8:2 / /data rw - xfs /dev/b rw",
            "3 1 8:3 / /data rw,noatime - btrfs /dev/c rw,ssd",
            "4 1 8:4 / /da\\040ta rw - ext4 /dev/d",
        ]
    )
    assert mount_of(Path("/data/x"), table).options == ["rw", "noatime", "ssd"]
    assert mount_of(Path("/database"), table).source == "/dev/a"
    assert mount_of(Path("/da ta/x"), table).source == "/dev/d"
    with pytest.raises(UsageError) as caught:
        mount_of(Path("/data"), "")
    assert str(caught.value) == (
        "the mount of '/data' is not in /proc/self/mountinfo; name a path on a mounted file system"
    )


@pytest.mark.parametrize("name", ["io-audit", "gds-check"])
def test_audits_of_this_machine(name: str, tmp_path: Path) -> None:
    found = json.loads(invoke(name, str(tmp_path), "--json").output)["settings"]
    assert all(set(setting) == {"name", "value", "source", "advice"} for setting in found)
    result = invoke(name, str(tmp_path / "missing"))
    assert str(result.exception) == f"'{tmp_path / 'missing'}' is not there; name a file or a folder"


GDS = {
    "proc/driver/nvidia/version": "NVRM version: 580",
    "proc/driver/nvidia-fs/version": "version: 2.25",
    "sys/class/nvme/nvme0/model": "x",
}


def mode(root: Path, load: object = lambda _: None) -> Setting:
    return check(root, root, {}, load)[-1]  # type: ignore[arg-type]


def test_gds_is_direct_where_nothing_is_lacking(tmp_path: Path) -> None:
    root = made_up_machine(tmp_path, {**mounted("ext4", "rw,data=ordered"), **GDS})
    assert mode(root) == Setting("mode of cuFile", "direct", "all of the above")
    root = made_up_machine(tmp_path, {"sys/kernel/iommu_groups/0/type": "DMA", "proc/cmdline": "quiet"})
    settings = check(root, root, {}, lambda _: None)
    assert advised(settings) == {"IOMMU": "1 groups"}
    made_up_machine(tmp_path, {"proc/cmdline": "quiet iommu=pt"})
    assert advised(check(root, root, {}, lambda _: None)) == {}


def test_gds_falls_back_to_the_host_s_memory(tmp_path: Path) -> None:
    root = made_up_machine(tmp_path, {**mounted("btrfs"), **GDS})
    assert mode(root).value == "compatible: through the host's memory"
    configuration = (
        '{\n  // a comment\n  "properties": {"allow_compat_mode": false}, // another\n  "url": "http://x"\n}'
    )
    made_up_machine(tmp_path, {"etc/cufile.json": configuration})
    assert mode(root).value == "none"
    made_up_machine(tmp_path, {"etc/cufile.json": "{"})
    assert "configuration" in advised(check(root, root, {}, lambda _: None))


def test_gds_without_its_library_is_none(tmp_path: Path) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{Path(name).name}: cannot open")

    root = made_up_machine(tmp_path, {**mounted("ext4"), **GDS})
    assert mode(root, missing).advice == "cuFile cannot be used: cuFile"


def test_a_dataset_counted_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    texts = ["a b c d", "a", "", "a b c d", "a b c d e f"]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    found = report(path, "text", "words", batch=2, context=5)
    assert (found.documents, found.empty, found.total, found.duplicates) == (5, 1, 15, 1)
    assert (found.least, found.mean, found.longest) == (0, 3.0, 6)
    assert found.percentiles == {"p50": 4, "p90": 6, "p99": 6}
    assert found.histogram == {0: 1, 1: 1, 4: 2, 8: 1}
    # Lengths 4 1 0 4 5 after the cut: 14 of 15. In order (4, 1) (0, 4) (5): 21 places; sorted (0, 1) (4, 4) (5): 15.
    places = {"every document padded to 5": 25, "batches of 2 in the file's order": 21}
    places |= {"batches of 2 sorted by length": 15, "packed into sequences of 5": 15}
    assert found.paddings == [Padding(way, 1 - 14 / count, pytest.approx(1 / 15)) for way, count in places.items()]


def test_bytes_lists_and_plain_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("äb\ncd e\n")
    assert report(tmp_path / "a.txt", "text", "bytes", 1, 9).total == 7
    (tmp_path / "a.jsonl").write_text('{"ids": [1, 2, 3]}\n{"ids": [1, 2, 3]}\n')
    found = report(tmp_path / "a.jsonl", "ids", "bytes", 1, 9)
    assert (found.unit, found.total, found.duplicates) == ("elements", 6, 1)


def test_packing_wastes_less_than_padding() -> None:
    assert sequences([5, 5, 3, 2, 0], 5) == 3
    assert sequences([], 5) == 0
    lengths = [length % 97 + 1 for length in range(0, 9700, 7)]
    waste = [padding.waste for padding in paddings(lengths, 8, 100)]
    assert waste[3] < 0.02 < waste[1] < waste[0]
    assert paddings([0, 0], 2, 4)[1].waste == 0.0


def test_lines_that_hold_no_document(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    cases = {
        '{"body": "x"}': f"'{path}', line 1 has no text and no list in 'text'; it has body. Name the key with --field",
        "{": f"'{path}', line 1 is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        '{"text": "x"}\n{"text": [1]}': f"'{path}' has texts and lists in 'text'; they have no common length",
        "": f"'{path}' holds no documents; a document is a line",
    }
    for text, message in cases.items():
        path.write_text(text)
        with pytest.raises(AiperfError) as caught:
            report(path, "text", "words", 2, 4)
        assert str(caught.value) == message
    with pytest.raises(UsageError, match="cannot read .*: No such file"):
        report(tmp_path / "none.jsonl", "text", "words", 2, 4)


def test_the_report_as_text_and_as_json(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a b\na b\nc\n", encoding="utf-8-sig")
    lines = invoke("dataset-report", str(path), "--context", "4").output.splitlines()
    assert lines[:2] == ["3 documents, 0 empty; 5 words", "1 equal an earlier document (33 %)"]
    assert lines[-1].split()[:2] == ["37", "%"] or lines[-1].split()[:2] == ["38", "%"]
    assert json.loads(invoke("dataset-report", str(path), "--json").output)["histogram"] == {"1": 1, "2": 2}


class Clock:
    """Time that passes only when a loader or a step takes some."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def loader(self, waits: list[float]) -> Iterator[int]:
        for number, wait_s in enumerate(waits):
            self.now_s += wait_s
            yield number

    def step(self, _: object) -> None:
        self.now_s += 1.0


def test_waits_are_told_from_steps() -> None:
    clock = Clock()
    stalls = measure(clock.loader([9.0, 0.0, 3.0, 1.0, 0.0]), clock.step, 4, clock)
    assert (stalls.steps, stalls.first_s, stalls.waiting) == (4, 9.0, 0.5)
    assert (stalls.wait_median_s, stalls.wait_p99_s, stalls.wait_most_s) == (0.0, 3.0, 3.0)
    assert (stalls.step_median_s, stalls.stalled_steps, stalls.speedup) == (1.0, 2, 2.0)
    assert stalls.advice.startswith("few steps wait long")


def test_the_advice_says_whether_the_loader_is_slow_or_uneven() -> None:
    clock = Clock()
    assert measure(clock.loader([1.0] * 9), clock.step, 8, clock).advice.startswith("most steps wait")
    assert measure(clock.loader([1.0, *[0.04] * 8]), clock.step, 8, clock).advice == ""


def test_no_batch_beyond_the_steps_is_taken_and_a_short_loader_is_an_error() -> None:
    clock = Clock()
    loader = clock.loader([1.0] * 9)
    measure(loader, clock.step, 3, clock)
    assert next(loader) == 4
    with pytest.raises(AiperfError) as caught:
        measure(clock.loader([1.0]), clock.step, 3, clock)
    assert str(caught.value) == "the loader ended after 1 of 4 batches; at least 2 are needed"


def test_stall_report_measures_a_loader_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loader_of_a_user.py").write_text("def batches(): return iter(range(99))\ndef step(batch): pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    arguments = ("loader_of_a_user:batches", "--steps", "3")
    assert json.loads(invoke("stall-report", *arguments, "--step-ms", "1", "--json").output)["steps"] == 3
    lines = invoke("stall-report", *arguments, "--step", "loader_of_a_user:step").output.splitlines()
    assert lines[0].startswith("waits for data: ")
    assert lines[0].endswith("of the time of 3 steps")


def test_functions_that_are_not_there() -> None:
    cases = {
        "acme": "'acme' names no function; accepted is a form such as 'acme.data:batches'",
        "no_such_module:x": "'no_such_module:x' cannot be imported: No module named 'no_such_module'",
        "math:pi": "'math:pi' is a float; a function is needed",
    }
    for reference, message in cases.items():
        with pytest.raises(UsageError) as caught:
            function_of(reference)
        assert str(caught.value) == message
