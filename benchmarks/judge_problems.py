"""Whether `aiperf judge` is right about candidates for 30 problems in the public form of KernelBench.

    python benchmarks/judge_problems.py [--budget 0.5] [--out problems.jsonl]
    python benchmarks/judge_problems.py --report problems.jsonl

Each problem of `aiperf_redteam.problems` has seven candidates: an honest copy, an optimised one, and five that are
wrong. A verdict is right if a wrong candidate is INVALID, UNTRUSTED or FAILED, an optimised one is compared with the
reference (FASTER, SLOWER, SAME or INCONCLUSIVE), and an honest copy is SAME or INCONCLUSIVE. Each judgement is a line
of the file; the same command continues with those that are missing. It ends with 1 where a verdict is not right.
"""

import argparse
import sys
from pathlib import Path
from statistics import median
from typing import Any

from judge_client import Service, append, read_lines

from aiperf_core.errors import AiperfError
from aiperf_redteam.problems import CANDIDATES, RIGHT, candidate, problems

COMPARED = ("FASTER", "SLOWER", "SAME", "INCONCLUSIVE")
ALIKE = ("SAME", "INCONCLUSIVE")
REFUSED = ("INVALID", "UNTRUSTED", "FAILED")


def name_of(problem: Path) -> str:
    """A problem's kind and name."""
    return f"{problem.parent.name}/{problem.stem}"


def is_right(line: dict[str, Any]) -> bool:
    """Whether a verdict agrees with what is known of the candidate."""
    allowed = {"honest": ALIKE, "optimised": COMPARED}.get(line["candidate"], REFUSED)
    return line["verdict"] in allowed


def judge_missing(chosen: list[Path], options: list[str], out: Path) -> None:
    """Make the judgements that the file does not have."""
    done = {(one["problem"], one["candidate"]) for one in read_lines(out)}
    for problem in chosen:
        missing = [one for one in CANDIDATES if (name_of(problem), one) not in done]
        if not missing:
            continue
        with Service(str(problem), out.with_suffix(".cache"), "--format", "kernelbench", *options) as service:
            for name in missing:
                answer = service.judge(candidate(problem, name))
                kept = {key: answer.get(key) for key in ("verdict", "reason", "error", "seconds")}
                speedup = (answer.get("speedup") or {}).get("value")
                line = {"problem": name_of(problem), "candidate": name, "speedup": speedup, **kept}
                append(out, line)
                told = "right" if is_right(line) else "NOT RIGHT"
                print(f"{line['problem']:34} {name:16} {answer['verdict']!s:13} {told}", flush=True)


def report(chosen: list[Path], lines: list[dict[str, Any]]) -> int:
    """Print the table of the verdicts on some problems; the exit code."""
    names = [name_of(one) for one in chosen]
    lines, width = [one for one in lines if one["problem"] in names], max(map(len, names))
    print(f"{'':{width}}  " + "  ".join(f"{name:>16}" for name in CANDIDATES))
    for problem in names:
        there = {one["candidate"]: one for one in lines if one["problem"] == problem}
        cells = [_cell(there.get(name)) for name in CANDIDATES]
        print(f"{problem:{width}}  " + "  ".join(f"{cell:>16}" for cell in cells))
    right, of = sum(map(is_right, lines)), len(names) * len(CANDIDATES)
    for one in lines:
        if not is_right(one):
            print(f"{one['problem']}, {one['candidate']}: {one['verdict']}: {one['reason'] or one['error']}")
    believed = sum(one["candidate"] not in RIGHT and one["verdict"] in COMPARED for one in lines)
    accused = sum(one["candidate"] in RIGHT and one["verdict"] in REFUSED for one in lines)
    seconds = median(one["seconds"] for one in lines) if lines else 0.0
    print(f"right about {right} of {of} ({len(lines)} judged, median {seconds:.1f} s)")
    print(f"wrong answers believed: {believed}; right answers refused: {accused}")
    return int(right < of)


def _cell(line: dict[str, Any] | None) -> str:
    """A verdict in the table; with a mark if it is not right."""
    if line is None:
        return "-"
    return f"{line['verdict'] or 'no verdict'}{'' if is_right(line) else ' !'}"


def main() -> int:
    """Judge, or report; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=0.5, metavar="SECONDS", help="sampling of a judgement (0.5)")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--out", type=Path, default=Path("judge-problems.jsonl"), metavar="FILE")
    parser.add_argument("--report", type=Path, metavar="FILE", help="judge nothing, and print what such a file has")
    parser.add_argument("--only", metavar="KIND/NAME", choices=[*map(name_of, problems())], help="one problem")
    asked = parser.parse_args()
    chosen = [one for one in problems() if asked.only in (None, name_of(one))]
    if asked.report is None:
        try:
            judge_missing(chosen, ["--device", asked.device, "--budget", str(asked.budget)], asked.out)
        except AiperfError as error:
            print(f"error: {error}", file=sys.stderr)
            return int(error.exit_code)
    return report(chosen, read_lines(asked.report or asked.out))


if __name__ == "__main__":
    raise SystemExit(main())
