"""Exercises: those of the packages are about targets, with commands that can be given; bad files are refused."""

import shlex

import pytest

from aiperf_core.cli.main import Shell
from aiperf_core.errors import AiperfError
from aiperf_core.loading import load_benchmark
from aiperf_core.plugins import load_plugins
from aiperf_core.stats.expectations import source_of
from aiperf_learn.pages.exercises import FILE, exercise_of, read

PLUGINS = load_plugins()
OF_PACKAGES = [
    pytest.param(target, exercise, id=target.name)
    for target in PLUGINS.targets
    if (source := source_of(target)) and (exercise := read(source.folder / FILE).get(target.name.rpartition(".")[2]))
]
# Lessons that the course begins with.
FIRST = {
    "ch06.bank_conflicts",
    "ch07.transpose",
    "ch09.softmax_online",
    "ch09.tensor_core_gemm",
    "ch11.host_device_overlap",
    "ch13.chunked_cross_entropy",
    "ch18.flash_decode",
}


def test_the_first_lessons_have_an_exercise_of_their_own():
    assert {parameter.id for parameter in OF_PACKAGES} >= FIRST


@pytest.mark.parametrize("group", sorted({target.group for target in PLUGINS.targets}))
def test_every_exercise_is_of_a_target(group):
    own = [target for target in PLUGINS.targets if target.group == group]
    source = source_of(own[0])
    assert {*read(source.folder / FILE)} <= {target.name.rpartition(".")[2] for target in own}


def parsed(command):
    """The parameters that a command of aiperf gets. Fails for one that does not exist or takes no such option."""
    program, name, *arguments = shlex.split(command)
    assert program == "aiperf"
    shell = Shell(PLUGINS)
    context = shell.make_context("aiperf", [name, *arguments], obj=PLUGINS)
    return shell.get_command(context, name).make_context(name, arguments, parent=context).params


@pytest.mark.parametrize(("target", "exercise"), OF_PACKAGES)
def test_the_command_of_an_exercise_can_be_given(target, exercise):
    given = parsed(exercise.check)
    patterns = given.get("patterns") or [
        pattern for pattern in [given.get("target") or given.get("pattern")] if pattern
    ]
    if exercise.check == "aiperf ceilings":
        return
    (selection,) = PLUGINS.select([str(pattern) for pattern in patterns])
    assert selection.target.name == target.name
    benchmark = load_benchmark(target)
    known = {row.name for row in benchmark.implementations}
    assert {*(selection.implementations or ())} <= known
    presets = benchmark.task.presets
    if size := given.get("size"):
        assert size in presets
    for text in [part for part in shlex.split(exercise.check) if "=" in part]:
        assert text.partition("=")[0] in presets["smoke"]


def test_a_target_without_an_exercise_has_one_to_beat_it():
    target = next(target for target in PLUGINS.targets if target.name == "ch07.vectorized_copy")
    exercise = exercise_of(target, load_benchmark(target), source_of(target))
    assert exercise.text.startswith("Write a version that beats `")
    given = parsed(exercise.check)
    assert given["target"] is not None
    assert exercise.check == "aiperf judge mine.py --target ch07.vectorized_copy --device cpu"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gather", "cannot be read: "),
        ("gather = 3\n", "has 'gather' = 3; accepted is a table for each target"),
        ('[gather]\nexercise = "a"\n', "has 'gather' = {'exercise': 'a'}; accepted is"),
        ('[gather]\nexercise = "a"\ncheck = " "\n', "; accepted is a table"),
        ('[gather]\nexercise = "a"\ncheck = 3\n', "; accepted is a table"),
        ("\x00", "cannot be read: "),
    ],
)
def test_a_bad_file_is_refused(tmp_path, text, said):
    file = tmp_path / FILE
    file.write_text(text)
    with pytest.raises(AiperfError) as error:
        read(file)
    assert said in str(error.value)
    assert str(file) in str(error.value)


def test_without_a_file_there_are_no_exercises(tmp_path):
    assert read(tmp_path / FILE) == {}
