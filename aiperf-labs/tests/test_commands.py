"""`aiperf techniques` and `aiperf labs`: claims by tags, proofs by stored results, and the tables of ladders."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aiperf_core import Benchmark
from aiperf_core.errors import UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.targets import InstalledTarget
from aiperf_labs import stored as results
from aiperf_labs.cli import labs, techniques
from aiperf_labs.ladders import ladder
from aiperf_labs.stored import Ratio, Stored
from aiperf_labs.techniques import TECHNIQUES, claims

HOST = "some-processor-x2"


def target(*tags: str, name: str = "acme.gather", module: str = "aiperf_acme.gather") -> InstalledTarget:
    return InstalledTarget(name, module, "A line", "speed", ("cpu",), tags)


def invoke(command: Any, *arguments: str, targets: tuple[InstalledTarget, ...] = ()) -> Result:
    given = Plugins(targets=targets)
    return CliRunner().invoke(command, list(arguments), obj=given, standalone_mode=False)


def row(measured: float) -> dict[str, Any]:
    return {"measured": measured, "low": measured * 0.9, "high": measured * 1.1, "run": 0}


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with expectations of a machine that is not this one."""
    package = tmp_path / "aiperf_acme"
    (package / "expectations").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    page = {"runs": [{"date": "2026-11-20"}], "expected": {"acme.gather:sorted": row(2.0), "acme.other:one": row(3.0)}}
    (package / "expectations" / "nvidia-h200-x1.json").write_text(json.dumps(page))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("aiperf_labs.cli.keys_here", lambda: {HOST})
    return package


def test_the_techniques_are_numbered() -> None:
    assert list(TECHNIQUES) == list(range(1, 145))
    assert len({one.name for one in TECHNIQUES.values()}) == 144


def test_targets_claim_techniques_by_tags() -> None:
    found = claims([target("technique-14", "memory"), target("technique-14", "technique-144", name="acme.other")])
    assert found[14] == ["acme.gather", "acme.other"]
    assert found[144] == ["acme.other"]
    assert sum(map(len, found.values())) == 3


@pytest.mark.parametrize("tag", ["technique-0", "technique-145", "technique-014", "technique-", "technique-tiling"])
def test_an_unknown_technique_names_the_target(tag: str) -> None:
    with pytest.raises(UsageError) as caught:
        claims([target(tag)])
    assert str(caught.value) == (
        f"the tag {tag!r} of 'acme.gather' names no technique; accepted are technique-1 to technique-144. "
        "See them: aiperf techniques"
    )


def test_no_claim_of_an_installed_target_is_unknown() -> None:
    from aiperf_core.plugins import load_plugins

    claims(load_plugins().targets)


def test_a_technique_is_proven_where_a_result_is_stored(acme: Path, tmp_path: Path) -> None:
    targets = (target("technique-14"), target("technique-15", name="acme.never"))
    arguments = ("--json", "--in", str(tmp_path / "none"))
    document = json.loads(invoke(techniques, *arguments, targets=targets).stdout)
    assert document["counts"] == {"proven here": 0, "proven elsewhere": 1, "not yet": 143}
    by_id = {one["id"]: one for one in document["techniques"]}
    assert by_id[14]["state"] == "proven elsewhere"
    assert by_id[14]["machines"] == ["nvidia-h200-x1"]
    assert (by_id[15]["state"], by_id[15]["targets"]) == ("not yet", ["acme.never"])
    (acme / "expectations" / "nvidia-h200-x1.json").rename(acme / "expectations" / f"{HOST}.json")
    (acme / "expectations" / "broken.json").write_text("{")
    shown = invoke(techniques, "--in", str(tmp_path / "none"), targets=targets).stdout.splitlines()
    assert shown[0].split() == ["ID", "state", "chapter", "technique", "targets"]
    assert "proven here  ch07     coalesced access" in shown[14]
    assert shown[-1] == "144 techniques: 1 proven here, 0 proven elsewhere, 143 not yet"
    chosen = invoke(techniques, "--state", "proven-here", "--in", str(tmp_path / "none"), targets=targets).stdout
    assert len(chosen.splitlines()) == 4


