"""The notebook of the first lesson: it is a notebook without outputs, and its code runs from top to bottom."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_lesson.ipynb"

# Runs cells as Jupyter does: what the last line of a cell evaluates to is shown, as HTML where it can be.
KERNEL = """
import ast, json, sys
names = {"__name__": "__main__"}
for cell in json.load(sys.stdin):
    lines = ast.parse(cell["code"], cell["id"]).body
    last = lines.pop() if isinstance(lines[-1], ast.Expr) else None
    exec(compile(ast.Module(lines, []), cell["id"], "exec"), names)
    if last is not None:
        shown = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)
        if shown is not None:
            print(shown._repr_html_() if hasattr(shown, "_repr_html_") else repr(shown))
"""


@pytest.fixture(scope="module")
def cells():
    return json.loads(NOTEBOOK.read_text())["cells"]


def test_it_has_the_form_of_a_notebook_and_no_outputs(cells):
    document = json.loads(NOTEBOOK.read_text())
    assert document.keys() == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert document["metadata"]["kernelspec"].keys() == {"display_name", "language", "name"}
    assert len({cell["id"] for cell in cells}) == len(cells)
    common = {"cell_type", "id", "metadata", "source"}
    for cell in cells:
        code = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert cell["cell_type"] in ("code", "markdown")
        assert cell.keys() == common | code
        assert (cell.get("execution_count"), cell.get("outputs", [])) == (None, [])
        assert all(line.endswith("\n") for line in cell["source"][:-1])


def test_it_asks_for_a_prediction_before_it_measures(cells):
    order = [cell["id"] for cell in cells]
    assert order.index("predict") < order.index("measure") < order.index("exercise")


@pytest.mark.docs
@pytest.mark.timeout(300)
def test_its_code_runs_in_one_fresh_process(cells, tmp_path):
    code = [{"id": cell["id"], "code": "".join(cell["source"])} for cell in cells if cell["cell_type"] == "code"]
    done = subprocess.run(
        [sys.executable, "-c", KERNEL],
        input=json.dumps(code),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "void coalesced(" in done.stdout
    assert "<iframe" in done.stdout
    assert "You predicted 1.0x. Measured: <Row 'coalesced': variant, " in done.stdout
    assert "n = 16,384: <Row 'coalesced': variant, " in done.stdout
