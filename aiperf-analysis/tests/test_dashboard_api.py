"""The REST API: the same results as the commands, its document, and requests made from that document."""

import csv
import io
import json
import runpy
from pathlib import Path

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from aiperf_analysis import schema
from aiperf_analysis.dashboard.api import OLD, openapi
from aiperf_core.plugins import load_plugins

HERE = Path(__file__).parent
SITE = runpy.run_path(str(HERE / "dashboard_site.py"))
HISTORY = runpy.run_path(str(HERE / "history_bundles.py"))
client_of, links = SITE["client_of"], SITE["links"]
NAMES = [name for name in sorted(load_plugins().analyses) if name not in ("trace", "trace-diff")]
TARGETS = """
[[target]]
name = "*"
metric = "time_s"
at_most = 10.0
source = "a wish"
date = 2026-11-01
"""


@schemathesis.serializer("application/x-tar")
def as_it_is(_, value):
    """The body of an added bundle: any bytes."""
    return bytes(value) if isinstance(value, bytes) else str(value).encode()


# Each answer is one that the document tells: its status, its type and its schema.
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# The options that give each analysis something to compute, as a query; `cost` has a price.
QUERIES = {
    "whatif": {"latency": "100ms"},
    "cost": {"own-price": "1000"},
    "pareto": {"objective": "time,energy"},
    "recommend": {"use": "throughput"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    runs = tmp_path_factory.mktemp("api") / "runs"
    for number in range(10):
        HISTORY["run"](runs, number, 1e-3 * (1 + number / 1000))
    return runs


@pytest.fixture
def client(folder, plugins):
    return client_of(folder, plugins)


def document_of(told):
    return json.loads(told.out)


@pytest.mark.parametrize("name", NAMES)
def test_an_analysis_by_command_and_by_rest(name, example_runs, plugins, aiperf, tmp_path):
    (tmp_path / "targets.toml").write_text(TARGETS)
    given = {"targets": {"file": str(tmp_path / "targets.toml")}}
    client = client_of(example_runs, plugins, given=given)
    query = QUERIES.get(name, {})
    options = [part for key, value in {**query, **given.get(name, {})}.items() for part in (f"--{key}", value)]
    told = aiperf("analyze", name, "--in", example_runs, *options, "--json")
    answer = client.get(f"/api/v1/analyses/{name}", params=query)
    if told.out:
        assert answer.status_code == 200
        assert answer.json() == document_of(told)
        jsonschema.Draft202012Validator(schema.generate()).validate(answer.json())
    else:
        assert answer.status_code in (400, 422)
        assert answer.headers["content-type"] == "application/problem+json"
        assert f"aiperf: {answer.json()['detail']}\n" == told.err
    page = client.get(client.app.state.site.page_of_analysis[name].path, params=query)
    assert page.status_code in (200, 400)


@pytest.mark.parametrize("name", ["pareto", "overview", "history"])
def test_the_csv_is_that_of_the_command(name, example_runs, plugins, aiperf, tmp_path):
    aiperf("analyze", name, "--in", example_runs, "--out", tmp_path / "x.csv")
    answer = client_of(example_runs, plugins).get(f"/api/v1/analyses/{name}?format=csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.text == (tmp_path / "x.csv").read_text()


def test_filters_select_as_those_of_the_command(example_runs, plugins, aiperf):
    client = client_of(example_runs, plugins)
    told = aiperf("analyze", "pareto", "--in", example_runs, "--target", "ch09.*", "--class", "nvidia-*", "--json")
    assert client.get("/api/v1/analyses/pareto?target=ch09.*&class=nvidia-*").json() == document_of(told)
    answer = client.get("/api/v1/analyses/pareto?target=nothing.*")
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("there is no ")


def test_an_option_of_command_lines_is_refused(client):
    for place in ("targets?file=/etc/passwd", "cost?prices=/etc/passwd", "whatif?machine=/etc/passwd",
                  "leaderboard?signers=/etc/passwd", "context?url=http://127.0.0.1:1&ask=x"):  # fmt: skip
        answer = client.get(f"/api/v1/analyses/{place}")
        assert answer.status_code == 400, place
        assert "is no option here" in answer.json()["detail"]


def test_the_old_addresses_answer_with_the_new_documents(client):
    assert len(OLD) == 11
    for path, name in OLD.items():
        one = next(each for each in client.app.state.site.endpoints if each.name == name)
        old, new = client.get(path), client.get(one.address)
        assert (old.status_code, old.json()) == (new.status_code, new.json())
        if old.status_code == 200:
            assert old.headers["deprecation"].startswith("@")
            assert old.headers["link"] == f'<{one.address}>; rel="successor-version"'
            assert "deprecation" not in new.headers


def test_rows_come_in_parts(client):
    whole = client.get("/api/v1/rows?limit=1000").json()
    seen, cursor = [], "0"
    while cursor is not None:
        part = client.get(f"/api/v1/rows?limit=7&cursor={cursor}").json()
        assert part["details"]["total"] == 20
        seen += part["tables"][0]["records"]
        cursor = part["details"]["next"]
    assert seen == whole["tables"][0]["records"]
    lines = client.get("/api/v1/rows?format=csv").text.splitlines()
    assert len(lines) == 21
    assert len(client.get("/api/v1/rows?q=coalesced").json()["tables"][0]["records"]) == 10
    for wrong in ("limit=0", "limit=x", "limit=1001", "cursor=-1", "cursor=x", "format=xml"):
        assert client.get(f"/api/v1/rows?{wrong}").status_code == 400


def test_a_run_its_manifest_and_its_samples(example_runs, plugins):
    client = client_of(example_runs, plugins)
    runs = client.get("/api/v1/bundles").json()["tables"][0]["records"]
    seal = next(one["cells"]["id"] for one in runs if one["cells"]["run"] == "whole")
    found = client.get(f"/api/v1/bundles/{seal}").json()
    on_disk = json.loads((example_runs / "whole" / "manifest.json").read_text())
    assert found["details"]["manifest"] == on_disk
    answer = client.get(
        f"/api/v1/bundles/{seal}/samples", params={"of": "ch09.matmul", "row": "tiled", "format": "csv"}
    )
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 48
    answer = client.get(f"/api/v1/bundles/{seal}/samples", params={"of": "ch09.matmul", "row": "no such"})
    assert answer.status_code == 404
    assert "ch09.matmul:tiled" in answer.json()["detail"]


def test_a_series_in_the_order_of_time(client):
    listed = client.get("/api/v1/series").json()["tables"][0]["records"]
    key = next(one["cells"]["key"] for one in listed if one["cells"]["row"] == "coalesced")
    found = client.get(f"/api/v1/series/{key}").json()
    times = [one["cells"]["time"]["value"] for one in found["tables"][0]["records"]]
    assert times == sorted(times)
    assert len(times) == 10


def test_the_proposed_questions_of_calculators_have_answers(client):
    questions = [one for one in links(client.get("/calc").text) if one.startswith("/calc?")]
    assert len(questions) == 7
    for address in questions:
        page = client.get(address)
        assert page.status_code == 200
        assert 'class="lead"' in page.text, address
        assert 'class="box warn"' not in page.text, address


def test_calculators(client, aiperf):
    given = {"layers": "80", "kv-heads": "8", "head-dim": "128", "tokens": "4096", "batch": "8", "dtype": "fp8"}
    told = aiperf("calc", "kv-cache", *(part for key, text in given.items() for part in (f"--{key}", text)), "--json")
    assert client.get("/api/v1/calc/kv-cache", params=given).json() == document_of(told)
    assert client.get("/api/v1/calc/kv-cache", params={**given, "layers": "0"}).status_code == 400
    assert client.get("/api/v1/calc/kv-cache", params={**given, "config": "/etc/passwd"}).status_code == 400
    assert client.get("/api/v1/calc/model").status_code == 404
    page = client.get("/calc", params={"calc": "kv-cache", **given})
    assert "5 GiB" in page.text


def test_errors_are_problem_documents(client):
    for address, status in (("/api/v1/nothing", 404), ("/api/v1/bundles/x", 404), ("/api/v1/analyses/nothing", 404),
                            ("/api/v1/compare", 400), ("/api/v1/rows?label=x", 400)):  # fmt: skip
        answer = client.get(address)
        assert answer.status_code == status, address
        assert answer.headers["content-type"] == "application/problem+json"
        jsonschema.validate(answer.json(), openapi.problems.SCHEMA)
        assert answer.json()["status"] == status
    assert client.delete("/api/v1/rows").json()["status"] == 405


# --- the document


def test_the_document_is_valid_and_has_every_route(client):
    document = client.get("/api/v1/openapi.json").json()
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []
    operations = {one["operationId"] for path in document["paths"].values() for one in path.values()}
    assert operations == {one.name for one in client.app.state.site.endpoints}
    assert "objective" in {one["name"] for one in document["paths"]["/api/v1/analyses/pareto"]["get"]["parameters"]}
    targets = document["paths"]["/api/v1/analyses/targets"]["get"]["parameters"]
    assert "file" not in {one["name"] for one in targets}


@pytest.mark.parametrize("examples", [3, pytest.param(20, marks=pytest.mark.long)])
def test_requests_made_from_the_document(folder, plugins, monkeypatch, examples):
    """Every route gets made-up requests; each answer is one that the document tells."""
    monkeypatch.setattr("aiperf_analysis.dashboard.site.RESULTS", 4)
    client = client_of(folder, plugins, hosts=("testserver",), add_token="secret")
    whole = schemathesis.openapi.from_asgi("/api/v1/openapi.json", client.app)
    operations = [one.ok() for one in whole.get_all_operations()]
    # All but the document itself.
    assert len(operations) == len(client.app.state.site.endpoints) - 1
    headers = {"authorization": "Bearer secret"}
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(max_examples=examples, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
                  suppress_health_check=list(HealthCheck))  # fmt: skip
        def one(case):
            case.call_and_validate(headers=headers, checks=CHECKS)

        one()


@pytest.mark.parametrize(
    "path", ["/", "/pareto", "/history", "/whatif", "/calc", "/rows", "/compare", "/checklist", "/samples/x"]
)
@given(query=st.dictionaries(st.sampled_from(["objective", "draws", "target", "class", "label", "page", "q", "latency",
                                              "format", "calc", "a", "b", "topic", "search", "rate", "row", "of", "x"]),
                             st.text(max_size=20), max_size=4))  # fmt: skip
@settings(max_examples=12, deadline=None, database=None, derandomize=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
def test_pages_with_any_query(path, query, client):
    answer = client.get(path, params=query)
    assert answer.status_code in (200, 400, 404, 422), (path, query)


@pytest.mark.parametrize(
    "place",
    ["pareto?draws=1000000000000", "pareto?draws=0", "pareto?draws=-5", "whatif?vram=1e400GiB", "cost?own-price=nan",
     "cost?own-price=1&life=0", "scaling?draws=99999999", "history?floor=1e308", "context?most=-1",
     "recommend?top=-3", "pareto?objective=" + ",".join(["time"] * 2000)],
)  # fmt: skip
def test_extreme_options_are_answered(place, client):
    answer = client.get(f"/api/v1/analyses/{place}")
    assert answer.status_code in (200, 400, 414, 422), answer.text
