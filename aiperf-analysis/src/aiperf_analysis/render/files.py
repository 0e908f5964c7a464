"""A result as a file: JSON, CSV, HTML, Markdown where it has a text, or its main picture as SVG, PNG or PDF."""

from pathlib import Path

from aiperf_core import atomic
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.report import picture
from aiperf_core.report.result import Result, document
from aiperf_core.results import jsontext

TEXTS = (".json", ".csv", ".html", ".md")


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
            raise AiperfError(f"the analysis '{result.analysis}' made no picture here; choose .json or .csv.")
        picture.write(result.drawings[0], path)
        return
    if kind == ".json":
        text = jsontext.dumps(document(result))
    elif kind == ".csv":
        from aiperf_analysis.render import csv_file

        text = csv_file.text(result)
    elif kind == ".md":
        if not result.text:
            raise AiperfError(f"the analysis '{result.analysis}' made no Markdown here; choose .json, .csv or .html.")
        text = result.text
    else:
        from aiperf_core.report import html

        text = html.page(result)
    try:
        atomic.write(path, text.encode())
    except OSError as error:
        raise AiperfError(f"cannot write '{path}': {error.strerror or error}. Choose another --out.") from error
