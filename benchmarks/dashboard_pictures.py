"""Take pictures of all pages of the dashboard, to be looked at by a person: three widths, light and dark.

    python benchmarks/dashboard_pictures.py --out FOLDER [--runs BUNDLES] [--only /history,/pareto] [--whole]
    python benchmarks/dashboard_pictures.py --readme docs/static/dashboard.png [--runs BUNDLES]

Without --runs the bundles are made up: a history with a regression, results with memory and energy at several sizes, a
trace, a load and a fleet. A page of each kind is taken: those of the navigation, and the first of each kind that they
link to; then the page of a run that goes on meanwhile, and the page of `aiperf report`. FOLDER gets a PNG for each
page, width and scheme, cut at 4,000 pixels unless --whole is given, one as it is printed on A4, and a contact sheet for
each width and scheme. --readme takes one picture, of the overview.

Needs Chromium: python aiperf-analysis/tests/chromium.py install
"""

import argparse
import os
import re
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import evolve

from aiperf_analysis.live.tail import live_runs
from aiperf_core.results import example
from aiperf_traces import example as training

TESTS = Path(__file__).parents[1] / "aiperf-analysis" / "tests"
WIDTHS = (390, 1280, 1920)
SCHEMES = ("light", "dark")
TALLEST = 4000  # pixels of a picture
README_SIZE = {"width": 1280, "height": 860}
KIND = re.compile(r"^/(target|run|samples|series|machine|trace|load|fleet|live)/[^?]*|^/(compare)[?]a=.*")
FAULTS = ("/no-such-page", "/login")  # pages that no other leads to
LINKS = "links => links.map(one => one.getAttribute('href'))"
PAPER = {"width": 794, "height": 1123}  # A4 at 96 pixels an inch
RUN = ("run", "practice.softmax", "--device", "cpu", "--size", "smoke", "--budget", "25", "--quiet")
PATIENCE_MS = 60_000
THUMB, COLUMNS, GAP, LABEL = 360, 6, 16, 20  # pixels and number of the pictures of a sheet


