import json
import re

import jsonschema
import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.cli.schema import DOCUMENTS
from aiperf_core.document_kind import DocumentKind
from aiperf_core.document_schema import DocumentSchema
from aiperf_core.plugins import load_plugins
from aiperf_core.results import schema as schemas
from aiperf_core.results.models import DOCUMENT_KINDS


def schema(*arguments):
    return CliRunner().invoke(Shell(load_plugins([])), ["schema", *map(str, arguments)])


def test_the_list():
    found = schema()
    assert (found.exit_code, found.stderr) == (0, "")
    assert [line.split()[0] for line in found.stdout.splitlines()] == ["document", *schemas.ROOTS]
    assert "target    targets/TARGET.json              target-5.json\n" in found.stdout
    assert DOCUMENTS["document"] == ", ".join(f"{kind}/NAME.json" for kind in DOCUMENT_KINDS)


@pytest.mark.parametrize("document", schemas.ROOTS)
def test_a_schema(document):
    found = schema(document)
    assert (found.exit_code, found.stderr) == (0, "")
    assert json.loads(found.stdout) == schemas.generate(document)


def test_a_bundle_keeps_to_what_is_printed(bundle):
    for document, file in (("manifest", "manifest.json"), ("target", "targets/ch07.memory_access.json")):
        validator = jsonschema.Draft202012Validator(json.loads(schema(document).stdout))
        content = json.loads((bundle.path / file).read_text())
        validator.validate(content)
        assert not validator.is_valid({**content, "schema_version": 99})


def test_into_a_folder(tmp_path):
    found = schema("--out", tmp_path / "new/folder")
    assert found.exit_code == 0
    assert found.stdout.splitlines() == [f"{tmp_path}/new/folder/{name}-5.json" for name in schemas.ROOTS]
    for name in schemas.ROOTS:
        assert (tmp_path / f"new/folder/{name}-5.json").read_bytes() == schemas.file_of(name).read_bytes()
    assert schema("target", "--out", tmp_path / "one").exit_code == 0
    assert [file.name for file in (tmp_path / "one").iterdir()] == ["target-5.json"]


def test_what_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    found = schema("--out", tmp_path / "file")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == f"aiperf: --out '{tmp_path}/file' is a file; name a folder.\n"
    found = schema("target", "--out", tmp_path / "file/under")
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr == f"aiperf: cannot write '{tmp_path}/file/under/target-5.json': Not a directory.\n"


def test_an_unknown_document():
    found = schema("targets")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == (
        "aiperf: 'targets' is not a document with a schema; known are document, manifest, target. See what provides "
        "them: aiperf plugins\n"
    )


PLUGIN = """
from aiperf_core.document_kind import DocumentKind
from aiperf_core.document_schema import DocumentSchema
from aiperf_core.hookspecs import hookimpl

@hookimpl
def aiperf_schemas():
    yield DocumentSchema("acme-suite", "the suite of aiperf acme", "aiperf_acme:schemas/suite-2.json")

@hookimpl
def aiperf_documents():
    yield DocumentKind("load", "Loads", "aiperf_acme.reader:Reader", schema="aiperf_acme:schemas/acme-3.json")
    yield DocumentKind("plain", "Documents without a schema", "aiperf_acme.reader:Reader")
"""


@pytest.fixture
def acme(site):
    """A function that calls the command with a package whose documents have a schema."""
    site.install("aiperf-acme", PLUGIN)
    plugins = site.load()
    assert plugins.set_aside == []
    return lambda *arguments: CliRunner().invoke(Shell(plugins), ["schema", *map(str, arguments)])


def test_the_schema_of_a_package(site, acme, tmp_path):
    site.write("aiperf_acme/schemas/acme-3.json", '{"title": "Acme"}\n')
    site.write("aiperf_acme/schemas/suite-2.json", '{"title": "Suite"}\n')
    assert acme().stdout.splitlines()[-2:] == [
        "load        load/NAME.json: payload          acme-3.json",
        "acme-suite  the suite of aiperf acme         suite-2.json",
    ]
    assert acme("load").stdout == '{"title": "Acme"}\n'
    assert acme("acme-suite").stdout == '{"title": "Suite"}\n'
    assert acme("plain").exit_code == 2
    found = acme("--out", tmp_path / "out")
    assert found.stdout.splitlines()[-2:] == [f"{tmp_path}/out/{name}.json" for name in ("acme-3", "suite-2")]
    assert (tmp_path / "out/acme-3.json").read_text() == '{"title": "Acme"}\n'


def test_a_package_without_its_schema(acme, tmp_path):
    found = acme("load")
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr.startswith("aiperf: the schema 'aiperf_acme:schemas/acme-3.json' of aiperf-acme ")
    assert found.stderr.endswith("Install the package again.\n")


@pytest.mark.parametrize(("name", "path", "message"), [
    ("manifest", "a:b.json", "'manifest' cannot name a document kind: lower-case letters and digits can, such as "
     "'load', except manifest, target and document"),
    ("load", "b.json", "document kind 'load' needs schema='package:folder/file.json' or none; found 'b.json'"),
    ("load", "a:b.txt", "document kind 'load' needs schema='package:folder/file.json' or none; found 'a:b.txt'"),
])  # fmt: skip
def test_a_kind_that_is_refused(name, path, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        DocumentKind(name, "Documents", "a.b:C", schema=path)


@pytest.mark.parametrize(("name", "path", "message"), [
    ("suite", "a:b.json", "'suite' cannot name a schema: lower-case words with hyphens can, such as 'ci-suite'"),
    ("acme-suite", "b.json", "schema 'acme-suite' needs schema='package:folder/file.json'; found 'b.json'"),
    ("acme-suite", None, "schema 'acme-suite' needs schema='package:folder/file.json'; found None"),
])  # fmt: skip
def test_a_schema_that_is_refused(name, path, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        DocumentSchema(name, "the suite", path)
