"""The code of each implementation of a target, with its differences from the step before."""

import contextlib
import dataclasses
import difflib
import inspect
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from attrs import field, frozen

from aiperf_core.benchmark import Benchmark, Implementation
from aiperf_core.declared_code import CODE, listing
from aiperf_core.launches import ReadyImplementation
from aiperf_core.stats.expectations import Source

CONTEXT = 3  # equal lines around a difference
# Up to this number of changed lines, a step is a change of names or flags, which elsewhere in the code decide.
SMALL = 12
# A name in more lines than this is common to the code, and marks none of them.
COMMON = 8
_PROSE = re.compile(r'\b(?:why|predict|teaches|adds|kind)=\(?"[^"]*"')
_NAME = re.compile(r"[A-Za-z_]\w+")

Sign = Literal["+", "-", " ", "=", "@"]


@frozen
class Line:
    """A line of a difference.

    sign: `+` or `-` for a line that the step adds or takes away; `=` for one of both that names what differs; a blank
        for another one of both; `@` where lines of both are left out.
    number: its place in the text of the step, of `-` in that of the step before.
    """

    sign: Sign
    text: str
    number: int


@frozen(kw_only=True, slots=False)
class StepCode:
    """The code of an implementation.

    name, device, role, why, teaches, predict: as declared.
    kind: of a baseline.
    parent: the implementation that it is compared with; empty for none.
    files: its code by the names of files, cut to what it uses.
    before: the same of the parent.
    instance: the kernel with the arguments of its template; empty for none.
    """

    name: str
    device: str
    role: str
    why: str
    teaches: str
    predict: str
    kind: str
    parent: str
    files: Mapping[str, str]
    before: Mapping[str, str] = field(factory=dict)
    instance: str = ""

    @cached_property
    def changes(self) -> dict[str, list[Line]]:
        """The differences from the parent, and the lines that name what differs, by file; no file without either."""
        lines = {name: _difference(self.before.get(name, ""), text) for name, text in self.files.items()}
        naming = _naming([line for part in lines.values() for line in part], [*self.files.values()])
        shown = {name: [*_shown(part, naming)] for name, part in lines.items()}
        return {name: part for name, part in shown.items() if any(line.sign != "@" for line in part)}

    @property
    def same(self) -> list[str]:
        """The files that it shares with the parent as they are."""
        return [name for name in self.files if name not in self.changes]


def steps(benchmark: Benchmark, source: Source | None) -> tuple[list[StepCode], dict[str, str]]:
    """The code of all implementations by device, that of GPUs first, and the whole files that it is of, by name."""
    texts = texts_in(source.folder) if source else {}
    found = []
    for device in devices_of(benchmark):
        rows = benchmark.implementations_on(device)
        files = {row.name: code_of(row, benchmark, texts) for row in rows}
        for row in rows:
            parent = "" if row.role != "variant" else row.builds_on or rows[0].name
            kernel = _kernel(row, benchmark)
            found.append(
                StepCode(
                    name=row.name,
                    device=device,
                    role=row.role,
                    why=row.why,
                    teaches=row.teaches,
                    predict=row.predict,
                    kind=row.kind or "",
                    parent=parent,
                    files=files[row.name],
                    before=files.get(parent, {}),
                    instance=kernel if "<" in kernel else "",
                )
            )
    used = {name for step in found for name in step.files}
    return found, {path.name: text for path, text in texts.items() if path.name in used}


def devices_of(benchmark: Benchmark) -> list[str]:
    """The devices of a benchmark, the GPU first."""
    return sorted(benchmark.devices, key=lambda device: device != "cuda")


def texts_in(folder: Path) -> dict[Path, str]:
    """The files with code in a package's folder. Those that cannot be read are left out."""
    texts = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in CODE:
            with contextlib.suppress(OSError, UnicodeDecodeError):
                texts[path] = path.read_text("utf-8")
    return texts


