"""The screens of `aiperf tui`: keys and flows, hostile names, and results that go away."""

import re
import shutil
import time

import pytest
from attrs import evolve
from textual.color import Color

from aiperf_analysis.live import shown as live_shown
from aiperf_analysis.tui import samples
from aiperf_analysis.tui.grid import Grid
from aiperf_analysis.tui.keys import Keys
from aiperf_analysis.tui.pages import rows
from aiperf_analysis.tui.places import RunsScreen
from aiperf_analysis.tui.screen import ResultScreen
from aiperf_analysis.tui.source import Source
from aiperf_core.analysis import Analysis
from aiperf_core.contributions import Installed
from aiperf_core.report import cell_text
from aiperf_core.report.metrics import SUMMARY
from aiperf_core.report.result import Column, Record, Result, Table, counted
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Verdict
from aiperf_core.results.seal import sealed

HOSTILE = (
    "[red]x[/red]",
    "[/]",
    "\x1b[31mred",
    "\u202egnp",
    "שלום",
    "a" * 10_000,
    "<script>",
    "{x}",
    "[@click=app.quit]q[/]",
)


def test_a_row_is_reached_from_the_runs_in_two_steps(drive, here):
    async def steps(screen):
        run = await screen.press("down", "enter")
        assert " Run example - runs" in run
        row = await screen.press("down", "enter")
        assert "ch07.memory_access:coalesced - runs" in row
        assert "verdict: FASTER" in row
        assert " Run example - runs" in await screen.press("escape")
        assert " Runs - runs" in await screen.press("escape")
        assert " Runs - runs" in await screen.press("escape")

    drive(here, steps)


def test_samples_stand_below_the_row_under_the_cursor(drive, here):
    async def steps(screen):
        text = await screen.press("enter")
        assert "48 samples: median" in text
        assert "course of 12 blocks, in the order taken" in text
        assert "▁" in text

    drive(here, steps)


def test_details_that_are_read_slowly_change_nothing_but_themselves(drive, here, monkeypatch):
    """They are read once for each record, and the table scrolls as it does where they are read in no time."""
    read, quick = [], samples.lines
    texts = []

    def slow(entry, width, *, plain=False):
        read.append(entry.row.name)
        time.sleep(0.05 if len(read) < 10 else 0)  # longer than a frame of the screen
        return quick(entry, width, plain=plain)

    async def steps(screen):
        await screen.press("2", "end")
        texts.append(await screen.press("up", "up", "up"))

    drive(here, steps)
    monkeypatch.setattr(samples, "lines", slow)
    drive(here, steps)
    assert texts[0] == texts[1]
    assert len(read) == len(set(read)) == 5


def test_no_part_of_a_figure_is_shown(drive, here):
    """A column that has no room for its figures says so, at either side."""
    shown = {cell_text.whole(one.cells[name]) for one in rows(Source(here).read()).tables[0].records
             for name in (metric.key for metric in SUMMARY)}  # fmt: skip

    async def steps(screen):
        text = await screen.press("2")
        for _ in range(8):
            lines = text.splitlines()[5:13]
            cells = [cell for line in lines for cell in re.split("  +", line.strip()) if "[" in cell or "]" in cell]
            assert set(cells) <= shown
            text = await screen.press("right")

    for width in (60, 70, 80):
        drive(here, steps, size=(width, 40))


def test_the_filter_narrows_while_typing(drive, here):
    async def steps(screen):
        await screen.press("2", "slash")
        text = await screen.type("packed")
        assert "rows, newest run first (1 of 11)" in text
        text = await screen.press("x")
        assert "nothing matches the filter" in text
        text = await screen.press("escape")
        assert "rows, newest run first (11)" in text

    drive(here, steps)


def test_sorting_goes_through_the_columns(drive, here):
    async def steps(screen):
        await screen.press("2")
        assert "sorted by row up" in await screen.press("s")
        assert "sorted by row down" in await screen.press("s")
        assert "sorted by median up" in await screen.press("s")
        medians = [one.cells["time_s"].value for one in _records(screen)]
        known = [one for one in medians if one is not None]
        assert known == sorted(known)
        assert medians[len(known) :] == [None] * (len(medians) - len(known))
        assert "sorted by median down" in await screen.press("s")
        assert "sorted by speedup up" in await screen.press("s")

    drive(here, steps)


