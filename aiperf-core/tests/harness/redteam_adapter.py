"""Gives a file of the red team's neutral form (`setup(self, inputs)`, `run(self, inputs)`) the form of a candidate."""

_ADAPTER = """

_Neutral = Implementation


class Implementation:
    def prepare(self, **inputs):
        self.neutral = _Neutral()
        self.neutral.setup({name: one for name, one in inputs.items() if isinstance(one, torch.Tensor)})

    def run(self, **inputs):
        return self.neutral.run({name: one for name, one in inputs.items() if isinstance(one, torch.Tensor)})
"""


def adapted(text: str) -> str:
    """The text of a candidate that does what a file of that form does."""
    return text + _ADAPTER
