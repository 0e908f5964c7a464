import json

import jsonschema
import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.cli.schema import DOCUMENTS
from aiperf_core.plugins import load_plugins
from aiperf_core.results import schema as schemas
from aiperf_core.results.models import DOCUMENT_KINDS


def schema(*arguments):
    return CliRunner().invoke(Shell(load_plugins([])), ["schema", *map(str, arguments)])


def test_the_list():
    found = schema()
    assert (found.exit_code, found.stderr) == (0, "")
    assert [line.split()[0] for line in found.stdout.splitlines()] == ["document", *schemas.ROOTS]
    assert "target    targets/TARGET.json              target-4.json\n" in found.stdout
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
    assert found.stdout.splitlines() == [f"{tmp_path}/new/folder/{name}-4.json" for name in schemas.ROOTS]
    for name in schemas.ROOTS:
        assert (tmp_path / f"new/folder/{name}-4.json").read_bytes() == schemas.file_of(name).read_bytes()
    assert schema("target", "--out", tmp_path / "one").exit_code == 0
    assert [file.name for file in (tmp_path / "one").iterdir()] == ["target-4.json"]


def test_what_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    found = schema("--out", tmp_path / "file")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == f"aiperf: --out '{tmp_path}/file' is a file; name a folder.\n"
    found = schema("target", "--out", tmp_path / "file/under")
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr == f"aiperf: cannot write '{tmp_path}/file/under/target-4.json': Not a directory.\n"


def test_an_unknown_document():
    found = schema("targets")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "'manifest', 'target', 'document'" in found.stderr
