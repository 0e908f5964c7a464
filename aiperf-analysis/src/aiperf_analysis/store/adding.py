"""Add bundles to a store: each in one transaction, and none twice.

The seal of a bundle is its id. Adding it again, by another writer or after a kill, changes nothing.
"""

import hashlib
import json
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from attrs import asdict, field, frozen

from aiperf_analysis.selection import Entry, Measured
from aiperf_analysis.sizes import text_of
from aiperf_analysis.store import fleets, loads, tables
from aiperf_analysis.store.database import Database, StoreError
from aiperf_analysis.store.fleets import insert_fleets
from aiperf_analysis.store.loads import LoadContent, insert_loads
from aiperf_analysis.store.values import Values, as_json, check_storable
from aiperf_core.errors import AiperfError, ExitCode, UsageError
from aiperf_core.measurements import Ceilings
from aiperf_core.names import words
from aiperf_core.report.metrics import STORED, SUMMARY, Metric
from aiperf_core.report.result import Figure
from aiperf_core.results import jsontext
from aiperf_core.results.address import find
from aiperf_core.results.bundle import DEFAULT_PARENT, Bundle
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.listing import Run, bundles
from aiperf_core.results.models import Manifest
from aiperf_core.results.seal import seal_of
from aiperf_core.results.seal_check import SealError, check
from aiperf_core.stats.expectations import module_hash

Ending = Literal["added", "known", "moved", "open", "refused"]


@frozen
class Outcome:
    """What became of a bundle.

    ending: `added`; `known` where the store had it; `moved` where the store had it, and its folder was elsewhere;
        `open` for a run that goes on or was killed, and has no seal; `refused`.
    reason: why it is `open` or was refused; empty otherwise.
    exit_code: 3 for a bundle that was changed after its run, 1 for another that was refused, else 0.
    """

    path: Path
    ending: Ending
    reason: str = ""
    exit_code: ExitCode = ExitCode.OK


def named(texts: Sequence[str], folder: Path = DEFAULT_PARENT) -> list[Path]:
    """The folders of the named bundles, the oldest first where a folder of bundles is named.

    texts: bundles, named as in every command, and folders of bundles; none stands for `folder`.

    Raises UsageError or BundleError for a text that names none.
    """
    found: list[Path] = []
    for text in texts or [str(folder)]:
        path = Path(text)
        if path.is_dir() and not (path / MANIFEST).exists():
            inside = bundles(path)
            if not inside:
                raise UsageError(f"'{words(text)}' holds no bundles. Name a bundle or a folder of bundles.")
            found += [one.path for one in reversed(inside)]
            continue
        if not texts and not path.exists():
            raise UsageError(f"'{path}' does not exist, so there are no results yet. Make some: aiperf run PATTERN")
        address = find(text, folder)
        if address.target is not None:
            raise UsageError(f"{words(text)!r} names a target; a store takes whole bundles: {address.bundle.path}")
        found.append(address.bundle.path)
    return list(dict.fromkeys(found))


def add_all(database: Database, paths: Iterable[Path]) -> Iterator[Outcome]:
    """Add bundles one after the other. Raises StoreError where the store cannot be written."""
    for path in paths:
        yield add(database, path)


def add(database: Database, path: Path) -> Outcome:
    """Add a bundle in one transaction, once its seal is checked, samples included.

    Raises StoreError where the store cannot be written; a bundle that is not added is an outcome.
    """
    try:
        content = _read(path)
        return Outcome(path, _store(database, content) if content.seal else "open", content.problem)
    except StoreError:
        raise
    except SealError as error:
        return Outcome(path, "refused", str(error), ExitCode.INVALID)
    except AiperfError as error:
        return Outcome(path, "refused", str(error), ExitCode.FAILED)


# --- from a bundle to the values of its rows


@frozen
class _Content:
    """What a bundle adds to the tables, without the numbers that the database gives.

    seal: empty where the bundle has none; `problem` then says why.
    targets: the values of each target, and of what belongs to it.
    """

    seal: str
    problem: str = ""
    machine: Values = field(factory=dict)
    software: Values = field(factory=dict)
    bundle: Values = field(factory=dict)
    files: Sequence[Values] = ()
    labels: Sequence[Values] = ()
    ceilings: Sequence[Values] = ()
    targets: Sequence["_Target"] = ()
    loads: Sequence[LoadContent] = ()
    fleets: Sequence[Values] = ()


