"""Read from a store: selections for analyses, and figures of many rows by SQL.

`select` gives what `aiperf_analysis.selection.select` gives from the bundles: the store keeps the files of a bundle,
samples excluded, byte for byte, and their hashes are checked against the seal when they are read. The other functions
answer from the indexed figures alone: `counts`, `series`, `board`, `sketch` and `listed`.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from attrs import fields, frozen

from aiperf_analysis.result import LeftOut
from aiperf_analysis.selection import Entry, Measured, Selection, SeriesKey
from aiperf_analysis.store import sketches, tables
from aiperf_analysis.store.database import Database, StoreError, opened
from aiperf_core.errors import BundleError
from aiperf_core.measurements import Estimate
from aiperf_core.names import words
from aiperf_core.results import jsontext
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST, TARGETS, file_name
from aiperf_core.results.models import DISBELIEVED, SCHEMA_VERSION, Manifest, TargetResult, Verdict
from aiperf_core.results.seal import seal_of
from aiperf_core.results.seal_check import check
from aiperf_core.results.structure import ON_DISK, structure

CHUNK = 500  # values in a list of a statement; engines have a limit
MOST_BYTES = 1 << 29  # of a stored file, as of a file in a bundle
Kept = TypeVar("Kept")
NOT_BELIEVED = [verdict.value for verdict in DISBELIEVED]


def select(
    url: str,
    *,
    targets: Sequence[str] = (),
    hardware: str | None = None,
    device: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Selection:
    """The rows of a store that match the filters, as `aiperf_analysis.selection.select` reads them from bundles.

    Samples are read from the bundle's folder where it is still there and unchanged.

    Raises UsageError for a text that is no URL of a store, StoreError where the store cannot be read.
    """

    def fits(stored: Any) -> bool:
        return (
            (not targets or any(fnmatchcase(stored.name, pattern) for pattern in targets))
            and (device is None or stored.device == device)
            and (hardware is None or fnmatchcase(stored.hardware, hardware))
        )

    runs: list[Measured] = []
    every: list[Entry] = []
    unreadable: list[LeftOut] = []
    with opened(url) as database, database.reading() as connection:
        for some in _chunks(_bundles(connection, labels or {})):
            wanted = [one for one in _targets(connection, [bundle.number for bundle in some]) if fits(one)]
            documents = _data(connection, tables.document.c.target, [one.id for one in wanted])
            manifests = _data(connection, tables.manifest.c.bundle, [one.number for one in some])
            for bundle in some:
                try:
                    run = _run(bundle, manifests[bundle.number])
                    results = [
                        _result(run, one.name, documents[one.id])
                        for one in sorted(wanted, key=lambda one: str(one.name))
                        if one.bundle == bundle.number
                    ]
                except BundleError as error:
                    unreadable.append(LeftOut(words(bundle.name), "", str(error)))
                    continue
                runs.append(run)
                every += [Entry(run, result, row) for result in results for row in result.rows]
    runs.sort(key=lambda run: run.created, reverse=True)
    return Selection(runs, every, unreadable, tuple(targets))


def _chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))


def _bundles(connection: sa.Connection, labels: Mapping[str, str]) -> Sequence[Any]:
    """The bundles with all these labels, newest first, as in a listing of folders."""
    bundle, label = tables.bundle, tables.label
    wanted = sa.select(bundle.c.number, bundle.c.id, bundle.c.name, bundle.c.path, bundle.c.schema_version)
    for name, value in labels.items():
        having = sa.select(label.c.bundle).where(label.c.name == name, label.c.value == value)
        wanted = wanted.where(bundle.c.number.in_(having))
    return connection.execute(wanted.order_by(*_newest_first())).all()


def _newest_first() -> "tuple[sa.ColumnElement[Any], ...]":
    return tables.bundle.c.created_s.desc(), tables.bundle.c.name.desc(), tables.bundle.c.id


def _targets(connection: sa.Connection, bundles: Sequence[int]) -> Sequence[Any]:
    one = tables.target
    wanted = sa.select(one.c.id, one.c.bundle, one.c.name, one.c.device, one.c.hardware)
    return connection.execute(wanted.where(one.c.bundle.in_(bundles))).all()


def _data(connection: sa.Connection, key: "sa.Column[Any]", keys: Sequence[Any]) -> dict[Any, bytes]:
    """The stored files of some bundles or targets."""
    found: dict[Any, bytes] = {}
    for some in _chunks(keys):
        wanted = sa.select(key, key.table.c.data).where(key.in_(some))
        found |= {one[0]: one[1] for one in connection.execute(wanted)}
    return found


def _run(stored: Any, data: bytes) -> Measured:
    """A bundle. Raises BundleError where it is of another format, or the store was damaged."""
    where = f"'{words(stored.name)}' in the store"
    if stored.schema_version != SCHEMA_VERSION:
        newer = stored.schema_version > SCHEMA_VERSION
        todo = "Upgrade: pip install --upgrade aiperf-core" if newer else "Run its targets again."
        raise BundleError(
            f"{where} has format {stored.schema_version}, and this aiperf reads format {SCHEMA_VERSION} only. {todo}"
        )
    found = _parsed(data, where)
    if not isinstance(found, dict) or not isinstance(found.get("hashes"), dict) or seal_of(found) != stored.id:
        raise _damaged(where, "its manifest does not agree with its seal")
    return Measured(stored.id, stored.path, _record(found, Manifest, where), _folder(stored.path, stored.id))


def _result(run: Measured, name: str, data: bytes) -> TargetResult:
    """A target of a bundle. Raises BundleError where the store was damaged."""
    where = f"'{words(name)}' of '{words(run.path)}' in the store"
    content = _unpacked(data, where)
    if hashlib.sha256(content).hexdigest() != run.manifest.hashes.get(f"{TARGETS}/{file_name(name)}.json"):
        raise _damaged(where, "its file does not agree with the seal")
    return _record(jsontext.loads(content), TargetResult, where)


def _unpacked(data: bytes, where: str) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        return unpacking.decompress(data, MOST_BYTES)
    except zlib.error as error:
        raise _damaged(where, str(error)) from None


def _parsed(data: bytes, where: str) -> Any:
    try:
        return jsontext.loads(_unpacked(data, where))
    except jsontext.JsonError as error:
        raise _damaged(where, str(error)) from None


def _record(found: Any, record: type[Kept], where: str) -> Kept:
    try:
        return structure(found, record, ON_DISK)
    except jsontext.JsonError as error:
        raise _damaged(where, str(error)) from None


def _damaged(where: str, problem: str) -> BundleError:
    return BundleError(
        f"{where} was changed after it was added: {problem}. Restore a copy of the store, or make a new one and add "
        "the bundles again."
    )


def _folder(path: str, seal: str) -> Bundle | None:
    """The bundle's folder; None where it is gone, was changed, or holds another bundle."""
    folder = Path(path)
    if not (folder / MANIFEST).exists():
        return None
    bundle = Bundle(folder)
    try:
        found = check(bundle, samples=False)
        return bundle if found.holds and bundle.manifest.hashes.get(MANIFEST) == seal else None
    except BundleError:
        return None


