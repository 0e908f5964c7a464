"""The documents of other packages in a bundle: their names and places, and their content as far as analyses read it."""

from typing import Any, TypeVar, get_args, get_origin

import attrs

from aiperf_core.errors import BundleError
from aiperf_core.results import jsontext, structure
from aiperf_core.results.filenames import file_name, target_name
from aiperf_core.results.models import Document, Manifest
from aiperf_core.results.schema import hints_of

Content = TypeVar("Content")


def sealed_names(manifest: Manifest, kind: str) -> list[str]:
    """The names of the documents of a kind in a sealed bundle, by its manifest alone."""
    begin, end = f"{kind}/", ".json"
    files = [one for one in manifest.hashes if one.startswith(begin) and one.endswith(end)]
    return sorted(target_name(one.removeprefix(begin).removesuffix(end)) for one in files)


def path_of(kind: str, name: str) -> str:
    """The file of a document in a bundle."""
    return f"{kind}/{file_name(name)}.json"


def content_of(document: Document, record: type[Content], newest: int, place: str) -> Content:
    """The content of a document that lies at a place. Raises BundleError for one of another format.

    record: has the fields that are read; a document may have more.
    newest: the format that is read.
    """
    where, version = f"'{place}'", document.payload.get("format")
    if type(version) is int and version > newest:
        raise BundleError(
            f"{where} has format {version}, and this aiperf-analysis reads format {newest}. Upgrade aiperf-analysis."
        )
    try:
        return structure.structure(_part(document.payload, record), record)
    except jsontext.JsonError as error:
        raise BundleError(f"{where} holds no {document.kind} of format {newest}: {error}") from None


def _part(found: Any, hint: Any) -> Any:
    """The part of a document that a record has. What does not fit stays as it is, for `structure` to refuse."""
    if attrs.has(hint) and isinstance(found, dict):
        hints = hints_of(hint, on_disk=False)
        return {name: _part(value, hints[name]) for name, value in found.items() if name in hints}
    if get_origin(hint) is list and isinstance(found, list):
        return [_part(one, get_args(hint)[0]) for one in found]
    return found
