"""A result as a file: JSON, CSV, Parquet, Markdown, HTML, or its main picture as SVG, PNG or PDF."""

from pathlib import Path

from aiperf_core import atomic
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.report import cell_text, flat_tables, picture
from aiperf_core.report.result import Result, document
from aiperf_core.report.text import markdown_text
from aiperf_core.results import jsontext

TEXTS = (".json", ".csv", ".html", ".md", ".parquet")


def check(path: Path) -> None:
    """Raise where a file cannot be written: the kind is unknown, the folder is missing, or a package is."""
    if path.suffix.lower() not in (*TEXTS, *picture.FORMATS):
        accepted = ", ".join((*TEXTS, *picture.FORMATS))
        raise UsageError(f"'{path}' has no known ending; --out takes a name that ends in {accepted}.")
    if path.suffix.lower() in picture.FORMATS:
        picture.check(path)
    if not path.parent.is_dir():
        raise UsageError(f"the folder '{path.parent}' does not exist. Make it, or choose another --out.")


def write(result: Result, path: Path) -> None:
    """Write the file whole or not at all. Raises AiperfError where that is impossible."""
    kind = path.suffix.lower()
    if kind in picture.FORMATS:
        if not result.drawings:
            raise AiperfError(f"'{result.analysis}' made no picture here; choose .json, .csv or .html.")
        picture.write(result.drawings[0], path)
        return
    if kind == ".parquet":
        _write(_parquet(result), path)
    else:
        write_text(_text(result, kind), path)


def write_text(text: str, path: Path, option: str = "--out") -> None:
    """Write a text whole or not at all. Raises AiperfError where that is impossible."""
    _write(text.encode("utf-8", errors="backslashreplace"), path, option)


def _write(data: bytes, path: Path, option: str = "--out") -> None:
    try:
        atomic.write(path, data)
    except OSError as error:
        raise AiperfError(f"cannot write '{path}': {error.strerror or error}. Choose another {option}.") from error


def _text(result: Result, kind: str) -> str:
    if kind == ".json":
        return jsontext.dumps(document(result))
    if kind == ".csv":
        return flat_tables.text(result)
    if kind == ".md":
        return result.text or markdown(result)
    from aiperf_core.report import html

    return html.page(result)


def _parquet(result: Result) -> bytes:
    if not result.tables:
        raise AiperfError(f"'{result.analysis}' made no table here; choose .json or .html.")
    # What differs between two runs stands before the table of figures.
    measured = (table for table in result.tables if any(column.form == "figure" for column in table.columns))
    return flat_tables.parquet(next(measured, result.tables[0]))


def markdown(result: Result) -> str:
    """The sentences and tables of a result in Markdown, with what was left out and what the figures rest on."""
    lines = [f"# {markdown_text(result.title)}", "", *(f"- {markdown_text(sentence)}" for sentence in result.summary)]
    for table in result.tables:
        lines += ["", f"## {markdown_text(table.title)}", ""]
        lines += [markdown_text(table.note), ""] if table.note else []
        lines.append(f"| {' | '.join(markdown_text(column.title) for column in table.columns)} |")
        lines.append(f"|{' --- |' * len(table.columns)}")
        for record in table.records:
            cells = [markdown_text(cell_text.whole(record.cells.get(column.key))) for column in table.columns]
            lines.append(f"| {' | '.join(cells)} |")
    if result.left_out:
        lines += ["", "Left out:", ""]
        lines += [f"- {markdown_text(f'{part.what} {part.verdict}: {part.reason}')}" for part in result.left_out]
    if result.assumptions:
        lines += ["", "Assumptions:", "", *(f"- {markdown_text(text)}" for text in result.assumptions)]
    return "\n".join(lines) + "\n"
