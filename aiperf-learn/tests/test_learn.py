"""`aiperf learn`, as a user calls it: a package of somebody else, whose times are virtual and the same in each run."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell

PLUGIN = """
@hookimpl
def aiperf_targets():
    yield Target("queue", "Two machines finish sooner", "speed", "cpu")
    yield Target("tiles", "Tiles on a GPU", "speed", "cuda")
    yield Target("stack", "A machine of another kind", "speed", "cpu")
    yield Target("alone", "Machines that are elsewhere", "speed", "cpu")
"""
QUEUE = '''"""Two machines: each takes half of the jobs.

Question    How much sooner do two machines finish?
Numbers     As many jobs as `jobs` says, of a second each.
Prediction  Half of the time, since no job waits for another.
Limits      A single job.
"""
from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed")
bench.simulated(metric="done_s", seeds=8)

@bench.workload(smoke={"jobs": 12}, cpu={"jobs": 12})
def inputs(jobs, device, generator):
    import torch
    return {"lengths": torch.ones(jobs, device=device)}

@bench.reference(tolerance=exact)
def reference(lengths):
    return {"work": lengths.sum()}

@bench.cost
def cost(jobs):
    return Cost(optimum_s=jobs / 4)

def done(lengths, machines):
    return {"work": lengths.sum(), "done_s": float(len(lengths) / machines)}

@bench.baseline(device="cpu", kind="naive")
def one_machine(lengths):
    return done(lengths, 1)

@bench.variant(device="cpu", adds="second machine", why="half of the jobs each", predict="1.5 to 2.5x: 12 / 6 s")
def two_machines(lengths):
    return done(lengths, 2)

@bench.variant(device="cpu", adds="third machine", why="more machines", builds_on="two_machines",
               teaches="the third machine gets no job")
def three_machines(lengths):
    return done(lengths, 2)

@bench.variant(device="cpu", requires="sm_90", why="a machine that is not here")
def tensor_machine(lengths):
    return done(lengths, 3)
'''
TILES = QUEUE.replace('device="cpu"', 'device="cuda"').replace("cpu={", "cuda={").replace("bench.simulated(", "dict(")
TILES = TILES.replace("optimum_s=jobs / 4", "bytes_read=jobs")
ALONE = QUEUE.replace('device="cpu", adds', 'device="cpu", requires="sm_90", adds')


@pytest.fixture
def learn(site, monkeypatch, tmp_path):
    """Runs the command in the folder of the site, with lines of input."""
    site.declare("aiperf-learn", "0.1", "learn = aiperf_learn.plugin")
    site.install("aiperf-acme", PLUGIN)
    for name, text in {"queue": QUEUE, "tiles": TILES, "stack": QUEUE, "alone": ALONE}.items():
        site.write(f"aiperf_acme/{name}.py", text)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site.folder), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def call(*arguments, typed="", columns=80):
        env = {"COLUMNS": str(columns)}
        done = CliRunner().invoke(Shell(site.load()), ["learn", *arguments], input=typed, env=env, prog_name="aiperf")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    return call


def flat(text):
    return " ".join(text.split())


def test_a_group_is_taken_lesson_by_lesson(learn, tmp_path):
    done = learn("acme", typed="slow\n2\nquick\n2x\n")
    assert done.exit_code == 0, done.stderr
    shown = flat(done.stdout)
    assert shown.startswith("acme: 0 of 4 lessons are answered. acme.queue - Two machines finish sooner Question How")
    for part in (
        "here cpu, jobs=12 time about",
        "not here tensor_machine: needs sm_90 (this machine has no CUDA GPU)",
        "1 one_machine naive baseline 2 two_machines second machine 3 three_machines third machine, on two_machines",
        "'slow' is no implementation here. There are: one_machine, two_machines, three_machines, or a number from 1 to 3.",
        "'quick' is no factor; a number above 0 is, such as 2.5.",
        "two_machines 6.000 s",
        "predicted two_machines, 2x over one_machine",
        "best right: two_machines and three_machines cannot be told apart; each counts",
        "factor inside: measured 2.000x [2.000, 2.000] score right",
        "two_machines 2.000x over one_machine: half of the jobs each",
        "three_machines 1.000x over two_machines: the third machine gets no job",
        "Prediction Half of the time, since no job waits for another.",
        "author two_machines: 1.5 to 2.5x over one_machine, borne out",
        "edit it aiperf watch acme.queue:two_machines next lesson aiperf learn acme.stack score aiperf learn --score",
        "Enter for the next lesson, acme.tiles; Ctrl-C to stop:",
    ):
        assert part in shown, shown
    assert "half of the jobs" not in shown[: shown.index("Which is the fastest?")], "the question tells no reason"
    assert "Limits" not in shown
    kept = json.loads((tmp_path / "data" / "aiperf" / "learn.json").read_text())["answers"]
    assert [*kept] == ["acme.queue"]
    (bundle,) = (tmp_path / "artifacts" / "runs").iterdir()
    assert kept["acme.queue"]["bundle"] == bundle.name

    # The first answer counts; the second one is graded too.
    again = learn("acme.queue", "--predict", "one_machine")
    shown = flat(again.stdout)
    assert again.exit_code == 0
    assert "best wrong: two_machines and three_machines cannot be told apart; each counts score right, of 20" in shown

    score = flat(learn("--score").stdout)
    assert "1 prediction: 1 right. Predicted factors are 1x off the measured ones" in score
    assert learn("--score", "--out", "score.csv").exit_code == 0
    assert (tmp_path / "score.csv").read_text().splitlines()[2].startswith("acme,1,0,0,0,1.0,")
    listed = flat(learn().stdout)
    assert listed.startswith(
        "4 lessons, 3 run on this machine. Predictions: 1 right. lesson about acme.stack A machine"
    )
    assert "acme.tiles" not in listed
    third = learn("acme", typed="")
    assert third.exit_code == 2
    shown = flat(third.stdout)
    assert shown.startswith(
        "acme: 1 of 4 lessons are answered. acme.tiles cannot run here: has no implementation for cpu"
    )
    assert "acme.stack - A machine of another kind" in shown, "without a key in between"
    assert "acme.tiles - needs a GPU Tiles on a GPU" in flat(learn("--all").stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--predict", "wide:2"), "--predict answers one lesson; name it: aiperf learn ch07.transpose --predict NAME:FACTOR"),
        (("acme", "--predict", "wide:2"), "--predict answers one lesson; 'acme' is 4. See them: aiperf list acme"),
        (("acme.queue", "--score"), "--score, --all and --out are for all lessons; leave them out, or the target."),
        (("acme.queue:two_machines",), "A lesson has all its implementations; give 'acme.queue', not 'acme.queue:two_machines'."),
        (("acme.queu",), "'acme.queu' is not a target. Did you mean 'acme.queue'?"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(learn, arguments, message):
    done = learn(*arguments)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"aiperf: {message}\n")


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        ("two_machine:2", "'two_machine' is no implementation here. Did you mean 'two_machines'?"),
        ("two_machines", "--predict takes NAME:FACTOR, such as wide:3.5, or the name of the baseline alone"),
        ("one_machine:1", "--predict takes NAME:FACTOR, such as wide:3.5, or the name of the baseline alone"),
        ("two_machines:nan", "'nan' is no factor; a number above 0 is, such as 2.5."),
    ],
)
def test_a_prediction_that_cannot_be_read_is_refused_before_anything_is_measured(learn, predict, message, tmp_path):
    done = learn("acme.queue", "--predict", predict)
    assert done.exit_code == 2
    assert message in done.stderr
    assert not (tmp_path / "artifacts").exists()


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("", "No answer was typed. Without a terminal: --predict NAME:FACTOR"),
        ("a\nb\nc\n", "'c' is no implementation here."),
    ],
)
def test_a_prompt_ends_without_input_and_after_three_answers_that_make_no_sense(learn, typed, message, tmp_path):
    done = learn("acme.queue", typed=typed, columns=40)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stdout.count("Which is the fastest?") == typed.count("\n") or not typed
    assert max(map(len, done.stdout.replace("Which is the fastest? A number or a name: ", "").splitlines())) <= 40
    assert not (tmp_path / "artifacts").exists()


def test_a_lesson_with_a_baseline_alone_has_nothing_to_compare(learn, tmp_path):
    done = learn("acme.alone", "--predict", "two_machines:2")
    assert done.exit_code == 1
    assert flat(done.stdout).startswith(
        "acme.alone has nothing to compare here: two_machines needs sm_90 (this machine has no CUDA GPU); three_machines"
    )
    assert not (tmp_path / "artifacts").exists()


def test_the_command_runs_no_code_of_a_benchmark(learn):
    done = learn("acme.queue", "--predict", "none:2")
    assert done.exit_code == 2
    assert "aiperf_acme.plugin" in sys.modules
    assert "aiperf_acme.queue" not in sys.modules


def test_an_installation_without_lessons(site, monkeypatch, tmp_path):
    site.declare("aiperf-learn", "0.1", "learn = aiperf_learn.plugin")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    done = CliRunner().invoke(Shell(site.load()), ["learn"], prog_name="aiperf")
    assert done.stdout.startswith("No benchmarks are installed.")


@pytest.mark.parametrize("typed", ["", "1\n"], ids=["at the prompt", "while it measures"])
def test_ctrl_c_keeps_what_is_finished(learn, tmp_path, typed):
    main = "import sys; from aiperf_core.cli.main import main; sys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", main, "learn", "practice"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        shown = ""
        while not shown.endswith("A number or a name: "):
            shown += (character := process.stdout.read(1))
            assert character, process.stderr.read()
        process.stdin.write(typed)
        process.stdin.flush()
        said = ""
        while typed and "started\n" not in said:
            said += (line := process.stderr.readline())
            assert line, said
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.endswith("\nStopped; finished lessons are kept. To continue: aiperf learn practice\n")
    assert not (tmp_path / "data").exists()