@frozen
class _Target:
    """What a target adds. Rows have the values of their series under `series`."""

    target: Values
    rows: Sequence[Values]
    findings: Sequence[Values]


def _read(path: Path) -> _Content:
    bundle = Bundle.open(path)
    sealed = check(bundle)
    if not sealed.holds:
        raise SealError(sealed.told())
    manifest = bundle.manifest
    if not manifest.hashes:
        return _Content("", sealed.told())
    seal, data = manifest.hashes[MANIFEST], (path / MANIFEST).read_bytes()
    if seal_of(jsontext.loads(data)) != seal:
        raise SealError(
            f"'{words(str(path))}' was changed while it was read. Add it again when no process writes to it."
        )
    run = Measured(seal, str(path), manifest, bundle)
    targets = [_target(run, bundle, name) for name in bundle.targets]
    content = _Content(
        seal,
        machine=_machine(manifest),
        software=_software(manifest),
        bundle=_bundle(run, path, targets),
        labels=[{"name": name, "value": value} for name, value in manifest.labels.items()],
        ceilings=[
            {"device": device, "figure": name, "value": value}
            for device, ceilings in manifest.ceilings.items()
            for name, value in _ceilings(ceilings)
        ],
        files=files_of(bundle),
        targets=targets,
        loads=loads.contents(bundle),
        fleets=fleets.contents(bundle),
    )
    _check_storable(path, content)
    return content


def files_of(bundle: Bundle) -> list[Values]:
    """The files of a sealed bundle for `tables.file`. Raises SealError where one is not that of the seal."""
    hashes = bundle.manifest.hashes
    contents = {MANIFEST: bundle.file_bytes(MANIFEST)}
    for path in hashes:
        if path.endswith(".json") and path != MANIFEST:
            contents[path] = bundle.file_bytes(path)
            if hashlib.sha256(contents[path]).hexdigest() != hashes[path]:
                raise SealError(
                    f"'{words(str(bundle.path / path))}' was changed while it was read. Add the bundle again."
                )
    return [{"path": path, "data": zlib.compress(content)} for path, content in contents.items()]


def _machine(manifest: Manifest) -> Values:
    machine = manifest.machine
    values = {
        "hostname": machine.hostname,
        "system": machine.system,
        "cpu": machine.cpu,
        "cores": machine.cores,
        "memory_bytes": machine.memory_bytes,
        "gpus": as_json(machine.gpus),
        "driver": machine.driver,
        "hypervisor": machine.hypervisor,
    }
    return {"id": _hash(values), **values}


def _software(manifest: Manifest) -> Values:
    values = {
        "aiperf": manifest.aiperf,
        "python": manifest.machine.python,
        "packages": as_json(manifest.packages),
    }
    return {"id": _hash(values), **values}


def _bundle(run: Measured, path: Path, targets: Sequence[_Target]) -> Values:
    manifest = run.manifest
    request = manifest.request
    return {
        "id": run.id,
        "name": path.absolute().name,
        "path": str(path.absolute()),
        "created": manifest.created,
        "created_s": created_s(manifest),
        "ingested_s": time.time(),
        "complete": manifest.complete,
        "exit_code": manifest.exit_code,
        "git": manifest.git,
        "commit_time": manifest.commit_time,
        "tier": request.tier if request else None,
        "policy": request.policy if request else None,
        "schema_version": manifest.schema_version,
        "targets": len(targets),
        "rows": sum(len(one.rows) for one in targets),
    }


def created_s(manifest: Manifest) -> float:
    """When a run began, in seconds since 1970; of a time that cannot be read, the year 1, as in a listing."""
    return Run(Path(), manifest, ()).created.timestamp()


def _ceilings(ceilings: Ceilings) -> Iterator[tuple[str, float]]:
    """The figures of a page of ceilings by name; those of a dictionary as `name.key`."""
    for name, value in asdict(ceilings).items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{key}", one) for key, one in value.items() if isinstance(one, int | float))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield name, value


