"""Loads on servers: the documents of the kind `load` in the bundles."""

import hashlib
import json

from attrs import frozen

from aiperf_analysis.dashboard.asked import Asked, NotFoundError, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.dashboard.pages.runs import name_of
from aiperf_analysis.dashboard.source import id_of
from aiperf_analysis.result import Column, LeftOut, Origin, Record, Result, Table
from aiperf_analysis.selection import Measured
from aiperf_core import units
from aiperf_core.errors import BundleError
from aiperf_core.names import words
from aiperf_core.results.models import Document

KIND = "load"


@frozen
class Load:
    """A document of a load. `id` is a hash of its run and its name."""

    id: str
    run: Measured
    name: str

    def read(self) -> Document:
        """The document. Raises BundleError."""
        assert self.run.bundle is not None
        return self.run.bundle.document(KIND, self.name)


def loads(asked: Asked) -> tuple[list[Load], list[LeftOut]]:
    """The loads of all runs, newest first, and the bundles whose loads cannot be listed."""
    found: list[Load] = []
    unreadable: list[LeftOut] = []
    for run in asked.site.source.selection(asked.filters).runs:
        if run.bundle is None:
            continue
        try:
            for name in run.bundle.documents(KIND):
                digest = hashlib.sha256(f"{id_of(run)}/{name}".encode(errors="replace")).hexdigest()[:24]
                found.append(Load(digest, run, name))
        except (BundleError, OSError) as error:
            unreadable.append(LeftOut(name_of(run), "", str(error), Origin(run.id)))
    return found, unreadable


def page(asked: Asked) -> View:
    """The list of loads."""
    return document.view(
        asked, every(asked), api="/api/v1/loads", template="loads.html.jinja", loads=loads(asked)[0], filtered=False
    )


def every(asked: Asked) -> Result:
    """All loads as a result."""
    found, unreadable = loads(asked)
    columns = [Column("name", "load"), Column("run", "run"), Column("created", "began"), Column("id", "id")]
    records = [
        Record({"name": one.name, "run": name_of(one.run), "created": one.run.created, "id": one.id},
               [Origin(one.run.id)])
        for one in found
    ]  # fmt: skip
    none = "No bundle here holds a load on a server; a run of aiperf load writes them."
    return Result(
        analysis="loads",
        title=units.plural("load", len(found)),
        summary=[f"{units.plural('load', len(found))} on servers." if found else none],
        tables=[Table("loads", "Loads", columns, records)],
        left_out=unreadable,
    )


def page_of_one(asked: Asked) -> View:
    """The load with the id of the address."""
    load = _load(asked)
    result = one(asked)
    return document.view(
        asked,
        result,
        title=load.name,
        api=f"/api/v1/loads/{load.id}",
        template="load.html.jinja",
        crumbs=[("Loads", "/loads"), (name_of(load.run), f"/run/{id_of(load.run)}")],
        payload=json.dumps(result.details["payload"], indent=2, ensure_ascii=True, sort_keys=True),
        filtered=False,
    )


def _load(asked: Asked) -> Load:
    for load in loads(asked)[0]:
        if load.id == asked.path["id"]:
            return load
    raise NotFoundError(f"'{words(asked.path['id'][:80])}' is the id of no load here. The loads: /loads")


def one(asked: Asked) -> Result:
    """A load as a result; its content is in `details`."""
    load = _load(asked)
    found = load.read()
    columns = [Column("what", "what"), Column("value", "value")]
    plain = {key: value for key, value in found.payload.items() if isinstance(value, str | int | float | bool)}
    records = [Record({"what": key, "value": str(value)}) for key, value in plain.items()]
    return Result(
        analysis="load",
        title=f"Load {load.name}",
        summary=[f"Of the run {name_of(load.run)}, at {units.moment(found.created)}."],
        options={"id": load.id},
        tables=[Table("facts", "Facts", columns, records)],
        details={"payload": found.payload},
    )
