"""DocumentKind: what reads the documents of a kind that other packages write into bundles.

A plugin contributes `DocumentKind` records with the hook `aiperf_documents`. `aiperf show` then shows documents of the
kind, `aiperf recheck` checks their figures, and `aiperf schema` prints the JSON Schema of their content.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, cast

from attrs import field, frozen

from aiperf_core.contributed import class_path, json_file, named, one_line, read_file, resolve

if TYPE_CHECKING:
    from aiperf_core.results.bundle import Bundle
    from aiperf_core.results.models import Document, Manifest
    from aiperf_core.results.seal_check import Difference

_NAME = re.compile(r"(?!(manifest|target|document)$)[a-z][a-z0-9]*")

_RULE = "lower-case letters and digits can, such as 'load', except manifest, target and document"


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


class DocumentReader(Protocol):
    """Reader of a package's own kind of documents."""

    def recheck(self, bundle: "Bundle", manifest: "Manifest", document: "Document") -> "Iterable[Difference]":
        """Yield the differences: figures that do not follow from the samples, and an exit code that does not follow."""

    def render(self, document: "Document") -> Iterable[str]:
        """The document as lines of text, for `aiperf show`. Raises `BundleError` for one that cannot be read."""


@frozen
class DocumentKind:
    """A kind of documents. A field that breaks a rule below raises `ValueError`, and its plugin is skipped.

    name: the kind, such as `load`.
    summary: one line.
    load: a class without arguments that is a `DocumentReader`, `"package.module:Class"`.
    schema: the file with the JSON Schema of the payload, `"package:folder/file.json"`; None where the package has none.
    """

    name: str = field(validator=named("document kind", _is_name, _RULE))
    summary: str = field(validator=one_line("document kind"))
    load: str = field(validator=class_path("document kind"))
    schema: str | None = field(default=None, validator=json_file("document kind", optional=True))

    def resolve(self) -> DocumentReader:
        """Import the class and make a reader. Raises what the import raises."""
        found: Any = resolve(self.load)
        return cast(DocumentReader, found())

    def read_schema(self) -> bytes:
        """The content of the schema's file. Raises OSError or ImportError where the package lacks it."""
        return read_file(self.schema or "")
