"""Bundles for the tests of analyses: real ones, made once, and made-up ones whose truth is known."""

import os
import runpy
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from aiperf_core.harness.processes.child import ForkServer
from aiperf_core.harness.run.bundle_run import BundleRun, NewBundle
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.harness.run.request import ResolvedRequest
from aiperf_core.measurements import Energy, Memory, Samples
from aiperf_core.plugins import Plugins
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Row, TargetResult, Verdict
from aiperf_core.stats.intervals import Blocks, median_interval, ratio_interval
from aiperf_core.stats.intervals import verdict as verdict_of

HERE = Path(__file__).parent
WITHOUT = "AIPERF_TEST_WITHOUT_POSTGRESQL"


@pytest.fixture(scope="session", autouse=True)
def _own_runtime_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the runs of other processes out of the views of running runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        yield


@pytest.fixture(scope="session")
def known_targets(plugins: Plugins) -> set[str]:
    """The names of the targets of the chapters; beside core alone there are none to compare with."""
    names = {target.name for target in plugins.targets}
    if all(name.startswith("practice.") for name in names):
        pytest.skip("no chapter is installed")
    return names


@pytest.fixture(scope="session")
def real_bundles(
    once: Callable[[str, Callable[[Path], object]], Path],
    plugins: Plugins,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A folder of two bundles of a small target, measured on this machine."""

    def measure(folder: Path) -> None:
        selections = plugins.select(("practice.sum_rows",))
        options = Options(device="cpu", size="smoke", budget_s=0.05)
        logs = tmp_path_factory.mktemp("logs")
        with ForkServer() as server, Planner(options, logs, server=server) as planner:
            for name in ("first", "second"):
                request, new = ResolvedRequest(selections, options), NewBundle(name=name, out=folder / name)
                run = BundleRun(server, plugins, request, new, Silent(), warm=planner)
                run.execute()
                assert run.bundle is not None
                assert run.bundle.manifest.complete

    return once("real-bundles", measure)


def samples_of(times: np.ndarray, place: int, rows: int, rounds: int) -> Samples:
    """The samples of the row at `place` of `rows`, from times of the shape (passes, samples)."""
    passes, length = times.shape
    count = passes * length
    of_pass = np.repeat(np.arange(passes), length)
    of_round = of_pass * rounds // passes
    return Samples(
        round=[int(one) for one in of_round],
        block=[int(one) * rows + place for one in of_pass],
        step=list(range(count)),
        device_s=[float(one) for one in times.ravel()],
        wall_s=[None] * count,
        cpu_s=[1e-5] * count,
        bracket_s=[float(one) + 3e-5 for one in times.ravel()],
        hidden=[True] * count,
        judged=[False] * count,
        calls=[1] * count,
        voluntary_switches=[0] * count,
        involuntary_switches=[0] * count,
        throttled=[False] * count,
        answered_s=[None] * count,
        **example.of_trusted_code(count),
    )


class Maker:
    """Makes results whose true times are known, and bundles of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def result(
        self,
        times: Mapping[str, float],
        *,
        target: str = "ch07.memory_access",
        seed: int = 0,
        noise: float = 0.01,
        passes: int = 12,
        rounds: int = 1,
        memory: Mapping[str, int] | None = None,
        joules: Mapping[str, float] | None = None,
        row: Mapping[str, Mapping[str, Any]] | None = None,
        **more: Any,
    ) -> TargetResult:
        """A target whose first row is the baseline; the others are variants with these true times in seconds.

        noise: the relative spread of a pass, which all rows share, and half of it of each sample.
        memory, joules: by row. row: further fields by row. more: fields of the result.
        """
        rng = np.random.default_rng(seed)
        common = rng.lognormal(0, noise, (passes, 1))
        rows: list[Row] = []
        blocks: list[Blocks] = []
        for place, (name, time_s) in enumerate(times.items()):
            taken = time_s * common * rng.lognormal(0, noise / 2, (passes, 4))
            samples = samples_of(taken, place, len(times), rounds)
            blocks.append(Blocks.of(list(taken.ravel()), list(np.repeat(np.arange(passes), 4)), samples.round))
            speedup = ratio_interval(blocks[0], blocks[-1]) if place else None
            peak = (memory or {}).get(name)
            first = (memory or {}).get(next(iter(times)))
            joule = (joules or {}).get(name)
            fields: dict[str, Any] = {
                "clock": "device",
                "time_s": median_interval(blocks[-1]),
                "speedup": speedup,
                "memory": Memory(peak_bytes=peak) if peak is not None else None,
                "memory_gain": first / peak if place and peak and first else None,
                "energy": Energy(joule, joule * 0.8, 40.0, joule * 0.01, joule * 0.01, 100, 1.0, 50, 0.02,
                                 "energy counter") if joule is not None else None,
                "no_energy": None if joule is not None else "the tier quick measures no energy",
                "kind": "reasonable" if place == 0 else None,
                "samples": samples,
            }  # fmt: skip
            fields |= (row or {}).get(name, {})
            verdict = fields.pop("verdict", None) or (verdict_of(speedup, 0.01) if speedup else Verdict.MEASURED)
            role = fields.pop("role", "variant" if place else "baseline")
            if verdict in (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED, Verdict.SKIPPED):
                fields |= {"speedup": None, "reason": fields.get("reason") or "it does other work"}
            rows.append(Row(name, role, "cuda", verdict, **fields))
        return evolve(example.result(), target=target, rows=rows, order=list(times), rounds=rounds, **more)

    def bundle(self, name: str, *results: TargetResult, **manifest: Any) -> Path:
        """A sealed bundle of these results, or of the example's."""
        made = Bundle.create_at(self.folder / name)
        for one in results or (example.result(),):
            made.write_target(one)
        made.write_manifest(evolve(example.manifest(), **manifest))
        return made.path


@pytest.fixture
def made(tmp_path: Path) -> Maker:
    """Makes results and bundles in a folder of this test."""
    return Maker(tmp_path / "runs")


@pytest.fixture(scope="session")
def unchanged_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a bundle of the core's example records, and one of a result with all figures. To be read only."""
    made = Maker(tmp_path_factory.mktemp("example") / "runs")
    result = made.result(
        {"plain": 2e-3, "tiled": 1.5e-3, "packed": 2.4e-3},
        target="ch09.matmul",
        memory={"plain": 4 << 20, "tiled": 4 << 20, "packed": 1 << 20},
        joules={"plain": 0.5, "tiled": 0.4, "packed": 0.45},
        row={"tiled": {"mechanisms": ["tiling"]}, "packed": {"mechanisms": ["packing"]}},
        tier="standard",
    )
    made.bundle("example")
    made.bundle("whole", result, created="2026-11-22T10:00:00+00:00", skipped=[])
    return made.folder


@pytest.fixture
def example_runs(unchanged_runs: Path, made: Maker) -> Path:
    """A copy of these bundles for one test, in the folder of `made`."""
    return shutil.copytree(unchanged_runs, made.folder, dirs_exist_ok=True)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a PostgreSQL server. A machine without one fails: SQLite is no stand-in for it."""
    if os.environ.get(WITHOUT) == "1":
        pytest.skip(f"{WITHOUT}=1")
    programs = runpy.run_path(str(HERE / "postgres_server.py"))
    try:
        assert programs["programs"]()
    except programs["Missing"] as error:
        pytest.fail(str(error), pytrace=False)
    # In memory where there is a file system of that kind: the tests make many small databases.
    with programs["server"]("/dev/shm" if Path("/dev/shm").is_dir() else "/tmp") as url:
        yield url


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """An engine of stores, which has an empty one to be copied."""
    from aiperf_analysis.store.database import made

    engines = runpy.run_path(str(HERE / "store_engines.py"))
    if request.param == "sqlite":
        found = engines["Sqlite"](tmp_path_factory.mktemp("sqlite"))
    else:
        found = engines["Postgresql"](request.getfixturevalue("server"))
    made(found.place("empty"))
    yield found
    found.drop("empty")


@pytest.fixture
def place(engine: Any) -> Iterator[Callable[..., str]]:
    """A function that gives a place without a store, or with an empty one."""
    names: list[str] = []

    def give(copied: bool = False) -> str:
        names.append(f"test{len(names)}")
        return str(engine.place(names[-1], copied))

    yield give
    for name in names:
        engine.drop(name)


@pytest.fixture
def url(place: Callable[..., str]) -> str:
    """An empty store."""
    return place(True)