def made_up(folder: Path) -> None:
    """Bundles with something to show on most pages."""
    runpy.run_path(str(TESTS / "dashboard_bundles.py"))["regression"](folder)
    maker = runpy.run_path(str(TESTS / "conftest.py"))["Maker"](folder)
    for number, size in enumerate((64, 128, 256, 512)):
        scale = (size / 64) ** 1.5
        result = maker.result(
            {"plain": 2e-4 * scale, "tiled": 1.5e-4 * scale, "packed": 2.4e-4 * scale},
            target="ch09.matmul",
            seed=number,
            memory={"plain": size << 16, "tiled": size << 16, "packed": size << 14},
            joules={"plain": 0.5 * scale, "tiled": 0.4 * scale, "packed": 0.45 * scale},
            row={"tiled": {"mechanisms": ["tiling"]}, "packed": {"mechanisms": ["packing"]}},
            tier="standard",
            problem=evolve(example.result().problem, params={"n": size}),
        )
        maker.bundle(f"sizes-{size}", result, created=f"2026-11-22T1{number}:00:00+00:00", skipped=[])
    training.write(folder / "step.json", training.Job(steps=3, layers=6))
    loads = runpy.run_path(str(TESTS.parents[1] / "aiperf-calc" / "tests" / "load_bundles.py"))
    points = [loads["point"](rate, min(rate, 60), residence_s=0.1 + rate / 500) for rate in (10, 20, 40, 60, 80)]
    content = loads["payload"](*points, capacity=60.0)
    loads["written"](folder / "server", "2026-08-22T15:00:00+00:00", chat=content)
    runpy.run_path(str(TESTS / "fleet_bundles.py"))["written"](folder / "nightly")


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium."""
    from playwright.sync_api import sync_playwright

    chromium = runpy.run_path(str(TESTS / "chromium.py"))
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=str(chromium["program"]()), args=[*chromium["arguments"](), "--hide-scrollbars"]
        )
        yield found
        found.close()


def paths(page: Any, address: str) -> list[str]:
    """A page of each kind, as addresses on the server."""
    found: dict[str, str] = {}
    waiting = ["/", "/history"]
    while waiting:
        path = waiting.pop(0)
        kind = kind_of(path)
        if kind not in found:
            page.goto(address + path)
            found[kind] = path
            links = page.eval_on_selector_all("a[href^='/']", LINKS)
            waiting += [one for one in links if not one.startswith(("/api/", "/static/"))]
    return [*found.values(), *FAULTS]


def kind_of(path: str) -> str:
    """What pages of one kind have in common: `/run-one` of the page of a run, the path of others."""
    return KIND.sub(lambda match: f"/{match[1] or match[2]}-one", path).split("?")[0]


def name_of(path: str) -> str:
    """The name of the picture of a page."""
    if path.startswith("file:"):
        return Path(path).stem
    return kind_of(path).strip("/").replace("/", "-") or "index"


def take(page: Any, address: str, wanted: list[str], out: Path, *, whole: bool) -> dict[tuple[int, str], list[Path]]:
    """Pictures of the pages, by width and scheme. Each page is opened once at each width."""
    taken: dict[tuple[int, str], list[Path]] = {}
    for path in wanted:
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(address + path)
            tall = page.evaluate("document.documentElement.scrollHeight")
            clip = {"x": 0, "y": 0, "width": width, "height": tall if whole else min(tall, TALLEST)}
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                file = out / f"{name_of(path)}-{width}-{scheme}.png"
                page.screenshot(path=str(file), full_page=True, clip=clip)
                taken.setdefault((width, scheme), []).append(file)
        page.set_viewport_size(PAPER)
        page.emulate_media(media="print", color_scheme="light")
        printed = out / f"{name_of(path)}-paper.png"
        page.screenshot(path=str(printed), full_page=True)
        page.emulate_media(media="screen")
        taken.setdefault((PAPER["width"], "paper"), []).append(printed)
    return taken


@contextmanager
def going_on(folder: Path) -> Iterator[str]:
    """The address of a run that goes on, of which there is something to see."""
    command = [sys.executable, "-m", "aiperf_core", *RUN, "--out", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        try:
            while run.poll() is None:
                found = [one for one in live_runs() if one.newest["pid"] == run.pid and one.newest.get("interval")]
                if found:
                    yield f"/live/{found[0].name}"
                    return
                time.sleep(0.1)
            raise SystemExit(f"the run ended before there was something to see: {' '.join(command)}")
        finally:
            run.terminate()


def report(bundle: Path, out: Path) -> str:
    """The address of a page of `aiperf report`."""
    file = out / "report.html"
    subprocess.run([sys.executable, "-m", "aiperf_core", "report", str(bundle), "--out", str(file)], check=True)
    return file.absolute().as_uri()


def merge(into: dict[tuple[int, str], list[Path]], more: dict[tuple[int, str], list[Path]]) -> None:
    """Add pictures to those of other pages."""
    for key, files in more.items():
        into.setdefault(key, []).extend(files)


def sheet(files: list[Path], file: Path) -> None:
    """A contact sheet: the pictures in a grid, each below its name, cut to one and a half times their width."""
    from PIL import Image, ImageDraw

    tall = THUMB * 3 // 2
    rows = -(-len(files) // COLUMNS)
    step_x, step_y = THUMB + GAP, tall + LABEL + GAP
    image = Image.new("RGB", (GAP + COLUMNS * step_x, GAP + rows * step_y), "#808080")
    draw = ImageDraw.Draw(image)
    for place, one in enumerate(files):
        x, y = GAP + place % COLUMNS * step_x, GAP + place // COLUMNS * step_y
        with Image.open(one) as picture:
            small = picture.convert("RGB").resize((THUMB, max(1, picture.height * THUMB // picture.width)))
        draw.text((x, y), one.stem, fill="#ffffff")
        image.paste(small.crop((0, 0, THUMB, min(tall, small.height))), (x, y + LABEL))
    image.save(file)


def main() -> int:
    """Serve the bundles, and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder of the pictures")
    parser.add_argument("--readme", type=Path, help="one picture, of the overview")
    parser.add_argument("--runs", type=Path, help="folder of bundles")
    parser.add_argument("--only", default="", help="addresses of pages, with commas")
    parser.add_argument("--whole", action="store_true", help="do not cut tall pages")
    given = parser.parse_args()
    if (given.out is None) == (given.readme is None):
        parser.error("give --out FOLDER or --readme FILE")
    out, readme = given.out and given.out.absolute(), given.readme and given.readme.absolute()
    served = runpy.run_path(str(TESTS / "dashboard_server.py"))["served"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.runs or Path("artifacts/runs")
        if given.runs is None:
            os.chdir(scratch)  # the pages show the name of the folder
            folder.mkdir(parents=True)
            made_up(folder)
        with served(folder, Path(scratch) / "errors") as server, browser() as found:
            server.settle()
            page = found.new_page()
            if readme is not None:
                page.set_viewport_size(README_SIZE)
                page.goto(server.address)
                page.screenshot(path=str(readme))
                print(readme)
                return 0
            out.mkdir(parents=True, exist_ok=True)
            wanted = given.only.split(",") if given.only else paths(page, server.address)
            taken = take(page, server.address, wanted, out, whole=given.whole)
            if not given.only:
                with going_on(Path(scratch) / "live") as live:
                    page.goto(server.address + live)
                    page.locator("[data-picture] svg").first.wait_for(state="attached", timeout=PATIENCE_MS)
                    merge(taken, take(page, server.address, [live], out, whole=given.whole))
                newest = max(folder.glob("*/manifest.json"), key=lambda one: one.parent.name).parent
                merge(taken, take(page, "", [report(newest, out)], out, whole=given.whole))
            for (width, scheme), files in taken.items():
                sheet(files, out / f"sheet-{width}-{scheme}.png")
            print(f"{len(wanted)} pages at {len(WIDTHS)} widths, light and dark: {out}")
            return 1 if server.faults() else 0


if __name__ == "__main__":
    sys.exit(main())
