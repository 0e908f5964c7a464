"""`aiperf schema`: the JSON Schema of the documents in a bundle, and of those that packages read and write besides."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import frozen

from aiperf_core.cli.measuring import out_option
from aiperf_core.errors import AiperfError, UsageError

if TYPE_CHECKING:
    from aiperf_core.contributions import Installed
    from aiperf_core.document_kind import DocumentKind
    from aiperf_core.document_schema import DocumentSchema
    from aiperf_core.plugins import Plugins

# The documents, and their files in a bundle.
DOCUMENTS = {
    "manifest": "manifest.json",
    "target": "targets/TARGET.json",
    "document": "load/NAME.json, fleet/NAME.json",
}


@frozen
class _Schema:
    """A schema. document: its name for this command; files: where such documents are; name: of its file."""

    document: str
    files: str
    name: str
    read: Callable[[], bytes]


@click.command("schema")
@click.argument("document", required=False, metavar="[DOCUMENT]")
@out_option("schema of DOCUMENT, or all schemas,", "standard output")
@click.pass_obj
def schema(plugins: "Plugins", document: str | None, out: Path | None) -> None:
    """Print the JSON Schema of a document, or list the documents: those in a bundle, then suites and others.

    The schemas of packages are those of the `payload` of their documents in a bundle.

    \b
    Examples:
      aiperf schema target
      aiperf schema --out schemas
    """
    from aiperf_core.cli.screen import consoles
    from aiperf_core.cli.tables import print_table
    from aiperf_core.contributed import known

    found = {one.document: one for one in _schemas(plugins)}
    chosen = known(document, found, "document with a schema") if document else None
    if out is not None:
        for one in [chosen] if chosen else found.values():
            click.echo(_write(out, one))
    elif chosen is not None:
        consoles()[0].write(chosen.read().decode())
    else:
        print_table(("document", "files", "schema"), [(one.document, one.files, one.name) for one in found.values()])


def _schemas(plugins: "Plugins") -> "Iterator[_Schema]":
    """The schemas of the core, then those of packages."""
    from aiperf_core.results import schema as schemas

    for name, files in DOCUMENTS.items():
        file = schemas.file_of(name)
        yield _Schema(name, files, file.name, file.read_bytes)
    for kind in plugins.documents.values():
        if kind.record.schema is not None:
            where = f"{kind.record.name}/NAME.json: payload"
            yield _Schema(kind.record.name, where, _name(kind.record.schema), partial(_read, kind))
    for one in plugins.schemas.values():
        yield _Schema(one.record.name, one.record.files, _name(one.record.schema), partial(_read, one))


def _name(path: str) -> str:
    """The name of the file in `"package:folder/file"`."""
    return path.rpartition("/")[2].rpartition(":")[2]


def _read(found: "Installed[DocumentKind] | Installed[DocumentSchema]") -> bytes:
    try:
        return found.record.read_schema()
    except (OSError, ImportError) as error:
        raise AiperfError(
            f"the schema '{found.record.schema}' of {found.distribution} {found.version} cannot be read: {error}. "
            "Install the package again."
        ) from error


def _write(folder: Path, source: _Schema) -> Path:
    """Write a schema to a folder, whole or not at all."""
    from aiperf_core import atomic

    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out '{folder}' is a file; name a folder.")
    path, content = folder / source.name, source.read()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        atomic.write(path, content)
    except OSError as error:
        raise AiperfError(f"cannot write '{path}': {error.strerror or error}.") from error
    return path
