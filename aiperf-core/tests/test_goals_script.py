"""The page of goals is made of results alone, and says what is missing and what is not met."""

import re
import subprocess
import sys
from pathlib import Path

import attrs
import measured
import pytest

from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import TargetResult, Verdict

FOLDER = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="needs the repository's folder `benchmarks`")


def result_at(fraction: float) -> TargetResult:
    """A result whose variant reaches so much of light."""
    half = measured.result(1, {"strided": 1.0, "coalesced": 0.5})
    (light,) = [row.speed_of_light for row in half.rows if row.name == "coalesced"]
    assert light is not None
    found: TargetResult = measured.result(1, {"strided": 1.0, "coalesced": 0.5 * light.fraction / fraction})
    return attrs.evolve(found, target="ch07.memory_access", device="cuda")


def page(bundle: Bundle) -> tuple[str, list[str]]:
    """The line of the target, and the page; the script says that other results are missing."""
    command = [sys.executable, str(FOLDER / "goals.py"), str(bundle.path)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 1, made.stderr
    assert "no result has: ch07.gather" in made.stderr
    assert "| `ch07.gather` | at least 85 % of the rate of its reads and writes | not measured | |" in made.stdout
    (line,) = [line for line in made.stdout.splitlines() if line.startswith("| `ch07.memory_access`")]
    return line, made.stdout.splitlines()


@pytest.mark.parametrize(("fraction", "met"), [(0.96, "met"), (0.88, "**not met**")])
def test_a_page_is_made_of_results(tmp_path: Path, fraction: float, met: str) -> None:
    bundle = measured.bundle(tmp_path / "run")
    bundle.write_target(result_at(fraction))
    line, lines = page(bundle)
    assert re.search(r"`coalesced` (8[78]|9[567]) % ", line)
    assert line.endswith(f"| {met} |")
    assert ("## What holds the others back" in lines) == (met != "met")


def test_what_is_not_believed_is_no_figure(tmp_path: Path) -> None:
    bundle = measured.bundle(tmp_path / "run")
    result = result_at(0.96)
    rows = [
        attrs.evolve(row, verdict=Verdict.INVALID, reason="wrong", speedup=None, speed_of_light=None)
        for row in result.rows
    ]
    bundle.write_target(attrs.evolve(result, rows=rows))
    assert page(bundle)[0].endswith("| not measured | |")


def written(path: Path, target: str, factors: dict[str, float], **params: float) -> Bundle:
    """A bundle with a result of several ranks: each row takes so many times 4 ms, and moves 300 MB either way."""
    ceilings = attrs.evolve(
        measured.manifest().ceilings["cuda"],
        launch_wait_s=1e-3,
        peer_bytes_per_s={"0-1": 2e11, "1-0": 1e11},
        all_reduce_bytes_per_s={"2": 3e11},
    )
    bundle: Bundle = measured.bundle(path, ceilings={"cuda": ceilings})
    found = measured.result(1, {"strided": 2.0, **factors})
    problem = attrs.evolve(found.problem, params=params, bytes_read=3e8, bytes_written=3e8)
    bundle.write_target(attrs.evolve(found, target=target, device="cuda", problem=problem))
    return bundle


def reached(line: str, *bundles: Bundle) -> str:
    """What the page says was reached of the goal whose line holds these words."""
    command = [sys.executable, str(FOLDER / "goals.py"), *(str(one.path) for one in bundles)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    (found,) = [one for one in made.stdout.splitlines() if line in one]
    return found.split("|")[3].split("(")[0].strip() + " " + found.split("|")[4].strip()


def test_a_page_is_renewed_where_there_are_figures(tmp_path: Path) -> None:
    path = tmp_path / "goals.md"
    old = "| `ch07.gather` | at least 85 % of the rate of its reads and writes | `four_rows` 95 % (NVIDIA H200) | met |"
    head = "| `ch07.memory_access` | at least 92 % of the rate of a copy |"
    path.write_text(f"{old}\n{head} `coalesced` 11 % (NVIDIA H200) | **not met** |\n")
    bundle = measured.bundle(tmp_path / "run")
    bundle.write_target(result_at(0.96))
    command = [sys.executable, str(FOLDER / "goals.py"), "--page", str(path), str(bundle.path)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (made.returncode, made.stdout) == (1, "")
    assert "gather" not in made.stderr
    assert "no result has: ch07.histogram" in made.stderr
    lines = path.read_text().splitlines()
    assert old in lines
    assert [line for line in lines if head in line and line.endswith("| met |")]
    assert "## What holds the others back" not in lines


def test_a_launch_is_what_a_chain_of_them_is_held_against(tmp_path: Path) -> None:
    # 2 ms against launches of 1 ms
    line = "of the time of a launch that is waited for"
    bundle = written(tmp_path / "run", "ch01.launch_overhead", {"graph": 0.9, "fused": 0.5})
    assert re.fullmatch(r"`fused` (199|200|201) % (met|\*\*not met\*\*)", reached(line, bundle))


@pytest.mark.parametrize(("factor", "said"), [(0.75, "`auto` 100 % met"), (1.0, "`auto` 75 % **not met**")])
def test_a_large_all_reduce_is_held_against_the_slowest_link(tmp_path: Path, factor: float, said: str) -> None:
    # each of two ranks sends 300 MB, in 3 or 4 ms, where a link takes 100 GB in a second
    large = written(tmp_path / "large", "ch04.allreduce_small", {"auto": factor}, n=1 << 25, world_size=2)
    small = written(tmp_path / "small", "ch04.allreduce_small", {"auto": 0.1}, n=1 << 15, world_size=2)
    assert reached("at 64 MiB", large, small) == said


def test_an_overlapped_step_is_held_against_its_longer_part(tmp_path: Path) -> None:
    # one rank takes 2 ms, and sending 300 MB takes 1 ms
    line = "the longer of computing and talking"
    both = written(tmp_path / "both", "ch04.ddp_overlap", {"overlapped": 0.525, "flat_buckets": 0.5}, world_size=2)
    alone = written(tmp_path / "alone", "ch04.ddp_overlap", {"overlapped": 0.6, "flat_buckets": 0.5}, world_size=1)
    assert reached(line, both) == "not measured "
    assert reached(line, alone, both) == "`overlapped` 105 % met"
    assert reached(line, both, alone) == "`overlapped` 105 % met"
    faster = written(tmp_path / "faster", "ch04.ddp_overlap", {"overlapped": 0.525, "copy_engines": 0.5}, world_size=2)
    assert reached(line, alone, faster) == "`copy_engines` 100 % met"
