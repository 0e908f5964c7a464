"""Thirty problems in the public form of KernelBench, and candidates for each whose truth is known.

The folders `operators`, `chains` and `networks` have ten files each, with `Model`, `get_inputs` and `get_init_inputs`.
Each file also has `Optimised`, which is right, and `Dropped`, which leaves out a term. All other candidates follow from
`Model`.
"""

from pathlib import Path

KINDS = ("operators", "chains", "networks")
RIGHT = ("honest", "optimised")

_CANDIDATES = {
    "honest": "class ModelNew(Model):\n    pass\n",
    "optimised": "class ModelNew(Optimised):\n    pass\n",
    "zeros": """
class ModelNew(Model):
    def forward(self, *inputs):
        return torch.zeros_like(super().forward(*inputs))
""",
    "stale": """
class ModelNew(Model):
    def forward(self, *inputs):
        if not hasattr(self, "kept"):
            self.kept = super().forward(*inputs).clone()
        return self.kept.clone()
""",
    "half precision": """
class ModelNew(Model):
    def forward(self, *inputs):
        with torch.no_grad():
            for one in self.parameters():
                one.copy_(one.half())
        return super().forward(*(one.half().float() for one in inputs)).half().float()
""",
    "dropped term": "class ModelNew(Dropped):\n    pass\n",
    "half of the rows": """
class ModelNew(Model):
    def forward(self, *inputs):
        out = super().forward(*inputs).clone()
        out[len(out) // 2 :] = 0
        return out
""",
}
CANDIDATES = tuple(_CANDIDATES)


def problems() -> list[Path]:
    """The files of the problems, in the order of their kinds and names."""
    return [file for kind in KINDS for file in sorted(Path(__file__).with_name(kind).glob("*.py"))]


def candidate(problem: Path, name: str) -> str:
    """The text of one of the `CANDIDATES` of a problem. Those in `RIGHT` are right, all others wrong."""
    return f"{problem.read_text()}\n\n{_CANDIDATES[name].strip()}\n"
