"""Running runs: a list, a run that is followed while it goes on, and the way to its results."""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
from markupsafe import Markup
from starlette.responses import Response

from aiperf_analysis.dashboard import shown, streams
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.live import shown as live
from aiperf_analysis.live.tail import Line, LiveRun, Tail, live_run, live_runs, path_of, state_of
from aiperf_analysis.sources.errors import NotFoundError
from aiperf_analysis.sources.source import id_of
from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.report import cell_text
from aiperf_core.report.result import Result

# Runs of a list that a page follows: a browser opens few connections to a host.
MOST_FOLLOWED = 4
FACTS = ("target", "index", "phase", "implementation", "block", "samples", "interval", "left", "clock", "temperature",
         "throttled", "load", "device", "bundle")  # fmt: skip
TITLES = {one.key: one.title for one in live.COLUMNS}


def page(asked: Asked) -> View:
    """The runs of this machine that go on, or ended a short time ago."""
    runs = live_runs()
    followed = [one.name for one in runs if one.state == "running"][:MOST_FOLLOWED]
    lines = [
        {
            "name": one.name,
            "state": one.state,
            "events": _events_of(one.name) if one.name in followed else "",
            "fields": fields(one),
        }
        for one in runs
    ]
    return View(
        template="live.html.jinja",
        data={
            "running": [one for one in lines if one["state"] == "running"],
            "ended": [one for one in lines if one["state"] != "running"],
            "titles": TITLES,
            "nothing": live.NONE_RUNS,
        },
        api="/api/v1/live",
        csv=True,
    )


def every(asked: Asked) -> Result:
    """All of them as a result."""
    return live.every()


def page_of_one(asked: Asked) -> View:
    """The run with the name of the address, followed while it goes on."""
    run = _run(asked)
    story = live.story_of(run)
    return View(
        template="live_run.html.jinja",
        title=words(live.name_of(run)),
        data={
            "run": run,
            "events": _events_of(run.name) if run.state == "running" else "",
            "last": story.newest.get("id", -1),
            "headline": live.headline(run.state, story.newest),
            "share": live.share_of(run.state, story.newest),
            "facts": [(key, TITLES[key]) for key in FACTS],
            "fields": fields(run),
            "picture": picture(story),
            "finished": [(name, live.verdicts_of(one)) for name, one in reversed(story.finished.items())],
        },
        api=f"/api/v1/live/{quote(run.name)}",
        csv=True,
        crumbs=[("Live", "/live")],
    )


def one(asked: Asked) -> Result:
    """The run as a result."""
    run = _run(asked)
    return live.one_run(run, live.story_of(run))


def results(asked: Asked) -> View:
    """Go to the results of a run, which lie in the source of this server."""
    run = _run(asked)
    bundle = run.newest.get("bundle")
    for found in asked.site.source.selection().runs:
        if isinstance(bundle, str) and Path(found.path).absolute() == Path(bundle).absolute():
            return View(redirect=f"/run/{id_of(found)}")
    raise NotFoundError(
        f"the results of this run are not below {asked.site.source.name}. They lie in '{words(str(bundle))}': "
        "start a dashboard there."
    )


def _run(asked: Asked) -> LiveRun:
    run = live_run(asked.path["id"])
    if run is None:
        raise NotFoundError(
            f"'{words(asked.path['id'][:80])}' is no run that goes on, or ended a short time ago. The runs: /live"
        )
    return run


def _events_of(name: str) -> str:
    return f"/api/v1/live/{quote(name)}/events"


def fields(run: LiveRun) -> dict[str, str]:
    """The cells of a run as texts."""
    cells = live.cells_of(run.name, run.state, run.newest)
    texts = {key: cell_text.reason(cell) or words(cell_text.whole(cell)) or "-" for key, cell in cells.items()}
    return texts | {"title": words(live.title_of(run.state, run.newest))}


def picture(story: live.Story) -> Markup:
    """How the interval narrowed; empty where there is none yet."""
    drawing = live.narrowing(story)
    if drawing is None:
        return Markup("")
    (found,) = shown.pictures(Result(analysis="live-run", title="", summary=[], tables=[], drawings=[drawing]))
    return Markup("<figcaption>{}</figcaption>{}").format(words(found.message), found.drawn)


# --- events


async def events(asked: Asked) -> Response:
    """The states of a run as server-sent events, after the id that the client had last."""
    run = await anyio.to_thread.run_sync(_run, asked)
    last = _last(asked)
    asked.site.streams.check()
    return asked.site.streams.response(lambda: _followed(asked, run, last))


def _last(asked: Asked) -> int:
    """The id of the last event that a client had, by the header of the standard, or by the address. -1 for none."""
    text = asked.request.headers.get("last-event-id") or asked.one("after", "-1")
    if text != "-1" and not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise UsageError(f"Last-Event-ID and after take the number of an event; got {words(text[:40])!r}.")
    return int(text)


async def _followed(asked: Asked, run: LiveRun, last: int) -> AsyncGenerator[streams.Event | None]:
    """An event for all lines that came since the last: each has the whole state."""
    tail, story, pid = Tail(path_of(run)), live.Story(), run.newest.get("pid")
    with asked.site.watch.changes(pid if isinstance(pid, int) else None) as changed:
        while True:
            changed.clear()
            state, lines = await anyio.to_thread.run_sync(_read, tail, run, story)
            new = [line for line in lines if _number(line) > last]
            before = list(story.course)
            story.add(lines)
            if new or state != "running":
                yield _event(run, story, state, new, narrowed=story.course != before)
            if state != "running":
                return
            while not changed.is_set():
                with anyio.move_on_after(streams.SILENCE_S):
                    await changed.wait()
                if not changed.is_set():
                    yield None


def _read(tail: Tail, run: LiveRun, story: live.Story) -> tuple[str, list[Line]]:
    """The state and the new lines. The state is looked at first: a line that comes after it is read in any case."""
    alive = state_of(run.newest) == "running"
    lines = tail.read()
    newest = lines[-1] if lines else story.newest
    if newest.get("event") == "finished":
        return "finished", lines
    return ("running" if alive else "died"), lines


def _event(run: LiveRun, story: live.Story, state: str, new: Sequence[Line], *, narrowed: bool) -> streams.Event:
    """The state of a run, with the targets that finished in its new lines."""
    ended = [one for line in new for one in live.finished_of(line)]
    data: dict[str, Any] = {
        "state": state,
        "headline": words(live.headline(state, story.newest)),
        "share": live.share_of(state, story.newest),
        "fields": fields(LiveRun(run.name, state, story.newest)),
        "finished": [
            [words(name), words(live.verdicts_of(one))]
            for name, one in story.finished.items()
            if any(one is each for each in ended)
        ],
    }
    if narrowed:
        data["picture"] = str(picture(story))
    return streams.Event(_number(story.newest), state, data)


def _number(line: Line) -> int:
    number = line.get("id")
    return number if isinstance(number, int) else 0
