"""`aiperf schema`: the JSON Schema of the documents in a bundle."""

from pathlib import Path

import click

from aiperf_core.cli.measuring import out_option
from aiperf_core.errors import AiperfError, UsageError

# The documents, and their files in a bundle.
DOCUMENTS = {
    "manifest": "manifest.json",
    "target": "targets/TARGET.json",
    "document": "load/NAME.json, fleet/NAME.json",
}


@click.command("schema")
@click.argument("document", type=click.Choice(tuple(DOCUMENTS)), required=False)
@out_option("schema, or all schemas,")
def schema(document: str | None, out: Path | None) -> None:
    """Print the JSON Schema of a document in a bundle, or list the documents.

    With --out, write the schema of the document, or of all documents, to a folder.
    """
    from aiperf_core.cli.screen import consoles
    from aiperf_core.cli.tables import print_table
    from aiperf_core.results import schema as schemas

    if out is not None:
        for name in [document] if document else DOCUMENTS:
            click.echo(_write(out, schemas.file_of(name)))
    elif document is not None:
        consoles()[0].write(schemas.file_of(document).read_text())
    else:
        rows = [(name, files, schemas.file_of(name).name) for name, files in DOCUMENTS.items()]
        print_table(("document", "files in a bundle", "schema"), rows)


def _write(folder: Path, source: Path) -> Path:
    """Copy a schema to a folder, whole or not at all."""
    from aiperf_core.results import atomic

    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out '{folder}' is a file; name a folder.")
    path = folder / source.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        atomic.write(path, source.read_bytes())
    except OSError as error:
        raise AiperfError(f"cannot write '{path}': {error.strerror or error}.") from error
    return path