def _records(screen):
    grid = screen.app.screen.query_one(Grid)
    return [grid._table.records[at] for at in grid._shown]


def test_options_of_an_analysis_are_those_of_its_command(drive, here):
    async def steps(screen):
        await screen.press("p", "o")
        await screen.type("--objective time,energy")
        text = await screen.press("enter")
        assert "Pareto front of time and energy" in text
        notes = await screen.press("n")
        assert "aiperf analyze pareto --in runs --objective time,energy" in notes
        await screen.press("escape", "o")
        await screen.type(",bad")
        text = await screen.press("enter")
        assert "--objective got 'bad'. Accepted: time, wall, memory, energy, quality, cost." in text

    drive(here, steps)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--nothing 1", "No such option '--nothing'. Did you mean '--in'? The options: aiperf analyze pareto --help"),
        ("'open", "cannot be read: No closing quotation. Close every quotation mark."),
        ("--db sqlite:///x", "--db cannot be given here"),
        ("--json", "--json cannot be given here"),
        ("--label x", "--label takes NAME=VALUE"),
        ("--target nothing.*", "there is no believed row in 0 bundles. Run more targets: aiperf run PATTERN"),
    ],
)
def test_wrong_options_are_explained_on_the_screen(drive, here, options, told):
    async def steps(screen):
        screen.app.open_analysis("pareto", options)
        await screen.settle()
        shown = " ".join(screen.text.split())
        assert told in shown
        assert "Runs" in await screen.press("escape")

    drive(here, steps, (120, 40))


def test_a_click_on_a_key_of_the_last_line_presses_it(drive, here):
    async def steps(screen):
        for key, title in (("? Help", " Help - runs"), ("n Notes", " Runs: notes - runs")):
            line = screen.text.splitlines()[-1]
            for place in (line.index(key), line.index(key) + len(key) - 1):
                await screen.pilot.click(Keys, offset=(place, 0))
                await screen.settle()
                assert screen.text.startswith(title)
                await screen.press("escape")
        await screen.pilot.click(Keys, offset=(line.index(key) - 1, 0))
        await screen.settle()
        assert screen.text.startswith(" Runs - runs")

    drive(here, steps)


def test_two_marked_runs_are_compared(drive, here):
    async def steps(screen):
        await screen.press("c")
        assert [one.message for one in screen.app._notifications] == ["Mark two runs with the space bar; 0 are marked."]
        text = await screen.press("space", "down", "space", "c")
        assert "have no target in common" in " ".join(text.split())

    drive(here, steps)


def test_the_palette_opens_screens_and_analyses(drive, here):
    async def steps(screen):
        await screen.press("ctrl+p")
        await screen.type("leader")
        text = await screen.press("enter")
        assert "Analysis leaderboard" in text
        await screen.press("ctrl+p")
        await screen.type("machines")
        assert " Machines - runs" in await screen.press("enter")

    drive(here, steps)


def test_light_and_dark(drive, here):
    grounds = []

    async def steps(screen):
        for _ in range(2):
            grounds.append(screen.app.screen.background_colors[1])
            await screen.press("t")

    drive(here, steps)
    dark, light = grounds
    assert isinstance(dark, Color)
    assert dark.brightness < 0.3 < 0.7 < light.brightness


