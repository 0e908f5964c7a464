"""DocumentSchema: the JSON Schema of a document outside of bundles, such as a suite.

A plugin contributes `DocumentSchema` records with the hook `aiperf_schemas`. `aiperf schema NAME` then prints the
schema, beside those of the documents of a bundle.
"""

import re

from attrs import field, frozen

from aiperf_core.contributed import json_file, named, one_line, read_file

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


@frozen
class DocumentSchema:
    """The schema of a kind of documents. A field that breaks a rule below raises `ValueError`; its plugin is skipped.

    name: as in `aiperf schema NAME`. It has a hyphen, unlike the names of documents of a bundle.
    files: where such documents are, in one line, such as `fleet.json in the folder of a fleet`.
    schema: the file with the schema, `"package:folder/file.json"`.
    """

    name: str = field(validator=named("schema", _is_name, "lower-case words with hyphens can, such as 'ci-suite'"))
    files: str = field(validator=one_line("schema"))
    schema: str = field(validator=json_file("schema"))

    def read_schema(self) -> bytes:
        """The content of the file. Raises OSError or ImportError where the package lacks it."""
        return read_file(self.schema)
