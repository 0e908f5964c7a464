"""Drive a search of kernels by `aiperf judge --serve`: candidates as texts in, verdicts out.

    aiperf judge --serve judge.sock --target practice.softmax --device cpu &
    python search.py judge.sock

The candidates are the rows of a softmax in chunks of several sizes, and some that cheat. A search of your own replaces
`candidates`, and decides by the verdicts what to try next.
"""

import json
import socket
import sys
from collections.abc import Iterator
from typing import Any

CHUNKED = """
import torch

class Implementation:
    def prepare(self, x):
        self.out = torch.empty_like(x)

    def run(self, x):
        for start in range(0, x.shape[0], {rows}):
            torch.softmax(x[start:start + {rows}], dim=-1, out=self.out[start:start + {rows}])
        return self.out
"""
ZEROS = """
import torch

class Implementation:
    def run(self, x):
        return torch.zeros_like(x)  # variant {rows}
"""
STALE = """
import torch

class Implementation:
    def run(self, x):
        if not hasattr(self, "out"):
            self.out = torch.softmax(x, dim=-1)  # variant {rows}
        return self.out
"""


def candidates(count: int) -> Iterator[tuple[str, str]]:
    """Names and texts of candidates; every fifth one cheats."""
    for number in range(count):
        rows = 16 + 8 * number
        kind, text = (
            ("zeros", ZEROS) if number % 10 == 4 else ("stale", STALE) if number % 10 == 9 else ("chunks", CHUNKED)
        )
        yield f"{kind}-{rows}", text.replace("{rows}", str(rows))


def judged(service: socket.socket, lines: Any, name: str, text: str) -> dict[str, Any]:
    """The verdict on a candidate."""
    service.sendall(json.dumps({"id": name, "code": text}).encode() + b"\n")
    answer: dict[str, Any] = json.loads(next(lines))
    return answer


def main(path: str, count: int = 20) -> int:
    """Judge some candidates; 0 if the cheats alone were not believed."""
    best, right = ("none", 0.0), 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as service:
        service.connect(path)
        lines = service.makefile("rb")
        for name, text in candidates(count):
            answer = judged(service, lines, name, text)
            cheats = not name.startswith("chunks")
            believed = answer["verdict"] in ("FASTER", "SLOWER", "SAME", "INCONCLUSIVE")
            right += cheats != believed
            speedup = (answer.get("speedup") or {}).get("value", 0.0)
            if answer["verdict"] == "FASTER" and speedup > best[1]:
                best = (name, speedup)
            print(f"{name:12} {answer['verdict']!s:13} {speedup:6.3f}x  {answer['seconds']:.2f} s")
        lines.close()
    print(f"right about {right} of {count}; best: {best[0]} {best[1]:.3f}x")
    return 0 if right == count else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], *map(int, sys.argv[2:3])))
