"""No target of this repository has the former labels in its docstring: Workload, Baseline, Variants, Breaks."""

import ast
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from aiperf_core.docstring import labels
from aiperf_core.validity.lint import FORMER_LABELS

if TYPE_CHECKING:
    from aiperf_core.plugins import Plugins


def labels_in(module: str) -> tuple[str, ...]:
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    return labels(ast.get_docstring(ast.parse(Path(found.origin).read_text())) or "")


def test_docstrings_have_the_present_labels(plugins: "Plugins") -> None:
    targets = [selection.target for selection in plugins.select(("all",))]
    assert [target.name for target in targets if set(FORMER_LABELS) & set(labels_in(target.module))] == []
