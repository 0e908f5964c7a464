"""Runs the screens of `aiperf tui` without a terminal, and reads them as text."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.events import Key
from textual.pilot import Pilot
from textual.worker import WorkerCancelled

from aiperf_analysis.live import shown as live_shown
from aiperf_analysis.tui.app import ResultsApp
from aiperf_analysis.tui.source import Source
from aiperf_core.plugins import Plugins

STILL = 3  # checks in a row without work, before a screen counts as drawn
CHARACTERS = {"space": " ", "minus": "-", "slash": "/", "comma": ","}


async def _drained() -> None:
    """Wait until every task of the event loop waits for something: all messages are handled.

    The pilot of Textual waits for the process to use little time instead, for 20 ms at least, twice a key.
    """
    loop = asyncio.get_running_loop()
    still = 0
    while still < STILL:
        await asyncio.sleep(0)
        still = 0 if loop._ready else still + 1  # type: ignore[attr-defined]


class Seen:
    """An application that is driven by keys; `pilot` has the mouse."""

    def __init__(self, app: ResultsApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    async def settle(self) -> None:
        """Wait until nothing is being read and the screen stays as it is drawn, three times in a row."""
        still, before = 0, ""
        while still < STILL:
            works = any(not one.is_finished for one in self.app.workers)
            text = self.text
            still = 0 if works or text != before else still + 1
            before = text
            try:
                await self.app.workers.wait_for_complete()
            except WorkerCancelled:
                # A newer worker of its group took its place, and is waited for next.
                still = 0
            # The pilot waits for widgets that are busy with something else than messages, such as the end of a screen.
            await _drained()
            await self.pilot.pause(0)
            await _drained()

    async def press(self, *keys: str) -> str:
        """Press keys, the next when the screen of the last is drawn, and return the screen."""
        for key in keys:
            self.app.post_message(Key(key, CHARACTERS.get(key)))
            await self.settle()
        return self.text

    async def type(self, text: str) -> str:
        """Type a text."""
        names = {character: name for name, character in CHARACTERS.items()}
        return await self.press(*(names.get(one, one) for one in text))

    @property
    def text(self) -> str:
        """The screen as lines without blanks at their ends."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips) + "\n"


@pytest.fixture
def drive(plugins: Plugins) -> Callable[..., ResultsApp]:
    """Starts the application on results, takes steps, and ends it."""

    def run(
        source: Source | Path,
        steps: Callable[[Seen], Awaitable[None]],
        size: tuple[int, int] = (80, 24),
        plugins: Plugins = plugins,
    ) -> ResultsApp:
        app = ResultsApp(plugins, source if isinstance(source, Source) else Source(source))

        async def whole() -> None:
            async with app.run_test(size=size) as pilot:
                seen = Seen(app, pilot)
                await seen.settle()
                await steps(seen)

        asyncio.run(whole())
        return app

    return run


@pytest.fixture
def here(example_runs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example's runs under a short path that is the same everywhere."""
    monkeypatch.chdir(example_runs.parent)
    monkeypatch.setattr(live_shown, "live_runs", list)
    return Path(example_runs.name)