def _target(run: Measured, bundle: Bundle, name: str) -> _Target:
    result = bundle.outline(name)
    entries = [Entry(run, result, row) for row in result.rows]
    hardware = entries[0].hardware if entries else ""
    problem, created = result.problem, created_s(run.manifest)
    params = as_json(sorted(problem.params.items()))
    values = {
        "name": name,
        "device": result.device,
        "hardware": hardware,
        "params": params,
        "params_hash": params_hash(params),
        "goal": result.goal,
        "clock": result.clock,
        "cache": result.cache,
        "precision": problem.precision,
        "size": problem.size,
        **{one: getattr(problem, one) for one in tables.WORK},
        "world_size": problem.world_size,
        "nodes": problem.nodes,
        "floor": result.floor,
        "tier": result.tier,
        "rounds": result.rounds,
        "complete": result.complete,
        "no_gain": result.no_gain,
        "created_s": created,
    }
    source = module_hash(run.manifest, name)
    rows = [
        {**_row(entry), "position": position, "created_s": created, "source": source, "series": _series(entry)}
        for position, entry in enumerate(entries)
    ]
    findings = [
        {"row": row.name, "position": position, "issue": one.issue, "severity": one.severity}
        for row in result.rows
        for position, one in enumerate(row.findings)
    ]
    return _Target(values, rows, findings)


def params_hash(params: str) -> str:
    """A short name of sizes, which are given as JSON."""
    return hashlib.sha256(params.encode()).hexdigest()[:16]


def _series(entry: Entry) -> Values:
    key = entry.key
    params = as_json(key.params)
    names = ("target", "implementation", "hardware", "device", "clock", "cache", "precision")
    common = {name: getattr(key, name) for name in names}
    texts = " ".join((key.target, key.implementation, text_of(dict(key.params)), key.hardware)).lower()
    return {"digest": key.digest, **common, "params": params, "params_hash": params_hash(params), "texts": texts}


def _row(entry: Entry) -> Values:
    """The values of a row. One that is not believed has no figures, so that no statement can use them."""
    row = entry.row
    figures = {metric.key: metric.of(entry.result, row) for metric in STORED.values()}
    missing = {one.key: figures[one.key].reason for one in SUMMARY if figures[one.key].value is None}
    own: Values = {
        "bound": row.speed_of_light.bound if row.speed_of_light else None,
        "quality_metric": row.quality.metric if row.quality else None,
        "quality": row.quality.value if row.quality else None,
        "beside": as_json(row.beside) if row.beside else None,
        "missing": as_json(missing) if missing else None,
    }
    return {
        "name": row.name,
        "role": row.role,
        "kind": row.kind,
        "verdict": row.verdict.value,
        "reason": row.reason,
        "builds_on": row.builds_on,
        "mechanisms": as_json(row.mechanisms) if row.mechanisms else None,
        **(own if entry.believed else dict.fromkeys(own)),
        **{name: value for metric in STORED.values() for name, value in _columns(metric, figures[metric.key])},
    }


def _columns(metric: Metric, figure: Figure) -> Iterator[tuple[str, float | None]]:
    return zip(tables.columns_of([metric]), (figure.value, figure.low, figure.high), strict=False)


def _hash(values: Values) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _check_storable(path: Path, content: _Content) -> None:
    parts = [content.machine, content.software, content.bundle, *content.labels, *content.ceilings, *content.fleets]
    for one in content.targets:
        parts += [one.target, *one.rows, *one.findings, *(row["series"] for row in one.rows)]
    for load in content.loads:
        parts += [load.load, *load.points]
    for values in parts:
        check_storable(str(path), values)


# --- from the values to the tables