def code_of(row: Implementation, benchmark: Benchmark, texts: Mapping[Path, str]) -> dict[str, str]:
    """The code of an implementation by the names of files; empty where its source is not known."""
    lines: dict[Path, list[int]] = {}
    code: Any = row.code
    while code is not None:
        file, _, line = _place(code)
        if line.isdigit():
            lines.setdefault(Path(file), []).append(int(line))
        code = getattr(code, "graph_of", None)
    kernel = _kernel(row, benchmark)
    files: dict[str, str] = {}
    for path, numbers in lines.items():
        files |= listing(path, texts, numbers, [kernel] if kernel else [])
    flags = getattr(row.code, "flags", None)
    if files and dataclasses.is_dataclass(flags):
        names = [member.name for member in dataclasses.fields(flags) if getattr(flags, member.name) is True]
        first = next(iter(files))
        files[first] = f"# Switched on: {', '.join(names) or 'nothing'}\n{files[first]}"
    return files


def _place(code: Any) -> tuple[str, str, str]:
    """File and line of an implementation."""
    row = Implementation(name="", role="variant", device="", code=code)
    return row.where.rpartition(" (")[0].rpartition(":")


def _kernel(row: Implementation, benchmark: Benchmark) -> str:
    """The kernel of a ready implementation at the sizes of its device; empty where it is not known."""
    if not (inspect.isclass(row.code) and issubclass(row.code, ReadyImplementation)):
        return ""
    presets = benchmark.task.presets
    return row.code.kernel_at(presets.get(row.device) or presets["smoke"])


# --- differences


def _difference(before: str, after: str) -> list[Line]:
    old, new = before.splitlines(), after.splitlines()
    lines: list[Line] = []
    for kind, i, i_end, j, j_end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            lines += [Line(" ", new[at], at) for at in range(j, j_end)]
        else:
            lines += [Line("-", old[at], at) for at in range(i, i_end)]
            lines += [Line("+", new[at], at) for at in range(j, j_end)]
    return lines


def _naming(lines: Sequence[Line], texts: Sequence[str]) -> set[str]:
    """The names that only the changed lines of one side have, and what they decide; none where many lines changed.

    A flag decides the arguments whose values it is in; another value of a template's argument decides that argument.
    """
    changed = [line for line in lines if line.sign in "+-"]
    if sum(bool(_PROSE.sub("", line.text).strip(" ,")) for line in changed) > SMALL:
        return set()
    before, after = ("\n".join(_PROSE.sub("", line.text) for line in changed if line.sign == sign) for sign in "-+")
    names = {*_NAME.findall(before)} ^ {*_NAME.findall(after)}
    keys = (
        key
        for line in lines
        for key, value in re.findall(r'"(\w+)": ([^,{}"]*)', line.text)
        if names & {*_NAME.findall(value)}
    )
    equal = Counter(name for line in lines if line.sign == " " for name in _names(line))
    deciding = {*names, *keys, *_template_parameters(before, after, texts)}
    return {name for name in deciding if equal[name] <= COMMON}


def _names(line: Line) -> set[str]:
    """The names in a line, without its comment."""
    return {*_NAME.findall(re.sub(r"//.*|#.*", "", line.text))}


def _template_parameters(before: str, after: str, texts: Sequence[str]) -> Iterator[str]:
    """The parameters of templates that have another number or truth value in two texts."""
    old, new = (
        {name: given.split(",") for name, given in re.findall(r"(\w+)<([^<>]*)>", text)} for text in (before, after)
    )
    for name in old.keys() & new.keys():
        for text in texts:
            declared = re.search(rf"template\s*<([^;{{}}]*)>[^;{{}}]*\b{name}\s*\(", text)
            parameters = declared[1].split(",") if declared else []
            for place, parameter in enumerate(parameters):
                values = {given[place].strip() if place < len(given) else "" for given in (old[name], new[name])}
                if len(values) > 1 and all(re.fullmatch(r"true|false|\d+|", value) for value in values):
                    yield _NAME.findall(parameter.partition("=")[0])[-1]


def _shown(lines: Sequence[Line], naming: set[str]) -> Iterator[Line]:
    """The differing lines with their surroundings, and the lines that name what differs."""
    marked = [
        Line("=", line.text, line.number) if line.sign == " " and naming & _names(line) else line for line in lines
    ]
    near = {
        place + offset
        for place, line in enumerate(marked)
        if line.sign != " "
        for offset in range(-CONTEXT, CONTEXT + 1)
    }
    left_out = False
    for place, line in enumerate(marked):
        if place not in near:
            left_out = True
            continue
        if left_out:
            yield Line("@", "", line.number)
        left_out = False
        yield line
    if left_out:
        yield Line("@", "", len(lines))