def test_bundles_prove_only_what_is_believed() -> None:
    from attrs import evolve

    from aiperf_core.results import example

    result, manifest = example.result(), example.manifest()

    class Run:
        name = "a"

    run: Any = Run()
    run.manifest = manifest
    (found,) = results._of_result(run, result)
    assert (found.machine, found.device) == ("nvidia-h200-x1", "cuda")
    assert set(found.ratios) == {"coalesced", "wide"}
    disbelieved = [one for one in result.rows if one.name not in ("coalesced", "wide")]
    assert list(results._of_result(run, evolve(result, rows=disbelieved))) == []


def test_the_key_of_this_machine_is_that_of_expectations_files() -> None:
    from aiperf_core.results.hardware import hardware_key
    from aiperf_core.results.machine import machine

    assert hardware_key(machine(), "cpu", {}) in results.keys_here()


def test_listing_imports_no_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; from aiperf_core.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "techniques"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def bench() -> Benchmark:
    found = Benchmark(goal="speed")
    cpu = found.on("cpu")

    def named(name: str) -> Any:
        return type(name, (), {"run": lambda self: None, "declared_name": name})

    cpu.baseline(kind="naive")(named("plain"))
    cpu.variant(why="a", adds="tiles")(named("tiled"))
    cpu.variant(why="b", adds="packing", builds_on="tiled")(named("packed"))
    cpu.variant(why="c", adds="threads", builds_on="packed")(named("threaded"))
    cpu.variant(why="d", adds=("packing", "threads"))(named("without_tiles"))
    return found


def test_a_ladder_has_steps_and_what_each_is_worth() -> None:
    ratios = {"tiled": Ratio(2, 2, 2), "packed": Ratio(3, 3, 3), "threaded": Ratio(6, 5, 7)}
    ratios["without_tiles"] = Ratio(1.5, 1, 2)
    place = Stored(target="a.b", machine=HOST, device="cpu", origin="a", date="2026", ratios=ratios)
    found = ladder(bench(), "cpu", place)
    assert [(one.name, one.adds) for one in found.steps] == [
        ("tiled", "tiles"),
        ("packed", "packing"),
        ("threaded", "threads"),
    ]
    assert [one.gain for one in found.steps] == [Ratio(2, 2, 2), Ratio(1.5, 1.5, 1.5), Ratio(2, 5 / 3, 7 / 3)]
    # Without packing there is no variant; without threads it is the step below.
    assert [(one.mechanism, one.name) for one in found.left_out] == [("tiles", "without_tiles"), ("threads", "packed")]
    assert found.left_out[0].loss == Ratio(4, 2.5, 7)
    assert [one.gain for one in ladder(bench(), "cpu").steps] == [None] * 3


def test_an_unknown_lab_and_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        invoke(labs).stdout == "No labs are installed. Get some, in a clone of aiperf: pip install -e ./aiperf-labs\n"
    )
    found = invoke(labs, "bread", targets=(target("lab-toast"),))
    assert str(found.exception) == "'bread' is neither a lab nor a target of one. The labs: toast"
    monkeypatch.setattr("aiperf_core.loading.load_benchmark", lambda _: bench())
    assert invoke(labs, targets=(target("lab-toast"),)).stdout == (
        "lab    target       steps     summary\ntoast  acme.gather  3 on cpu  A line\n"
    )
    shown = invoke(labs, "toast", "--in", "/nowhere", targets=(target("lab-toast"),)).stdout.splitlines()
    assert shown[0] == "acme.gather on cpu: no stored result"
    assert shown[3].split() == ["plain", "1.00x"]
    document = json.loads(invoke(labs, "acme.gather", "--json", targets=(target("lab-toast"),)).stdout)
    assert [one["name"] for one in document["ladders"][0]["steps"]] == ["tiled", "packed", "threaded"]


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("command", [techniques, labs])
def test_the_tables_fit_the_terminal(width: int, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aiperf_core.plugins import load_plugins

    monkeypatch.setenv("COLUMNS", str(width))
    found = CliRunner().invoke(command, ["--in", str(tmp_path)], obj=load_plugins(), standalone_mode=False)
    assert found.exception is None
    table = found.stdout.partition("\n\n")[0].splitlines()  # the terminal breaks the sentence below it
    assert len(table) > 10
    assert [line for line in table if len(line) > width] == []
