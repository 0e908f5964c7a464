"""The documents of other packages in a bundle, as `aiperf show` prints them."""

from typing import TYPE_CHECKING

import click

from aiperf_core.errors import BundleError
from aiperf_core.names import words
from aiperf_core.plugins import Plugins

if TYPE_CHECKING:
    from aiperf_core.results.bundle import Bundle
    from aiperf_core.results.models import Document


def documents_of(bundle: "Bundle", broken: list[BundleError]) -> "list[Document]":
    """The documents of a bundle; an error for each that cannot be read is added to `broken`."""
    from aiperf_core.results.models import DOCUMENT_KINDS

    found = []
    for kind in DOCUMENT_KINDS:
        for name in bundle.documents(kind):
            try:
                found.append(bundle.document(kind, name))
            except BundleError as error:
                broken.append(error)
    return found


def print_document(plugins: Plugins, document: "Document", broken: list[BundleError]) -> None:
    """Print a document by the package that knows its kind, or that no package does."""
    known = plugins.known_documents.get(document.kind)
    click.echo(f"\n{words(document.kind)}/{words(document.name)}")
    if known is None:
        click.echo("note: no installed package reads this kind; its content: aiperf show BUNDLE --json")
        return
    try:
        for line in known.resolve().render(document):
            click.echo(line)
    except BundleError as error:
        broken.append(error)
