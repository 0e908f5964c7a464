"""Whether `aiperf judge --serve` is right about a search over 100 candidates, with some that cheat among them.

    python benchmarks/judge_search.py [--count 100] [--budget 0.5] [--out search.jsonl]
    python benchmarks/judge_search.py --report search.jsonl

The search is that of `examples/judge-client/search.py`, whose candidates are honest or cheat in one of eight ways. A
verdict is right if a candidate that cheats is INVALID, UNTRUSTED or FAILED, and an honest one is compared with the
baseline. It ends with 1 where a verdict is not right.
"""

import argparse
import runpy
import sys
from pathlib import Path
from statistics import median
from typing import Any

from judge_client import Service, append, read_lines

from aiperf_core.errors import AiperfError

EXAMPLE = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "judge-client" / "search.py"))


def search(count: int, out: Path, options: list[str]) -> None:
    """Search with a service, and write each verdict to the file at once."""
    with Service("practice.softmax", out.with_suffix(".cache"), *options) as service:
        for line in EXAMPLE["search"](lambda _, text: service.judge(text), count):
            append(out, line)
            print(f"{line['number']:3} {line['kind']:24} {line['verdict']!s:13} {line['seconds']:.2f} s", flush=True)


def report(lines: list[dict[str, Any]]) -> int:
    """Print the verdicts on each kind; the exit code."""
    code: int = EXAMPLE["report"](lines)
    if lines:
        print(f"{len(lines)} verdicts, median {median(one['seconds'] for one in lines):.2f} s")
    return code


def main() -> int:
    """Search, or report; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="how many candidates (100)")
    parser.add_argument("--budget", type=float, default=0.5, metavar="SECONDS", help="sampling of a judgement (0.5)")
    parser.add_argument("--size", default="smoke", help="size of the target (smoke)")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--out", type=Path, default=Path("judge-search.jsonl"), metavar="FILE", help="a new file")
    parser.add_argument("--report", type=Path, metavar="FILE", help="judge nothing, and print what such a file has")
    asked = parser.parse_args()
    if asked.report is not None:
        return report(read_lines(asked.report))
    if asked.out.exists():
        parser.error(f"{asked.out} exists; a search is not continued: choose another --out")
    try:
        search(asked.count, asked.out, ["--device", asked.device, "--size", asked.size, "--budget", str(asked.budget)])
    except AiperfError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(error.exit_code)
    return report(read_lines(asked.out))


if __name__ == "__main__":
    raise SystemExit(main())