# --- by SQL


@frozen
class Count:
    """How many rows of the newest results have this in common. Controls are not counted."""

    hardware: str
    goal: str
    verdict: str
    rows: int


@frozen
class Counts:
    """The size of a store, and the verdicts of the newest results.

    bundles, targets, rows: of the whole store.
    newest: by kind of machine, goal and verdict, of the newest result of each target, device, kind of machine and size.
    """

    bundles: int
    targets: int
    rows: int
    newest: list[Count]


def state(database: Database) -> str:
    """A text that changes whenever a bundle is added, moved or pruned."""
    bundle, tombstone = tables.bundle, tables.tombstone
    wanted = sa.select(sa.func.count(), sa.func.max(bundle.c.number), sa.func.max(bundle.c.ingested_s))
    with database.reading() as connection:
        count, last, ingested = connection.execute(wanted.select_from(bundle)).one()
        pruned = connection.execute(sa.select(sa.func.count()).select_from(tombstone)).scalar()
    return f"{count}-{last}-{ingested}-{pruned}"


def counts(database: Database, *, targets: Sequence[str] = (), hardware: str | None = None) -> Counts:
    """Count what is stored. The filters are patterns, and apply to `newest`."""
    bundle, newest, target, row = tables.bundle, tables.newest, tables.target, tables.row
    with database.reading() as connection:
        total = sa.select(sa.func.count(), sa.func.sum(bundle.c.targets), sa.func.sum(bundle.c.rows))
        bundles, every, rows = connection.execute(total.select_from(bundle)).one()
        joined = newest.join(target, target.c.id == newest.c.target).join(row, row.c.target == newest.c.target)
        by = (newest.c.name, newest.c.hardware, target.c.goal, row.c.verdict)
        grouped = sa.select(*by, sa.func.count()).select_from(joined).where(row.c.role != "control").group_by(*by)
        found: dict[tuple[str, str, str], int] = {}
        for name, kind, goal, verdict, count in connection.execute(grouped):
            if _fits(name, targets) and (hardware is None or fnmatchcase(kind, hardware)):
                found[kind, goal, verdict] = found.get((kind, goal, verdict), 0) + count
    listed = [Count(kind, goal, verdict, count) for (kind, goal, verdict), count in sorted(found.items())]
    return Counts(bundles, int(every or 0), int(rows or 0), listed)


