import logging
import sys

import pytest

from aiperf_core import __version__
from aiperf_core import plugins as plugins_module
from aiperf_core.commands import Command
from aiperf_core.contributions import CONTRIBUTIONS
from aiperf_core.errors import UsageError
from aiperf_core.events import Progress
from aiperf_core.hookspecs import hookimpl
from aiperf_core.observers import HOOKS
from aiperf_core.plugins import LoadedPlugin, load_plugins
from aiperf_core.targets import InstalledTarget


@pytest.fixture(autouse=True)
def _no_machine_is_slow(request, monkeypatch):
    """On a busy machine any plugin may take longer than it should; what is said of slow ones has tests of its own."""
    if request.node.get_closest_marker("quiet") is None:
        monkeypatch.setattr(plugins_module, "SLOW_SECONDS", 60.0)


KNOWN = ", ".join(f"'{hook}'" for hook in HOOKS)

GOOD = """
@hookimpl
def aiperf_targets():
    yield Target("gather", "Sort before you gather", goal="speed", devices=("cpu", "cuda"), tags=("memory",))
    yield Target("scatter", "Do not scatter", goal="memory", devices="cuda", module="aiperf_acme.deep.down")
"""


def reasons(plugins):
    return [str(one) for one in plugins.set_aside]


def test_a_good_plugin_is_loaded_under_the_name_of_its_distribution(site):
    site.install("aiperf-acme", GOOD)
    plugins = site.load()
    assert reasons(plugins) == []
    assert plugins.loaded[1:] == (
        LoadedPlugin(
            distribution="aiperf-acme",
            version="0.3",
            entry_point="acme",
            contributes={one.name: 2 if one.name == "targets" else 0 for one in CONTRIBUTIONS},
            hooks=("aiperf_targets",),
        ),
    )
    assert plugins.targets[0] == InstalledTarget(
        name="acme.gather",
        module="aiperf_acme.gather",
        summary="Sort before you gather",
        goal="speed",
        devices=("cpu", "cuda"),
        tags=("memory",),
        distribution="aiperf-acme",
        version="0.3",
    )
    assert plugins.targets[1].module == "aiperf_acme.deep.down"
    assert plugins.targets[1].group == "acme"


def test_the_commands_of_the_core_come_from_a_plugin_like_any_other(site):
    plugins = site.load()
    assert [(one.distribution, one.entry_point, one.contributes["commands"] > 0) for one in plugins.loaded] == [
        ("aiperf-core", "builtin", True)
    ]
    assert {"list", "run", "show", "kernels", "plugins", "doctor"} <= set(plugins.commands)


def test_what_is_installed_here_is_found():
    groups = {target.group for target in load_plugins().targets}
    assert {"ch01", "ch07"} <= groups


def test_every_call_makes_a_new_object(site):
    site.install("aiperf-acme", GOOD)
    first, second = site.load(), site.load()
    assert first.targets == second.targets
    assert first.set_aside is not second.set_aside
    assert first.hook is not second.hook


