"""A run that is asked for from Python, with a planner that measures nothing."""

import contextlib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from aiperf_core import RequestedTarget, RunRequest, run
from aiperf_core.errors import UsageError
from aiperf_core.harness.run import from_python
from aiperf_core.results import from_json, to_json

spec = spec_from_file_location("killed_runs", Path(__file__).parents[1] / "killed_runs.py")
killed_runs = module_from_spec(spec)
spec.loader.exec_module(killed_runs)


@pytest.fixture(autouse=True)
def nothing_is_measured(monkeypatch):
    killed_runs.prepare(monkeypatch.setattr)
    monkeypatch.setattr(from_python, "ForkServer", lambda: contextlib.nullcontext(killed_runs.NO_SERVER))
    monkeypatch.setattr(from_python, "load_plugins", killed_runs.plugins)


def test_a_request_becomes_a_bundle_that_records_it(tmp_path):
    request = RunRequest(
        [RequestedTarget(name) for name in killed_runs.TARGETS[:2]], tier="standard", budget_s=2.5, min_samples=40
    )
    bundle = run(request, labels={"branch": "main"}, out=tmp_path / "run")
    manifest = bundle.manifest
    assert bundle.path == tmp_path / "run"
    assert list(bundle.targets) == sorted(killed_runs.TARGETS[:2])
    assert (manifest.complete, manifest.labels, manifest.request) == (True, {"branch": "main"}, request)
    assert from_json(RunRequest, to_json(manifest.request)) == request


def test_a_target_that_is_not_installed_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(UsageError, match=r"'acme.nine' is not a target"):
        run(RunRequest([RequestedTarget("acme.nine")]), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
