import json
import re

import attrs
import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Verdict

BELIEVED = [example.rows()[0], example.rows()[1], example.rows()[-1]]


def make(path, factor=1.0, **changes):
    rows = [
        attrs.evolve(row, time_s=example.estimate(row.time_s.value * factor)) if row.name == "coalesced" else row
        for row in BELIEVED
    ]
    made = Bundle.create_at(path)
    made.write_target(attrs.evolve(example.result(), **{"rows": rows, **changes}))
    made.write_manifest(example.manifest())
    return path


def compare(*arguments):
    return CliRunner().invoke(Shell(load_plugins([])), ["compare", *map(str, arguments)])


def test_with_one_run_it_is_compared_with_the_last_before_it_that_has_its_targets(tmp_path):
    """In the folder of `latest`, of another target, and in the order of their times."""
    newest = make(tmp_path / "c")
    manifest = Bundle(newest).manifest
    for name, day in (("a", 1), ("b", 2), ("other", 3)):
        path = Bundle(make(tmp_path / name))
        if name == "other":
            (result,) = (path.target(one) for one in path.targets)
            for file in (path.path / "targets").iterdir():
                file.unlink()
            path.write_target(attrs.evolve(result, target="ch07.other"))
        path.write_manifest(attrs.evolve(manifest, created=f"2026-11-0{day}T00:00:00+00:00", hashes={}))
    found = compare(newest, "--json")
    document = json.loads(found.stdout)
    assert (document["left"], document["right"]) == (str(tmp_path.resolve() / "b"), str(newest))


def test_with_one_run_and_none_before_it(tmp_path):
    path = make(tmp_path / "a")
    found = compare(path)
    assert (found.exit_code, found.stdout, found.stderr) == (
        2,
        "",
        f"aiperf: no run before '{path}' has a result of the same targets, so there is nothing to compare it with. Name "
        "two: aiperf compare LEFT RIGHT\n",
    )


def test_the_same(tmp_path):
    left, right = make(tmp_path / "a"), make(tmp_path / "b")
    found = compare(left, right)
    assert (found.exit_code, found.stderr) == (0, "")
    assert found.stdout == (
        f"{left} (left) and {right} (right)\n3 SAME\n"
        "machine, software, sources and options are the same\n\nRatios\n"
        "A ratio above 1 means that the right side is faster, or smaller where memory is the goal.\n"
        "target              implementation      left   95 % interval     right   95 % interval   ratio   95 % interval"
        "  verdict\n"
        "ch07.memory_access  strided         5.213 ms  [5.198, 5.229]  5.213 ms  [5.198, 5.229]  1.000x  [0.996, 1.004]  SAME\n"
        "ch07.memory_access  coalesced       652.3 us  [650.3, 654.3]  652.3 us  [650.3, 654.3]  1.000x  [0.996, 1.004]  SAME\n"
        "ch07.memory_access  memcpy          552.3 us  [550.6, 554.0]  552.3 us  [550.6, 554.0]  1.000x  [0.996, 1.004]  SAME\n\n"
        "assumptions\n- the two runs are not paired: their errors are independent\n"
    )


def test_a_regression_is_4_and_an_improvement_is_not(tmp_path):
    fast, slow = make(tmp_path / "a"), make(tmp_path / "b", 1.1)
    found = compare(fast, slow)
    assert found.exit_code == 4
    line = next(line for line in found.stdout.splitlines() if "coalesced" in line)
    assert re.sub(r" \[.*?\]", "", line).split()[1:] == ["coalesced", "652.3", "us", "718", "us", "0.909x", "SLOWER"]
    assert found.stdout.splitlines()[1] == "1 SLOWER, 2 SAME"
    assert compare(slow, fast).exit_code == 0
    assert compare(fast, slow, "--floor", "0.2").exit_code == 0


def test_a_row_that_became_invalid_is_3(tmp_path):
    left = make(tmp_path / "a")
    invalid = attrs.evolve(BELIEVED[1], verdict=Verdict.INVALID, reason="a lie", speedup=None)
    right = make(tmp_path / "b", rows=[BELIEVED[0], invalid])
    found = compare(left, right)
    assert found.exit_code == 3
    assert "\nch07.memory_access: coalesced  right: INVALID\n" in found.stdout
    assert "\nch07.memory_access: memcpy     only in the left run\n" in found.stdout


def test_other_work_is_1_since_nothing_was_compared(tmp_path):
    found = compare(make(tmp_path / "a"), make(tmp_path / "b", cache="warm"))
    assert found.exit_code == 1
    assert found.stdout.splitlines()[1] == "nothing was compared"
    assert "not the same work: cache cold and warm" in found.stdout


def test_as_json(tmp_path):
    left, right = make(tmp_path / "a"), make(tmp_path / "b", 1.1, tier="audit")
    result = compare(left, right, "--json")
    assert result.exit_code == 4
    found = json.loads(result.stdout)
    assert (found["left"], found["right"], found["paired"]) == (str(left), str(right), False)
    assert found["differences"] == [
        {"what": "ch07.memory_access tier", "left": "quick, 1 round", "right": "audit, 1 round"}
    ]
    row = found["rows"][1]
    assert (row["implementation"], row["verdict"], row["reason"]) == ("coalesced", "SLOWER", None)
    assert row["ratio"]["value"] == pytest.approx(1 / 1.1)
    assert row["left_s"]["value"] == 0.6523e-3


@pytest.mark.parametrize("floor", ["nan", "-0.1", "1", "inf"])
def test_a_floor_that_is_none(tmp_path, floor):
    found = compare(tmp_path, tmp_path, "--floor", floor)
    assert found.exit_code == 2
    assert found.stderr.startswith("aiperf: --floor takes a fraction from 0 to below 1, such as 0.01; got ")


def test_hostile_words_do_not_reach_the_terminal(tmp_path):
    hostile = attrs.evolve(BELIEVED[1], name="\x1b[2Jname\n")
    left = make(tmp_path / "a", rows=[BELIEVED[0], hostile])
    right = make(tmp_path / "b", rows=[BELIEVED[0], hostile], tier="audit", target="ch07.memory_access")
    found = compare(left, right)
    assert found.exit_code == 0
    assert "\x1b" not in found.stdout
    assert "?" not in found.stdout


def test_what_is_no_bundle(tmp_path):
    found = compare(make(tmp_path / "a"), tmp_path / "nowhere")
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr == (
        f"aiperf: '{tmp_path / 'nowhere'}' does not exist; a result bundle is a folder with a manifest.json in it.\n"
    )


def test_a_goal_of_memory_shows_the_peaks_that_it_compares(tmp_path):
    sides = [
        make(
            tmp_path / name,
            goal="memory",
            rows=[BELIEVED[0], attrs.evolve(BELIEVED[1], memory=attrs.evolve(example.PEAK, peak_bytes=most))],
        )
        for name, most in (("a", 48 << 20), ("b", 24 << 20))
    ]
    line = next(line for line in compare(*sides).stdout.splitlines() if "coalesced" in line)
    assert line.split()[1:] == ["coalesced", "48", "MiB", "24", "MiB", "2.00x", "SMALLER"]