BROKEN = {
    "raises at import": (
        "import no_such_module",
        "its import raised ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "has a syntax error": (
        "def (",
        "its import raised SyntaxError: invalid syntax (plugin.py, line 5)",
    ),
    "exits at import": ("import sys\nsys.exit('goodbye')", "its import raised SystemExit: goodbye"),
    "raises a GeneratorExit at import": ("raise GeneratorExit", "its import raised GeneratorExit"),
    "raises a StopIteration at import": ("raise StopIteration", "its import raised StopIteration"),
    "misspells a hook": (
        "@hookimpl\ndef aiperf_target(): return []",
        f"unknown hook 'aiperf_target'; known: {KNOWN}",
    ),
    "misspells a hook and leaves out the mark": (
        "def aiperf_target(): return []",
        f"unknown hook 'aiperf_target'; known: {KNOWN}",
    ),
    "leaves out the mark": ("def aiperf_targets(): return []", "'aiperf_targets' lacks @hookimpl"),
    "wraps a hook": (
        "@hookimpl(wrapper=True)\ndef aiperf_targets():\n    return (yield)",
        "'aiperf_targets' is a hook wrapper, and wrappers are not accepted",
    ),
    "returns nothing": (
        "@hookimpl\ndef aiperf_targets(): pass",
        "'aiperf_targets' returned NoneType; expected an iterable of Target",
    ),
    "returns one record": (
        "@hookimpl\ndef aiperf_targets(): return Target('a', 'b', 'speed', 'cpu')",
        "'aiperf_targets' returned Target; expected an iterable of Target",
    ),
    "returns a name": (
        "@hookimpl\ndef aiperf_targets(): return ['gather']",
        "'aiperf_targets' returned str 'gather'; expected an iterable of Target",
    ),
    "returns commands as targets": (
        "@hookimpl\ndef aiperf_targets(): yield Command('a', 'b', 'c:d')",
        "'aiperf_targets' returned Command Command(name='a', summary='b', load='c:d', section='Packages; "
        "expected an iterable of Target",
    ),
    "raises while it is asked": (
        "@hookimpl\ndef aiperf_commands():\n    yield Command('a', 'b', 'c:d')\n    raise OSError('disk on fire')",
        "'aiperf_commands' raised OSError: disk on fire",
    ),
    "exits while it is asked": (
        "import sys\n@hookimpl\ndef aiperf_commands(): sys.exit(3)",
        "'aiperf_commands' raised SystemExit: 3",
    ),
    "lists a bad target": (
        "@hookimpl\ndef aiperf_targets(): yield Target('a', 'b', 'fast', 'cpu')",
        "'aiperf_targets' raised ValueError: 'fast' is not a goal for target 'a'; "
        "accepted: 'speed', 'latency', 'throughput', 'memory'",
    ),
    "lists a bad command": (
        "@hookimpl\ndef aiperf_commands(): yield Command('a b', 'c', 'd:e')",
        "'aiperf_commands' raised ValueError: 'a b' cannot name a command: "
        "use letters, digits and hyphens, such as 'compare'",
    ),
    "lists a target twice": (
        "@hookimpl\ndef aiperf_targets(): return [Target('a', 'b', 'speed', 'cpu')] * 2",
        "it lists target 'acme.a' twice",
    ),
    "lists a command twice": (
        "@hookimpl\ndef aiperf_commands(): return [Command('a', 'b', 'c:d')] * 2",
        "it lists command 'a' twice",
    ),
    "takes a command of ours": (
        "@hookimpl\ndef aiperf_commands(): yield Command('run', 'Mine', 'c:d')",
        f"command 'run' is already provided by aiperf-core {plugins_module.__version__}",
    ),
    "yields without end": (
        "@hookimpl\ndef aiperf_targets():\n    while True: yield Target('a', 'b', 'speed', 'cpu')",
        "'aiperf_targets' returned more than 10000 records",
    ),
    "raises what cannot be shown": (
        "class Nasty(Exception):\n    def __str__(self): raise ValueError\nraise Nasty",
        "its import raised Nasty",
    ),
    "raises at length": (
        "raise ValueError('many\\nlines ' * 100)",
        "its import raised ValueError: " + ("many lines " * 100)[: 300 - len("ValueError: ") - 1] + "…",
    ),
}