def _store(database: Database, content: _Content) -> Ending:
    """Insert a bundle, or nothing where the store has it.

    Rows that bundles share are inserted in one order by all writers, so that none waits for another in a circle.
    """
    insert = database.insert
    with database.writing() as connection:
        for table, values in ((tables.machine, content.machine), (tables.software, content.software)):
            connection.execute(insert(table).values(values).on_conflict_do_nothing())
        links = {"machine": content.machine["id"], "software": content.software["id"]}
        new = insert(tables.bundle).values({**content.bundle, **links}).on_conflict_do_nothing()
        number = connection.execute(new.returning(tables.bundle.c.number)).scalar()
        if number is None:
            return _known(connection, content)
        of = {"bundle": number}
        files = () if database.is_sqlite else content.files  # a server's other users do not have the folder
        for table, some in ((tables.label, content.labels), (tables.ceiling, content.ceilings), (tables.file, files)):
            if some:
                connection.execute(sa.insert(table), [{**values, **of} for values in some])
        if content.targets:
            _store_targets(connection, insert, content, number)
        insert_loads(connection, content.loads, number, content.bundle["created_s"])
        insert_fleets(connection, content.fleets, number)
    return "added"


def _store_targets(connection: sa.Connection, insert: Any, content: _Content, bundle: int) -> None:
    ids = list(
        connection.execute(
            sa.insert(tables.target).returning(tables.target.c.id, sort_by_parameter_order=True),
            [{**one.target, "bundle": bundle} for one in content.targets],
        ).scalars()
    )
    series = _series_ids(connection, insert, [row["series"] for one in content.targets for row in one.rows])
    rows: list[Values] = []
    findings: list[Values] = []
    for number, one in zip(ids, content.targets, strict=True):
        of = {"target": number}
        rows += [{**row, **of, "bundle": bundle, "series": series[row["series"]["digest"]]} for row in one.rows]
        findings += [{**finding, **of} for finding in one.findings]
    for table, some in ((tables.row, rows), (tables.finding, findings)):
        if some:
            connection.execute(sa.insert(table), some)
    _renew(connection, insert, content, ids)


def _series_ids(connection: sa.Connection, insert: Any, keys: Sequence[Values]) -> dict[str, int]:
    """The number of each series by its digest. Those that are new are inserted, in the order of their digests."""
    wanted = {one["digest"]: one for one in keys}
    known = sa.select(tables.series.c.digest, tables.series.c.id)

    def found(digests: Sequence[str]) -> dict[str, int]:
        numbers: dict[str, int] = {}
        for start in range(0, len(digests), CHUNK):
            some = known.where(tables.series.c.digest.in_(digests[start : start + CHUNK]))
            numbers |= {one.digest: one.id for one in connection.execute(some)}
        return numbers

    there = found(list(wanted))
    missing = sorted(wanted.keys() - there.keys())
    if missing:
        connection.execute(insert(tables.series).on_conflict_do_nothing(), [wanted[digest] for digest in missing])
        there |= found(missing)
    return there


CHUNK = 1000  # values in a list of a statement; engines have a limit

_NEWEST_KEY = ("name", "hardware", "device", "params_hash")


def _renew(connection: sa.Connection, insert: Any, content: _Content, ids: Sequence[int]) -> None:
    """Note the bundle's results as the newest where they are."""
    values = [
        {
            **{name: one.target[name] for name in _NEWEST_KEY},
            "target": number,
            "created_s": one.target["created_s"],
            "bundle_name": content.bundle["name"],
        }
        for number, one in zip(ids, content.targets, strict=True)
        if one.rows
    ]
    values.sort(key=lambda one: [one[name] for name in _NEWEST_KEY])
    new = insert(tables.newest)
    order = ("created_s", "bundle_name")
    later = sa.tuple_(*(new.excluded[name] for name in order)) > sa.tuple_(*(tables.newest.c[name] for name in order))
    renewed = new.on_conflict_do_update(
        index_elements=list(_NEWEST_KEY),
        set_={name: new.excluded[name] for name in ("target", *order)},
        where=later,
    )
    if values:
        connection.execute(renewed, values)


def _known(connection: sa.Connection, content: _Content) -> Ending:
    """The ending of a bundle that is stored. Its folder is noted anew if it is not at its place any more."""
    bundle = tables.bundle
    stored = sa.select(bundle.c.number, bundle.c.path).where(bundle.c.id == content.seal)
    number, path = connection.execute(stored).one()
    if path == content.bundle["path"] or (Path(path) / MANIFEST).exists():
        return "known"
    connection.execute(sa.update(bundle).where(bundle.c.number == number).values(path=content.bundle["path"]))
    return "moved"