def test_no_color(drive, here, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    colors = []

    async def steps(screen):
        await screen.press("2")
        strips = screen.app.screen.query_one(Grid).render_lines(screen.app.screen.query_one(Grid).region)
        colors.extend(segment.style.color for strip in strips for segment in strip if segment.style)

    app = drive(here, steps)
    assert app.no_color
    triplets = {one.triplet for one in colors if one is not None and one.triplet is not None}
    assert all(one.red == one.green == one.blue for one in triplets)


# --- hostile and damaged


def test_hostile_names_are_shown_as_text(drive, made):
    times = {name: 1e-3 + number * 1e-4 for number, name in enumerate(HOSTILE)}
    result = made.result(times, row={HOSTILE[1]: {"why": "[bold]why[/nothing]", "reason": "[/]"}})
    made.bundle("[red]run[&]", result, labels={"[/]": "[blue]\x1b[0m"}, command=["[/]", "\x1b]0;t\x07"])

    async def steps(screen):
        for size_key in ("enter", "tab", "tab", "2", "4", "p", "d", "escape", "n", "escape", "3", "ctrl+p", "escape"):
            text = await screen.press(size_key)
            assert "\x1b" not in text
            assert "\u202e" not in text
        await screen.press("2")
        names = []
        for _ in HOSTILE:
            names.append(screen.app.screen.query_one(Grid).record.cells["row"].partition(":")[2])
            row = await screen.press("enter")
            assert "verdict:" in row
            await screen.press("escape", "down")
        assert names == list(HOSTILE)
        await screen.press("h")  # of all rows, since they are of one target
        assert len(_records(screen)) == len(HOSTILE)
        await screen.press("escape")
        assert "[red]x[/red]" in screen.text

    drive(made.folder, steps, (120, 40))


def test_damaged_bundles_are_counted_and_named(drive, here):
    target = next((here / "whole" / "targets").glob("*.json"))
    target.write_text(target.read_text().replace("matmul", "matmux"))

    async def steps(screen):
        assert "1 left out; the reasons are in the notes (n)." in screen.text
        notes = await screen.press("n")
        assert "left out: 1" in notes
        assert "- whole:" in notes

    drive(here, steps)


def test_rows_that_did_not_run_are_not_called_untrusted(drive, made):
    skipped = {"needs_another_gpu": {"verdict": Verdict.SKIPPED}}
    made.bundle("run", made.result({"plain": 2e-3, "needs_another_gpu": 1e-3}, row=skipped), skipped=[])

    async def steps(screen):
        table = screen.app.screen.result.tables[0]
        assert [table.records[0].cells["distrusted"], table.columns[4].title] == [0, "not trusted"]
        await screen.press("2")
        assert "1 did not run; the reasons are in the notes (n)." in screen.text
        assert "not trusted" not in screen.text

    drive(made.folder, steps)


def test_an_empty_folder(drive, tmp_path):
    async def steps(screen):
        assert "holds no bundles. Name a bundle" in " ".join(screen.text.split())
        for key in ("2", "p", "4", "6", "escape", "s", "slash", "escape", "enter", "d", "n", "space", "c"):
            await screen.press(key)

    drive(tmp_path, steps)


def test_a_long_text_is_shown_whole_where_there_is_room(drive, made):
    command = ["aiperf", "run", *(f"ch07.target_{number}" for number in range(9))]
    made.bundle("long", command=command)

    async def steps(screen):
        text = await screen.press("enter", "tab")
        assert (f"{' '.join(command)}\n" in text) == (screen.app.size.width == 200)
        assert all(len(line) <= screen.app.size.width for line in text.splitlines())

    for size in ((80, 24), (200, 60)):
        drive(made.folder, steps, size)


def test_a_bundle_is_read_again_only_where_it_changed(here, monkeypatch):
    from aiperf_analysis.sources import source as shared

    read, before = [], shared.read_bundle
    monkeypatch.setattr(shared, "read_bundle", lambda path: (read.append(path.name), before(path))[1])
    source = Source(here)
    assert len(source.read().runs) == 2
    assert sorted(read) == ["example", "whole"]
    manifest = here / "example" / "manifest.json"
    manifest.write_text(manifest.read_text() + "\n")
    source.read()
    assert sorted(read) == ["example", "example", "whole"]


def test_a_bundle_instead_of_a_folder(drive, here):
    async def steps(screen):
        assert "1 run, 3 rows." in screen.text

    drive(here / "whole", steps)


def test_a_folder_that_vanishes(drive, here):
    async def steps(screen):
        shutil.rmtree(here)
        await screen.press("enter", "enter")
        assert "no samples: " in screen.text
        text = " ".join((await screen.press("escape", "escape", "r")).split())
        assert "names no bundle" in text or "does not exist" in text or "no bundle" in text

    drive(here, steps)


def test_a_database_that_goes_away(drive, here, aiperf):
    for path in here.iterdir():
        bundle = Bundle.open(path)
        hashes = {name: bundle.digest(name) for name in bundle.result_files}
        bundle.write_manifest(sealed(evolve(bundle.manifest, exit_code=0), hashes, path))
    url = f"sqlite:///{here.parent.absolute()}/a.db"
    assert aiperf("db", "init", "--db", url).code == 0
    assert aiperf("db", "add", here, "--db", url).code == 0

    async def steps(screen):
        assert "2 runs" in screen.text
        (here.parent / "a.db").unlink()
        text = " ".join((await screen.press("r")).split())
        assert "a.db" in text
        assert "2 runs" not in text

    drive(Source(here, url), steps, (120, 40))


def test_a_foreign_analysis_that_fails_leaves_the_screens_open(plugins, drive, here, monkeypatch):
    here.with_name("tui_broken.py").write_text("def analyze(selection, options):\n    return 1 / 0\n")
    monkeypatch.syspath_prepend(here.parent.absolute())
    broken = Installed(Analysis("broken", "Fails.", "tui_broken:analyze"), "acme", "0.3")
    plugins = evolve(plugins, analyses={**plugins.analyses, "broken": broken})

    async def steps(screen):
        screen.app.open_analysis("broken")
        await screen.settle()
        told = "the analysis 'broken' of acme 0.3 failed: ZeroDivisionError: division by zero. Tell its authors."
        assert told in " ".join(screen.text.split())

    drive(here, steps, (120, 40), plugins=plugins)


def test_ten_thousand_records(drive, here, monkeypatch):
    columns = [Column("name", "name"), Column("value", "value", "figure")]
    records = [Record({"name": f"row {number}", "value": counted(number, "count")}) for number in range(10_000)]
    result = Result(analysis="many", title="Many", summary=[], tables=[Table("many", "many", columns, records)])
    monkeypatch.setattr(RunsScreen, "make", lambda self, selection: result)

    async def steps(screen):
        assert "many (10,000)" in screen.text
        assert "row 9999" in await screen.press("end")
        assert "row 0" in await screen.press("home")
        await screen.press("slash")
        text = await screen.type("999")
        assert "many (19 of 10,000)" in text

    drive(here, steps)


def test_live_runs(drive, here, monkeypatch):
    from aiperf_analysis.live.tail import LiveRun

    newest = {"target": "ch07.memory_access", "index": 1, "total": 3, "phase": "sampling", "implementation": "[b]wide[/]",
              "samples": 12, "interval": [1.1, 1.2], "undecided": "wide", "seconds_left": 3.0, "load": 0.5,
              "wanted": 0.02, "block": 7, "round": 1, "rounds": 2, "clock_hz": 1.98e9, "temperature_c": 61.0,
              "throttled": ["hw_thermal", "[b]x"]}  # fmt: skip
    monkeypatch.setattr(
        live_shown, "live_runs", lambda: [LiveRun("1-a", "running", newest), LiveRun("2-b", "died", {"samples": "x"})]
    )

    async def steps(screen):
        text = await screen.press("5")
        assert "1 run going on." in text
        shown = " ".join(text.split())
        assert "speedup so far: 1.10x to 1.20x, wide: ±4.3 %, wanted ±2 %" in shown
        assert "block: 7, round 1 of 2; " in shown
        assert "clock: 1.98 GHz; temperature: 61.0 °C; throttled by: hw_thermal, [b]x; " in shown
        assert "[b]wide[/]" in text
        assert "target ends in: none (the run has ended)" in " ".join((await screen.press("down")).split())

    drive(here, steps, (120, 40))


def test_an_own_error_is_not_hidden(drive, here, monkeypatch):
    def fails(self, selection):
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(ResultScreen, "make", fails)
    monkeypatch.setattr(RunsScreen, "make", fails)

    async def steps(screen):
        await screen.press("1")

    with pytest.raises(Exception, match="a mistake of ours"):
        drive(here, steps)
