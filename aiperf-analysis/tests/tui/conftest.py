"""Runs the screens of `aiperf tui` without a terminal, and reads them as text."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.worker import WorkerCancelled

from aiperf_analysis.tui import running
from aiperf_analysis.tui.app import ResultsApp
from aiperf_analysis.tui.source import Source
from aiperf_core.plugins import Plugins


class Seen:
    """An application that is driven by keys."""

    def __init__(self, app: ResultsApp, pilot: object) -> None:
        self.app, self._pilot = app, pilot

    async def settle(self) -> None:
        """Wait until nothing is being read, three times in a row."""
        idle = 0
        while idle < 3:
            try:
                await self.app.workers.wait_for_complete()
                idle += 1
            except WorkerCancelled:
                # A newer worker of its group took its place, and is waited for next.
                idle = 0
            await self._pilot.pause()  # type: ignore[attr-defined]

    async def press(self, *keys: str) -> str:
        """Press keys, wait, and return the screen."""
        await self._pilot.press(*keys)  # type: ignore[attr-defined]
        await self.settle()
        return self.text

    async def type(self, text: str) -> str:
        """Type a text."""
        names = {" ": "space", "-": "minus", "/": "slash", ",": "comma"}
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
    monkeypatch.setattr(running, "live_runs", list)
    return Path(example_runs.name)