def _fits(name: str, patterns: Iterable[str]) -> bool:
    patterns = list(patterns)
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


@frozen
class Points:
    """The believed rows of a series in the order of time, as columns of one length.

    bundle: the seal of each row's bundle.
    created: when its run began; `created_s` is the same in seconds since 1970.
    git, commit_time: of the working directory of the run.
    """

    bundle: list[str]
    created: list[str]
    created_s: list[float]
    git: list[str | None]
    commit_time: list[str | None]
    verdict: list[str]
    time_s: list[float | None]
    time_s_low: list[float | None]
    time_s_high: list[float | None]
    speedup: list[float | None]
    speedup_low: list[float | None]
    speedup_high: list[float | None]
    memory_gain: list[float | None]
    peak_bytes: list[float | None]
    joules: list[float | None]

    def __len__(self) -> int:
        return len(self.bundle)


def series(database: Database, key: SeriesKey | str, limit: int = 10_000) -> Points:
    """The newest points of a series, at most `limit`. Empty for an unknown key.

    key: of the rows, or its digest.
    """
    digest = key if isinstance(key, str) else key.digest
    bundle, row = tables.bundle, tables.row
    number = sa.select(tables.series.c.id).where(tables.series.c.digest == digest).scalar_subquery()
    wanted = (
        sa.select(
            bundle.c.id,
            bundle.c.created,
            row.c.created_s,
            bundle.c.git,
            bundle.c.commit_time,
            *(row.c[name] for name in tables.POINT),
        )
        .select_from(row.join(bundle, bundle.c.number == row.c.bundle))
        .where(row.c.series == number, row.c.verdict.not_in(NOT_BELIEVED))
        .order_by(row.c.created_s.desc(), row.c.bundle.desc())
        .limit(limit)
    )
    with database.reading() as connection:
        found = connection.execute(wanted).all()
    columns = [list(column) for column in zip(*reversed(found), strict=True)]
    return Points(*columns or ([] for _ in fields(Points)))


def _estimate(value: float | None, low: float | None, high: float | None) -> Estimate | None:
    return None if value is None or low is None or high is None else Estimate(value, low, high)


@frozen
class BoardRow:
    """A row of the newest result of a target, for a table of its implementations.

    series: the digest of the key of its series.
    params: the sizes of the workload.
    """

    bundle: str
    created: str
    target: str
    row: str
    hardware: str
    device: str
    params: dict[str, float]
    goal: str
    role: str
    verdict: Verdict
    reason: str | None
    time_s: Estimate | None
    speedup: Estimate | None
    memory_gain: float | None
    light_fraction: float | None
    joules: float | None
    series: str


