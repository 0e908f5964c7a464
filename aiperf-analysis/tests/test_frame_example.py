"""A stranger's analysis, installed offline from its wheel: `aiperf analyze` has it like our own."""

import json
from pathlib import Path

import jsonschema
import pytest

from aiperf_analysis import schema

EXAMPLE = Path(__file__).parents[2] / "examples" / "aiperf-analysis-example"


@pytest.fixture(scope="module")
def example(offline, tmp_path_factory):
    """The example, installed from its wheel."""
    folder = tmp_path_factory.mktemp("example")
    environment = offline(folder / "environment")
    environment.run(f"pip wheel '{EXAMPLE}' --no-deps --wheel-dir dist", folder)
    environment.run("pip install dist/aiperf_analysis_example-0.3.0-py3-none-any.whl", folder)
    return environment, folder


def test_a_strangers_analysis_is_listed_and_runs(example, example_runs):
    environment, folder = example
    assert "effort        Show where the time of runs went" in environment.run("aiperf analyze --help", folder)
    told = environment.run(f"aiperf analyze effort --in '{example_runs}' --by setup", folder)
    assert told.startswith("Where the time of runs went\n")
    document = json.loads(environment.run(f"aiperf analyze effort --in '{example_runs}' --json", folder))
    jsonschema.Draft202012Validator(schema.generate()).validate(document)
    assert document["options"] == {"by": "sampling"}
    environment.run(f"aiperf analyze effort --in '{example_runs}' --out effort.svg", folder)
    assert (folder / "effort.svg").read_text().startswith("<svg ")


def test_its_options_are_refused_like_ours(example, example_runs):
    environment, folder = example
    done = environment.start(f"aiperf analyze effort --in '{example_runs}' --by energy", folder)
    assert (done.returncode, done.stderr) == (2, "aiperf: --by got 'energy'. Accepted: setup, sampling, checks.\n")
