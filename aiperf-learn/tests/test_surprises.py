"""`aiperf surprise`: a tool that is fooled, what aiperf says of the same code, and the cause."""

import json
import os
import subprocess
import sys
import time
from importlib import import_module

import psutil
import pytest

from aiperf_core.measurements import Estimate
from aiperf_core.results.models import Row, Verdict
from aiperf_core.targets import InstalledTarget, Selection
from aiperf_core.testing import Measuring, problems, short_run
from aiperf_learn.surprises.busy import neighbours
from aiperf_learn.surprises.catalogue import SURPRISES
from aiperf_learn.surprises.showing import is_fooled
from aiperf_learn.surprises.tool import source_of

# Implementations that are wrong on purpose.
WRONG = {"unawaited": "submitted", "narrow": "single"}

each_surprise = pytest.mark.parametrize("surprise", SURPRISES, ids=lambda surprise: surprise.name)


@pytest.fixture(scope="module")
def measuring():
    with Measuring() as held:
        yield held


FACTS = "import json, sys; from aiperf_learn.surprises.tool import facts_of; print(json.dumps(facts_of(sys.argv[1])))"


def facts(name):
    """The evidence of a surprise, by its name, from a new process: one that has timed calls keeps freed memory."""
    command = [sys.executable, "-c", FACTS, f"aiperf_learn.surprises.cases.{name}"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {fact: values for fact, _, values in json.loads(printed)}


def row(verdict, time=None, speedup=None):
    def estimate(ends):
        return Estimate(sum(ends) / 2, *ends) if ends else None

    return Row(
        name="new",
        role="variant",
        device="cpu",
        verdict=Verdict(verdict),
        time_s=estimate(time),
        speedup=estimate(speedup),
    )


def test_there_are_twelve_and_the_list_names_each(aiperf):
    listed = aiperf("surprise").out
    assert [line.split()[0] for line in listed.splitlines()[1:13]] == [surprise.name for surprise in SURPRISES]
    assert listed.endswith("All of them run on a processor; no GPU is needed.\n")


@each_surprise
def test_a_surprise_names_an_issue_of_the_registry(surprise, plugins):
    assert surprise.issue in plugins.issues


@each_surprise
def test_the_code_fits_a_narrow_terminal(surprise):
    source = source_of(import_module(surprise.module))
    assert max(len(line) for line in source.splitlines()) <= 80
    assert source.rpartition("\n\n")[2].startswith("def fooled(")


@each_surprise
def test_the_code_of_a_surprise_is_right_but_for_what_is_wrong_on_purpose(surprise, measuring):
    target = InstalledTarget(f"surprise.{surprise.name}", surprise.module, devices=("cpu",))
    # A small product may be done before the call returns, or not.
    wrong = WRONG.get(surprise.name)
    found = problems(measuring.attempt(Selection(target), short_run("cpu")))
    assert [problem for problem in found if not problem.startswith(f"{wrong}: INVALID")] == []
    assert found or surprise.name != "narrow"


@pytest.mark.parametrize(
    ("measured", "reading", "speedup", "fooled"),
    [
        (row("INVALID"), 1.0, 900.0, True),
        (row("UNTRUSTED"), 1.0, 900.0, False),
        (row("SAME", speedup=(0.99, 1.01)), 1.0, 1.5, True),
        (row("INCONCLUSIVE", speedup=(0.5, 3.0)), 1.0, 1.1, False),
        (row("INCONCLUSIVE", speedup=(0.5, 3.0)), 1.0, 0.5, True),
        (row("FASTER", speedup=(90.0, 110.0)), 1.0, 1.0, True),
        (row("FASTER", speedup=(90.0, 110.0)), 1.0, 120.0, False),
        (row("MEASURED", time=(1.0, 1.2)), 1.4, None, False),
        (row("MEASURED", time=(1.0, 1.2)), 0.7, None, True),
        (row("SAME"), "wrong", None, True),
        (row("SAME"), "right", None, False),
        (row("INVALID"), "right", None, True),
        (row("INVALID"), "wrong", None, False),
    ],
)
def test_a_tool_is_fooled_where_it_contradicts_the_row(measured, reading, speedup, fooled):
    assert is_fooled(measured, reading, speedup) == fooled


def test_zeros_that_were_never_written_take_no_memory():
    taken = facts("zeros")["memory that the zeros take"]
    assert taken["never written"] < taken["written"] / 4


def test_fresh_memory_costs_page_faults():
    assert (
        facts("page_faults")["page faults in a call"]["reused"] * 10
        < facts("page_faults")["page faults in a call"]["fresh"]
    )
    of_order = facts("run_order")["page faults"]
    assert of_order["of the second"] * 10 < of_order["of the first"]


def test_single_precision_gets_most_elements_wrong_and_double_none():
    wrong = facts("narrow")["wrong elements, of 262,144"]
    assert wrong["double"] == 0
    assert wrong["single"] > 200_000


def test_the_order_of_a_sum_changes_bits_within_the_tolerance():
    evidence = facts("sum_order")
    assert evidence["different sums of 20 orders"]["float32"] > 1
    assert evidence["largest relative error"]["float32"] < evidence["largest relative error"]["accepted"] / 10


def test_the_collector_runs_in_some_calls():
    collections = facts("mean")["full collections in 40 calls"]
    assert (collections["collector off"], collections["collector on"] > 0) == (0, True)


def test_a_neighbour_for_each_processor_is_busy_and_ends_with_the_context():
    own = psutil.Process()
    before = {*own.children()}
    with neighbours():
        started = {*own.children()} - before
        assert {tuple(process.cpu_affinity()) for process in started} == {(n,) for n in os.sched_getaffinity(0)}
    assert {*own.children()} <= before


def test_a_neighbour_ends_with_its_parent():
    script = """
import os, psutil, signal
from aiperf_learn.surprises.busy import neighbours
with neighbours(1):
    print(psutil.Process().children()[0].pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=False)
    until = time.monotonic() + 10
    while is_running(int(done.stdout)):
        assert time.monotonic() < until, "the neighbour goes on without its parent"
        time.sleep(0.01)


def is_running(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_result_is_written_with_the_code_of_the_tool(aiperf, tmp_path):
    """A surprise that no other work on the machine changes."""
    file = tmp_path / "sum_order.json"
    written = aiperf("surprise", "sum_order", "--quiet", "--out", file)
    assert (written.code, written.out, written.err) == (0, "", f"written: {file}\n")
    document = json.loads(file.read_text())
    assert [table["name"] for table in document["tables"]] == ["side_by_side", "cause"]
    assert document["summary"][0].startswith("The tool says that by_columns is wrong. aiperf says ")
    assert document["details"]["source"].startswith(
        "N = 1 << 20\n\ndef whole(x):\n    return x.sum()\n\ndef by_columns(x):\n"
    )
    assert "\n\ndef fooled():\n" in document["details"]["source"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zero"], "'zero' is not a surprise. Did you mean 'zeros'? There are: zeros, unawaited, cached, run_order, too_small, narrow, sum_order, first_call, after_idle, page_faults, neighbour, mean; and all.\n"),
        (["all", "--out", "all.html"], "--out takes the result of a single surprise: give its NAME. The names: aiperf surprise\n"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_met_is_refused(aiperf, arguments, message):
    refused = aiperf("surprise", *arguments)
    assert (refused.code, refused.err) == (2, f"aiperf: {message}")


@pytest.mark.quiet
@each_surprise
def test_the_tool_is_fooled_here(surprise, aiperf):
    shown = aiperf("surprise", surprise.name, "--quiet")
    assert (shown.code, "The tool was fooled." in shown.out) == (0, True), shown.out