def board(database: Database, target: str = "*", hardware: str = "*") -> list[BoardRow]:
    """The rows of the newest results, by target, kind of machine and size, in the order of the target's file.

    Rows that are not believed are among them, without figures. Controls are not.

    target, hardware: patterns.
    """
    newest, of, row, bundle, key = tables.newest, tables.target, tables.row, tables.bundle, tables.series
    joined = (
        newest.join(of, of.c.id == newest.c.target)
        .join(bundle, bundle.c.number == of.c.bundle)
        .join(row, row.c.target == of.c.id)
        .join(key, key.c.id == row.c.series)
    )
    wanted = (
        sa.select(
            of.c.name.label("target"),
            of.c.hardware,
            of.c.device,
            of.c.params,
            of.c.goal,
            bundle.c.id.label("bundle"),
            bundle.c.created,
            row.c.name.label("row"),
            row.c.role,
            row.c.verdict,
            row.c.reason,
            *(row.c[f"{name}{end}"] for name in ("time_s", "speedup") for end in ("", "_low", "_high")),
            row.c.memory_gain,
            row.c.light_fraction,
            row.c.joules,
            key.c.digest,
        )
        .select_from(joined)
        .where(row.c.role != "control")
        .order_by(newest.c.name, newest.c.hardware, newest.c.device, newest.c.params_hash, row.c.position)
    )
    with database.reading() as connection:
        for column, pattern in ((newest.c.name, target), (newest.c.hardware, hardware)):
            if not _is_pattern(pattern):
                wanted = wanted.where(column == pattern)
        found = connection.execute(wanted).all()
    return [_board_row(one) for one in found if fnmatchcase(one.target, target) and fnmatchcase(one.hardware, hardware)]


def _is_pattern(text: str) -> bool:
    return any(one in text for one in "*?[")


def _board_row(one: Any) -> BoardRow:
    return BoardRow(
        bundle=one.bundle,
        created=one.created,
        target=one.target,
        row=one.row,
        hardware=one.hardware,
        device=one.device,
        params=dict(json.loads(one.params)),
        goal=one.goal,
        role=one.role,
        verdict=Verdict(one.verdict),
        reason=one.reason,
        time_s=_estimate(one.time_s, one.time_s_low, one.time_s_high),
        speedup=_estimate(one.speedup, one.speedup_low, one.speedup_high),
        memory_gain=one.memory_gain,
        light_fraction=one.light_fraction,
        joules=one.joules,
        series=one.digest,
    )


def sketch(database: Database, bundle: str, target: str, row: str) -> sketches.Sketch | None:
    """The samples of a row in little, also where the folder is gone; None where the row has none."""
    of, one = tables.target, tables.sketch
    wanted = (
        sa.select(one.c.samples, one.c.data)
        .join(of, of.c.id == one.c.target)
        .join(tables.bundle, tables.bundle.c.number == of.c.bundle)
        .where(tables.bundle.c.id == bundle, of.c.name == target, one.c.row == row)
    )
    with database.reading() as connection:
        found = connection.execute(wanted).one_or_none()
    try:
        return sketches.from_bytes(*found) if found else None
    except ValueError as error:
        raise StoreError(f"{database.name} is damaged: it has {error} of '{words(target)}:{words(row)}'.") from None


@frozen
class Stored:
    """A bundle of a store.

    folder: `there`, `gone`, or `pruned` where `aiperf db prune` removed it.
    """

    id: str
    name: str
    path: str
    created: str
    targets: int
    rows: int
    complete: bool
    exit_code: int | None
    hardware: list[str]
    labels: dict[str, str]
    folder: str


def listed(database: Database, limit: int | None = None) -> list[Stored]:
    """The bundles of a store, newest first."""
    bundle, tombstone, label, target = tables.bundle, tables.tombstone, tables.label, tables.target
    wanted = sa.select(bundle, tombstone.c.pruned_s).join(
        tombstone, tombstone.c.bundle == bundle.c.number, isouter=True
    )
    labels: dict[int, dict[str, str]] = {}
    kinds: dict[int, list[str]] = {}
    with database.reading() as connection:
        found = connection.execute(wanted.order_by(*_newest_first()).limit(limit)).all()
        for some in _chunks([one.number for one in found]):
            for number, name, value in connection.execute(sa.select(label).where(label.c.bundle.in_(some))):
                labels.setdefault(number, {})[name] = value
            of = sa.select(target.c.bundle, target.c.hardware).distinct().where(target.c.bundle.in_(some))
            for number, kind in connection.execute(of.order_by(target.c.hardware)):
                kinds.setdefault(number, []).append(kind)
    return [
        Stored(
            id=one.id,
            name=one.name,
            path=one.path,
            created=one.created,
            targets=one.targets,
            rows=one.rows,
            complete=bool(one.complete),
            exit_code=one.exit_code,
            hardware=kinds.get(one.number, []),
            labels=labels.get(one.number, {}),
            folder=_state(one.path, one.pruned_s is not None),
        )
        for one in found
    ]


def _state(path: str, pruned: bool) -> str:
    return "there" if (Path(path) / MANIFEST).exists() else "pruned" if pruned else "gone"
