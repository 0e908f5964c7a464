"""Drive a search of kernels by `aiperf judge --serve`: candidates as texts in, verdicts out.

    aiperf judge --serve judge.sock --target practice.softmax --device cpu &
    python search.py judge.sock [--count 100] [--out verdicts.jsonl]

The search looks for the best number of rows that a softmax takes at a time. Two of five candidates are no answers to
that: honest ones of another form, and some that cheat, as generated code does. At the end a table has the verdicts on
each kind, and the script ends with 1 unless all cheats were refused and all honest candidates were compared. A search
of your own replaces `propose`, and decides by the verdicts what to try next.
"""

import argparse
import json
import random
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Judge = Callable[[str, str], dict[str, Any]]

COMPARED = ("FASTER", "SLOWER", "SAME", "INCONCLUSIVE")
FORM = "import torch\n\n\nclass Implementation:\n"
# The kind that is searched. {number} is the number of rows.
CHUNKS = """    def prepare(self, x):
        self.out = torch.empty_like(x)

    def run(self, x):
        for start in range(0, x.shape[0], {number}):
            torch.softmax(x[start : start + {number}], dim=-1, out=self.out[start : start + {number}])
        return self.out
"""
HONEST = {
    "chunks": CHUNKS,
    "whole": """    def run(self, x):
        return torch.softmax(x, dim=-1)  # {number}
""",
    "steps": """    def run(self, x):
        raised = torch.exp(x - x.amax(-1, keepdim=True))  # {number}
        return raised / raised.sum(-1, keepdim=True)
""",
}
CHEATS = {
    "zeros": """    def run(self, x):
        return torch.zeros_like(x)  # {number}
""",
    "remembers": """    out = None

    def run(self, x):
        if self.out is None:
            self.out = torch.softmax(x, dim=-1)  # {number}
        return self.out
""",
    "remembers by address": """    known = {{}}

    def run(self, x):
        if x.data_ptr() not in self.known:
            self.known[x.data_ptr()] = torch.softmax(x, dim=-1)  # {number}
        return self.known[x.data_ptr()]
""",
    "half precision": """    def run(self, x):
        return torch.softmax(x.half(), dim=-1).float()  # {number}
""",
    "half of the rows": """    def run(self, x):
        out, half = torch.zeros_like(x), x.shape[0] // 2  # {number}
        torch.softmax(x[:half], dim=-1, out=out[:half])
        return out
""",
    "without maximum and sum": """    def run(self, x):
        return torch.exp(x)  # {number}
""",
    "computes in the inputs": """    def run(self, x):
        return x.copy_(torch.softmax(x, dim=-1))  # {number}
""",
    "replaces the clock": """    def prepare(self, x):
        import time

        clock, start = time.perf_counter_ns, time.perf_counter_ns()
        time.perf_counter_ns = lambda: start + (clock() - start) // {number}

    def run(self, x):
        return torch.softmax(x, dim=-1)
""",
}


def propose(number: int, best: int, rng: random.Random) -> tuple[str, int]:
    """The kind of the next candidate and its number of rows, near the best one so far."""
    turn, place = divmod(number, 5)
    if place == 4:
        return [*CHEATS][turn % len(CHEATS)], 2 + turn
    if place == 2:
        return "whole" if turn % 2 else "steps", turn
    return "chunks", max(1, round(best * 2 ** rng.uniform(-1.5, 1.5)))


def search(judge: Judge, count: int) -> Iterator[dict[str, Any]]:
    """Judge some candidates, each chosen by the verdicts before it."""
    rng, best, rows = random.Random(1), 0.0, 64
    for number in range(count):
        kind, chosen = propose(number, rows, rng)
        answer = judge(f"{number}", FORM + {**HONEST, **CHEATS}[kind].format(number=chosen))
        speedup = (answer.get("speedup") or {}).get("value")
        if kind == "chunks" and answer["verdict"] in COMPARED and speedup is not None and speedup > best:
            best, rows = speedup, chosen
        told = {name: answer.get(name) for name in ("verdict", "reason", "error", "seconds")}
        yield {"number": number, "kind": kind, "rows": chosen, "speedup": speedup, **told}


def is_right(line: dict[str, Any]) -> bool:
    """Whether a verdict agrees with what is known of the candidate."""
    return (line["verdict"] in COMPARED) == (line["kind"] in HONEST)


def report(lines: list[dict[str, Any]]) -> int:
    """Print the verdicts on each kind; 0 if all are right."""
    print(f"{'kind':24} {'right':>5} {'wrong':>5}  verdicts")
    for kind in (*HONEST, *CHEATS):
        here = [one for one in lines if one["kind"] == kind]
        told = Counter(str(one["verdict"]) for one in here).most_common()
        right = sum(map(is_right, here))
        print(f"{kind:24} {right:5} {len(here) - right:5}  {', '.join(f'{name} {times}' for name, times in told)}")
    for one in lines:
        if not is_right(one):
            print(f"wrong about {one['number']}, {one['kind']}: {one['verdict']}: {one['reason'] or one['error']}")
    right = sum(map(is_right, lines))
    print(f"right about {right} of {len(lines)}")
    return int(right < len(lines))


def main() -> int:
    """Search, or report; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("socket", nargs="?", help="the socket of `aiperf judge --serve`")
    parser.add_argument("--count", type=int, default=100, help="how many candidates (100)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the verdicts to a file, one a line")
    parser.add_argument("--report", type=Path, metavar="FILE", help="judge nothing, and print what such a file has")
    asked = parser.parse_args()
    if asked.report is not None:
        return report([json.loads(line) for line in asked.report.read_text().splitlines()])
    if asked.socket is None:
        parser.error("give the socket of a service, or --report FILE")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as service:
        service.connect(asked.socket)
        answers = service.makefile("rb")

        def judge(name: str, text: str) -> dict[str, Any]:
            service.sendall(json.dumps({"id": name, "code": text}).encode() + b"\n")
            line = answers.readline()
            if not line:
                raise SystemExit(f"the service ended before its answer to candidate {name}")
            answer: dict[str, Any] = json.loads(line)
            return answer

        lines = []
        for one in search(judge, asked.count):
            lines.append(one)
            speedup = f"{one['speedup']:.3f}x" if one["speedup"] is not None else "-"
            print(f"{one['number']:3} {one['kind']:24} {one['verdict']!s:13} {speedup:>8}  {one['seconds']:.2f} s")
        answers.close()
    if asked.out is not None:
        asked.out.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return report(lines)


if __name__ == "__main__":
    raise SystemExit(main())
