"""Runs the tool of a surprise, and looks for its cause, each in a process that has done nothing else. Prints JSON.

python -m aiperf_learn.surprises.tool NAME
"""

import inspect
import json
import multiprocessing
import re
import sys
from importlib import import_module
from itertools import dropwhile
from types import ModuleType
from typing import Any

from aiperf_learn.surprises.catalogue import find


def main(module: str) -> None:
    """Print the fields of `showing.Report`."""
    case = import_module(module)
    # The child is forked before the tool runs, so that neither finds what the other has set up.
    with multiprocessing.get_context("fork").Pool(1) as pool:
        readings = case.fooled()
        facts = pool.apply(facts_of, (module,))
    report = {"source": source_of(case), "cause": case.__doc__, "readings": readings, "facts": facts}
    json.dump(report, sys.stdout)


def source_of(case: ModuleType) -> str:
    """The sizes, the code of the implementations, without decorators, and that of the tool."""
    sizes = re.findall(r"^[A-Z][A-Z_, ]* = .*\n", inspect.getsource(case), re.MULTILINE)
    codes = [*(implementation.code for implementation in case.bench.implementations), case.fooled]
    texts = [dropwhile(lambda line: line.startswith("@"), inspect.getsourcelines(code)[0]) for code in codes]
    return "\n".join(["".join(sizes), *("".join(lines) for lines in texts)])


def facts_of(module: str) -> list[Any]:
    """The evidence of a surprise, by the module of its case: names, units, and numbers by case."""
    return list(import_module(module).cause())


if __name__ == "__main__":
    main(find(sys.argv[1]).module)
