"""Targets of this repository whose docstring still has the former labels: Workload, Baseline, Variants, Breaks."""

import ast
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from aiperf_core.docstring import labels
from aiperf_core.validity.lint import FORMER_LABELS

if TYPE_CHECKING:
    from aiperf_core.plugins import Plugins

# A target that is moved to the present labels leaves the list; none joins it.
FORMER = [
    "ch04.all_to_all",
    "ch04.optimizer_sharding",
    "ch07.lowbit_unpack",
    "ch08.warp_divergence",
    "ch18.flex_sliding_window",
    "ch18.rope_kv_append",
    "ch19.kernel_autotune_dispatch",
    "ch20.fast_matmul_search",
]


def labels_in(module: str) -> tuple[str, ...]:
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    return labels(ast.get_docstring(ast.parse(Path(found.origin).read_text())) or "")


def test_docstrings_in_the_former_form_only_become_fewer(plugins: "Plugins") -> None:
    targets = [selection.target for selection in plugins.select(("all",))]
    former = {target.name for target in targets if set(FORMER_LABELS) <= set(labels_in(target.module))}
    assert former == set(FORMER), "take targets in the present form off the list; write no docstring in the former form"