@pytest.mark.parametrize(("source", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_plugin_is_set_aside_that(source, reason, site):
    site.install("aiperf-acme", source)
    site.install("aiperf-zeta", GOOD)
    plugins = site.load()
    assert reasons(plugins) == [f"skipped plugin aiperf-acme 0.3: {reason}"]
    assert {target.distribution for target in plugins.targets} == {"aiperf-zeta"}
    assert plugins.commands.keys() == load_plugins([]).commands.keys()


def test_a_hook_with_an_unknown_argument_is_set_aside(site):
    site.install("aiperf-acme", "@hookimpl\ndef aiperf_progress(speed): pass")
    (skipped,) = site.load().set_aside
    # What follows is pluggy's wording, and differs between its versions.
    assert skipped.reason.startswith(
        "its registration raised PluginValidationError: Plugin 'aiperf-acme:acme' for hook 'aiperf_progress'"
    )
    assert "{'speed'}" in skipped.reason


def test_a_record_that_cannot_be_shown_is_no_reason_to_fail(site):
    source = "class Nasty:\n    def __repr__(self): raise ValueError('no')\n"
    site.install("aiperf-acme", source + "@hookimpl\ndef aiperf_targets(): return [Nasty()]")
    assert reasons(site.load()) == ["skipped plugin aiperf-acme 0.3: 'aiperf_targets' raised ValueError: no"]


def test_a_name_like_a_hook_that_is_no_function_is_left_alone(site):
    site.install("aiperf-acme", "import aiperf_core\naiperf_version = 3")
    assert reasons(site.load()) == []


def test_a_keyboard_interrupt_passes(site):
    site.install("aiperf-acme", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        site.load()


def test_a_plugin_set_aside_leaves_nothing_behind(site):
    source = "@hookimpl\ndef aiperf_progress(progress): raise AssertionError('called')\n"
    site.install("aiperf-acme", source + "@hookimpl\ndef aiperf_targets(): return 7")
    plugins = site.load()
    plugins.hook.aiperf_progress(progress=Progress(target="a.b", phase="sample"))
    assert reasons(plugins) == [
        "skipped plugin aiperf-acme 0.3: 'aiperf_targets' returned int; expected an iterable of Target"
    ]


def test_a_hook_of_a_later_version_may_be_marked_optional(site):
    site.install("aiperf-acme", "@hookimpl(optionalhook=True)\ndef aiperf_teleport(): pass")
    assert reasons(site.load()) == []


def test_the_second_of_two_targets_of_one_name_is_set_aside(site):
    site.install("aiperf-acme", GOOD)
    site.install("aiperf-bolt", GOOD, version="2.0", entry_points="acme = aiperf_bolt.plugin")
    plugins = site.load()
    assert reasons(plugins) == [
        "skipped plugin aiperf-bolt 2.0: target 'acme.gather' is already provided by aiperf-acme 0.3"
    ]
    assert len(plugins.targets) == 2


ISSUE = "Issue(id='{}', title='t', happens='h.', guard='g', protection='p.')"


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        (["serving.naps", "serving.naps"], "it lists validity issue 'serving.naps' twice"),
        (
            ["serving.naps", "timing.unsynced_streams"],
            f"validity issue 'timing.unsynced_streams' is already provided by aiperf-core {__version__}",
        ),
        (
            ["Serving.Naps"],
            "'aiperf_issues' raised ValueError: 'Serving.Naps' cannot be the id of an issue: "
            "'category.issue' in snake case can",
        ),
    ],
)
def test_a_plugin_with_an_issue_that_cannot_be_taken_is_set_aside(ids, reason, site):
    header = "from aiperf_core.validity.issues import Issue\n@hookimpl\n"
    site.install("aiperf-acme", header + f"def aiperf_issues(): return [{', '.join(map(ISSUE.format, ids))}]")
    plugins = site.load()
    assert reasons(plugins) == [f"skipped plugin aiperf-acme 0.3: {reason}"]
    assert "serving.naps" not in plugins.issues


ATTACK = "Case(issue='timing.clock_drift', module='aiperf_acme.slow', implementation='{}')"


def test_a_plugin_that_lists_an_attack_twice_is_set_aside(site):
    header = "from aiperf_core.validity.cases import Case\n@hookimpl\n"
    listed = ", ".join(map(ATTACK.format, ("warped", "warped")))
    site.install("aiperf-acme", header + f"def aiperf_attacks(): return [{listed}]")
    plugins = site.load()
    what = "'aiperf_acme.slow:warped' for 'timing.clock_drift' on cpu"
    assert reasons(plugins) == [f"skipped plugin aiperf-acme 0.3: it lists {what} twice"]
    assert "aiperf-acme" not in {one.distribution for one in plugins.attacks}


def test_a_plugin_with_an_attack_that_another_one_has_is_set_aside(site):
    header = "from aiperf_core.validity.cases import Case\n@hookimpl\n"
    for distribution in ("aiperf-acme", "aiperf-bolt"):
        site.install(distribution, header + f"def aiperf_attacks(): return [{ATTACK.format('warped')}]")
    plugins = site.load()
    what = "'aiperf_acme.slow:warped' for 'timing.clock_drift' on cpu"
    assert reasons(plugins) == [f"skipped plugin aiperf-bolt 0.3: {what} is already provided by aiperf-acme 0.3"]
    assert [one.distribution for one in plugins.attacks if one.distribution != "aiperf-core"] == ["aiperf-acme"]


def test_two_entry_points_of_one_name_both_load(site):
    site.install("aiperf-acme", GOOD)
    other = "@hookimpl\ndef aiperf_targets(): yield Target('other', 'b', 'speed', 'cpu')"
    site.install("aiperf-bolt", other, entry_points="acme = aiperf_bolt.plugin")
    plugins = site.load()
    assert reasons(plugins) == []
    assert [(target.name, target.distribution, target.module) for target in plugins.targets] == [
        ("acme.gather", "aiperf-acme", "aiperf_acme.gather"),
        ("acme.scatter", "aiperf-acme", "aiperf_acme.deep.down"),
        ("acme.other", "aiperf-bolt", "aiperf_bolt.other"),
    ]


def test_two_entry_points_of_one_distribution_both_load(site):
    site.write("aiperf_acme/more.py", "from aiperf_acme.plugin import *")
    site.install("aiperf-acme", GOOD, entry_points="acme = aiperf_acme.plugin\nmore = aiperf_acme.more")
    plugins = site.load()
    assert reasons(plugins) == []
    assert [target.name for target in plugins.targets] == ["acme.gather", "acme.scatter", "more.gather", "more.scatter"]


def test_one_module_declared_by_two_distributions(site):
    site.install("aiperf-acme", GOOD)
    site.declare("aiperf-fork", "1.0", "acme = aiperf_acme.plugin")
    assert reasons(site.load()) == [
        "skipped plugin aiperf-fork 1.0: its module is already loaded as a plugin of aiperf-acme 0.3"
    ]


def test_the_first_of_two_copies_on_the_path_counts(site, tmp_path):
    site.install("aiperf-acme", GOOD)
    site.write("later/Aiperf.Acme-0.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: Aiperf.Acme\nVersion: 0.2\n")
    site.write("later/Aiperf.Acme-0.2.dist-info/entry_points.txt", "[aiperf_core]\nacme = aiperf_acme.plugin\n")
    plugins = load_plugins([str(tmp_path), str(tmp_path / "later")])
    assert reasons(plugins) == []
    assert {target.version for target in plugins.targets} == {"0.3"}


def test_an_entry_point_that_cannot_name_a_group(site):
    site.install("aiperf-acme", GOOD, entry_points="all = aiperf_acme.plugin")
    assert reasons(site.load()) == [
        "skipped plugin aiperf-acme 0.3: its entry point 'all' cannot name a group of targets: "
        "use letters, digits, '-' and '_', such as 'ch07'"
    ]


def test_a_plugin_in_no_package_must_name_its_modules(site):
    site.install("aiperf-acme", GOOD, entry_points="acme = loose_plugin")
    site.write("loose_plugin.py", "from aiperf_acme.plugin import *")
    assert reasons(site.load()) == [
        "skipped plugin aiperf-acme 0.3: target 'gather' needs module=…, since 'loose_plugin' is in no package"
    ]


def test_an_object_may_be_a_plugin(site):
    source = "class Plugin:\n    @hookimpl\n    def aiperf_targets(self): yield Target('a', 'b', 'speed', 'cpu')\nplugin = Plugin()"
    site.install("aiperf-acme", source, entry_points="acme = aiperf_acme.plugin:plugin")
    plugins = site.load()
    assert reasons(plugins) == []
    assert [target.module for target in plugins.targets] == ["aiperf_acme.a"]


def test_other_groups_of_entry_points_are_left_alone(site):
    others = "acme = aiperf_acme.plugin\n\n[console_scripts]\nacme-cli = no_such_module:main"
    site.install("aiperf-acme", GOOD, entry_points=others)
    plugins = site.load()
    assert reasons(plugins) == []
    assert len(plugins.loaded) == 2


def test_unreadable_entry_points_cost_their_distribution_only(site):
    site.install("aiperf-zeta", GOOD)
    site.declare("aiperf-acme", "0.3", "this is no entry point")
    plugins = site.load()
    (skipped,) = plugins.set_aside
    assert (skipped.distribution, skipped.version) == ("aiperf-acme", "0.3")
    assert plugins.targets


def test_a_distribution_without_metadata_is_unknown(site):
    site.install("aiperf-acme", "import no_such_module")
    (site.folder / "aiperf_acme-0.3.dist-info" / "METADATA").unlink()
    assert reasons(site.load()) == [
        "skipped plugin unknown unknown: its import raised ModuleNotFoundError: No module named 'no_such_module'"
    ]


def test_what_a_plugin_prints_is_noted_and_not_shown(site, capsys):
    site.install("aiperf-acme", "print('hello')\n@hookimpl\ndef aiperf_targets():\n    print('again')\n    return []")
    assert site.load().loaded[1].notes == ("printed while it was loaded: 'hello\\nagain'",)
    assert capsys.readouterr().out == ""


def test_a_heavy_import_is_noted(site, monkeypatch):
    monkeypatch.setattr(plugins_module, "HEAVY", frozenset({"acme_torch"}))
    site.write("acme_torch.py", "")
    site.install("aiperf-acme", "import acme_torch")
    assert site.load().loaded[1].notes == ("imports acme_torch, which slows every command",)


def test_selecting_names_the_plugin_that_was_set_aside(site):
    site.install("aiperf-acme", "import no_such_module")
    with pytest.raises(UsageError) as caught:
        site.load().select(["acme.gather:sorted"])
    assert str(caught.value) == (
        "'acme.gather' is not a target: skipped plugin aiperf-acme 0.3: "
        "its import raised ModuleNotFoundError: No module named 'no_such_module'"
    )


def test_selecting_among_what_is_installed(site):
    site.install("aiperf-acme", GOOD)
    plugins = site.load()
    assert [one.target.name for one in plugins.select(["tag:memory"])] == ["acme.gather"]
    with pytest.raises(UsageError) as caught:
        plugins.select(["acme.gether"])
    assert str(caught.value) == "'acme.gether' is not a target. Did you mean 'acme.gather'?"


OBSERVER = """
seen = []

@hookimpl
def aiperf_progress(progress):
    seen.append(progress.block)
"""

PROGRESS = Progress(target="acme.gather", phase="sample", block=1)


@pytest.mark.parametrize("failure", ["raise ValueError('no')", "raise SystemExit(1)"])
def test_a_failing_observer_is_set_aside_with_a_warning_and_costs_nothing_else(site, caplog, failure):
    site.install("aiperf-acme", f"@hookimpl\ndef aiperf_progress(progress): {failure}")
    site.install("aiperf-bolt", OBSERVER)
    plugins = site.load()
    with caplog.at_level(logging.WARNING):
        plugins.hook.aiperf_progress(progress=PROGRESS)
        plugins.hook.aiperf_progress(progress=PROGRESS)
    assert sys.modules["aiperf_bolt.plugin"].seen == [1, 1]
    what = {"raise ValueError('no')": "ValueError: no"}.get(failure, "SystemExit: 1")
    expected = f"skipped plugin aiperf-acme 0.3: 'aiperf_progress' raised {what}; it is not called again in this run"
    assert reasons(plugins) == [expected]
    assert caplog.messages == [expected]


def test_an_observer_cannot_swallow_a_keyboard_interrupt(site):
    site.install("aiperf-acme", "@hookimpl\ndef aiperf_progress(progress): raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        site.load().hook.aiperf_progress(progress=PROGRESS)


def test_an_observer_may_leave_out_arguments(site):
    site.install("aiperf-acme", "seen = []\n@hookimpl\ndef aiperf_progress(): seen.append(1)")
    site.load().hook.aiperf_progress(progress=PROGRESS)
    assert sys.modules["aiperf_acme.plugin"].seen == [1]


def test_an_object_can_be_added_as_an_observer(site):
    class Reporter:
        seen = ()

        @hookimpl
        def aiperf_progress(self, progress):
            self.seen = (*self.seen, progress)
            if len(self.seen) == 2:
                raise ValueError("enough")

    reporter = Reporter()
    plugins = site.load()
    plugins.hook.add(reporter, "progress bar")
    for _ in range(3):
        plugins.hook.aiperf_progress(progress=PROGRESS)
    assert reporter.seen == (PROGRESS, PROGRESS)
    assert reasons(plugins) == [
        f"skipped plugin aiperf-core {plugins_module.__version__}: "
        "'aiperf_progress' raised ValueError: enough; it is not called again in this run"
    ]


@pytest.mark.parametrize("hook", ["aiperf_targets", "aiperf_teleport"])
def test_only_observers_can_be_told(site, hook):
    with pytest.raises(AttributeError, match=f"^'{hook}' is not an observer hook; known: aiperf_run_started, "):
        getattr(site.load().hook, hook)


def test_a_wrong_argument_to_a_hook_is_the_caller_s_bug(site):
    site.install("aiperf-acme", OBSERVER)
    plugins = site.load()
    with pytest.raises(KeyError):
        plugins.hook.aiperf_progress(speed=1)
    assert reasons(plugins) == []


def test_a_command_s_module_is_not_imported_when_it_is_listed(site):
    site.write("aiperf_acme/command.py", "raise ImportError")
    site.install(
        "aiperf-acme", "@hookimpl\ndef aiperf_commands(): yield Command('tea', 'Make tea', 'aiperf_acme.command:tea')"
    )
    plugins = site.load()
    assert plugins.commands["tea"].distribution == "aiperf-acme"
    assert plugins.commands["tea"].record == Command("tea", "Make tea", "aiperf_acme.command:tea")
    assert "aiperf_acme.command" not in sys.modules


CHECKS = """
from aiperf_core.validity.check import Check


@hookimpl
def aiperf_checks():
    yield Check("{}", lambda evidence: [])
"""


def test_a_plugin_with_a_check_of_a_guard_that_another_one_has_is_set_aside(site):
    site.install("aiperf-acme", CHECKS.format("census"))
    site.install("aiperf-bolt", CHECKS.format("census"))
    site.install("aiperf-crux", CHECKS.format("judged_output"))
    plugins = site.load()
    assert reasons(plugins) == [
        "skipped plugin aiperf-bolt 0.3: guard 'census' is already provided by aiperf-acme 0.3",
        f"skipped plugin aiperf-crux 0.3: guard 'judged_output' is already provided by aiperf-core {__version__}",
    ]
    assert [(one.record.guard, one.distribution) for one in plugins.checks] == [("census", "aiperf-acme")]


SLOW = "takes 0.3 s to load, which slows every command; 0.2 s is the limit"


@pytest.mark.quiet
def test_a_slow_plugin_is_named_with_its_seconds(site):
    site.install("aiperf-acme", "import time\ntime.sleep(0.3)\n" + GOOD)
    one = site.load().loaded[1]
    assert one.notes == (SLOW,)
    assert 0.3 <= one.seconds < 0.35


@pytest.mark.quiet
def test_a_slow_plugin_that_is_set_aside_is_named_with_its_seconds_too(site):
    site.install("aiperf-acme", "import time\ntime.sleep(0.3)\nraise OSError")
    assert reasons(site.load()) == [f"skipped plugin aiperf-acme 0.3: its import raised OSError; {SLOW}"]


def test_the_time_that_others_had_of_the_processor_is_not_charged(site, monkeypatch):
    clock = iter([10.0, 10.0, 10.0, 10.1, 10.0, 9.9])
    monkeypatch.setattr(plugins_module, "_own_seconds", lambda: next(clock))
    site.install("aiperf-acme", "")
    site.install("aiperf-bolt", "")
    assert [round(one.seconds, 3) for one in site.load().loaded] == [0.0, 0.1, 0.0]


def test_what_is_printed_on_either_stream_is_noted_and_not_shown(site, capfd):
    site.install("aiperf-acme", "import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert site.load().loaded[1].notes == ("printed while it was loaded: 'out\\nerr'",)
    assert capfd.readouterr() == ("", "")


def test_a_plugin_may_have_several_checks_of_one_guard(site):
    site.install("aiperf-acme", CHECKS.format("census") + '    yield Check("census", lambda evidence: [])\n')
    plugins = site.load()
    assert reasons(plugins) == []
    assert [one.record.guard for one in plugins.checks] == ["census", "census"]
    assert plugins.loaded[1].contributes["checks"] == 2
