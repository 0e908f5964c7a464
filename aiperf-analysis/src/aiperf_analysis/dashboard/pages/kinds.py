"""The documents of a kind in the bundles: a page that lists all, and a page of each."""

import hashlib
import json
from collections.abc import Callable, Sequence

from attrs import frozen

from aiperf_analysis.dashboard import shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.documents import sealed_names
from aiperf_analysis.lines import name_of
from aiperf_analysis.selection import Measured
from aiperf_analysis.sources.errors import NotFoundError
from aiperf_analysis.sources.source import id_of
from aiperf_core import units
from aiperf_core.errors import BundleError
from aiperf_core.names import words
from aiperf_core.report.result import Column, Drawing, LeftOut, Origin, Record, Result, Table
from aiperf_core.results.models import Document


@frozen
class Content:
    """What a document holds: tables, what to know of it, and pictures."""

    tables: list[Table]
    sentences: Sequence[str]
    drawings: Sequence[Drawing] = ()


@frozen
class Kept:
    """A document. `id` is a hash of its run, its kind and its name."""

    id: str
    run: Measured
    name: str


@frozen
class Kind:
    """The pages of a kind.

    name: of the kind; the pages are `/NAMEs` and `/NAME/ID`.
    about: what the documents are, such as `on servers`.
    none: what the list says where there is none.
    content: reads a document. Raises BundleError for one of another format.
    """

    name: str
    about: str
    none: str
    content: Callable[[Asked, Document, Origin], Content]

    @property
    def title(self) -> str:
        """The kind as the begin of a title."""
        return self.name.capitalize()

    def of_run(self, run: Measured) -> list[Kept]:
        """The documents of a run; those of one whose folder is gone by its manifest. Raises BundleError."""
        names = sealed_names(run.manifest, self.name) if run.bundle is None else run.bundle.documents(self.name)
        texts = (f"{id_of(run)}/{self.name}/{name}" for name in names)
        ids = (hashlib.sha256(text.encode(errors="replace")).hexdigest()[:24] for text in texts)
        return [Kept(one, run, name) for one, name in zip(ids, names, strict=True)]

    def of_runs(self, asked: Asked) -> tuple[list[Kept], list[LeftOut]]:
        """The documents of all runs, newest first, and the bundles whose documents cannot be listed."""
        found: list[Kept] = []
        unreadable: list[LeftOut] = []
        for run in asked.site.source.selection(asked.filters).runs:
            try:
                found += self.of_run(run)
            except (BundleError, OSError) as error:
                unreadable.append(LeftOut(name_of(run), "", str(error), Origin(run.id)))
        return found, unreadable

    def page(self, asked: Asked) -> View:
        """The list."""
        result = self.every(asked)
        tables = [shown.leading(one, f"/{self.name}/") for one in result.tables]
        return document.view(asked, result, api=f"/api/v1/{self.name}s", filtered=False, tables=tables)

    def every(self, asked: Asked) -> Result:
        """All documents of the kind as a result."""
        found, unreadable = self.of_runs(asked)
        columns = [Column("name", self.name), Column("run", "run"), Column("created", "began"), Column("id", "id")]
        records = [
            Record({"name": one.name, "run": name_of(one.run), "created": one.run.created, "id": one.id},
                   [Origin(one.run.id)])
            for one in found
        ]  # fmt: skip
        count = units.plural(self.name, len(found))
        return Result(
            analysis=f"{self.name}s",
            title=count,
            summary=[f"{count} {self.about}." if found else self.none],
            tables=[Table(f"{self.name}s", f"{self.title}s", columns, records)],
            left_out=unreadable,
        )

    def page_of_one(self, asked: Asked) -> View:
        """The document with the id of the address."""
        kept = self._kept(asked)
        result = self._result(asked, kept)
        return document.view(
            asked,
            result,
            title=kept.name,
            api=f"/api/v1/{self.name}s/{kept.id}",
            template="kept.html.jinja",
            crumbs=[(f"{self.title}s", f"/{self.name}s"), (name_of(kept.run), f"/run/{id_of(kept.run)}")],
            kind=self.name,
            payload=json.dumps(result.details["payload"], indent=2, ensure_ascii=True, sort_keys=True),
            filtered=False,
        )

    def one(self, asked: Asked) -> Result:
        """A document as a result; its content is in `details`."""
        return self._result(asked, self._kept(asked))

    def _result(self, asked: Asked, kept: Kept) -> Result:
        found = asked.site.source.document(kept.run, self.name, kept.name)
        columns = [Column("what", "what"), Column("value", "value")]
        records = [
            Record({"what": key, "value": value if isinstance(value, bool) else str(value)})
            for key, value in found.payload.items()
            if isinstance(value, str | int | float | bool)
        ]
        content, text = Content([], []), ""
        try:
            content = self.content(asked, found, Origin(kept.run.id))
        except BundleError:
            # Of another format: as the package shows it that wrote it.
            text = self._text(asked, found)
        return Result(
            analysis=self.name,
            title=f"{self.title} {kept.name}",
            summary=[f"Of the run {name_of(kept.run)}, at {units.moment(found.created)}.", *content.sentences],
            options={"id": kept.id},
            tables=[*content.tables, Table("facts", "Facts", columns, records)],
            drawings=list(content.drawings),
            text=text,
            details={"payload": found.payload},
        )

    def _kept(self, asked: Asked) -> Kept:
        for kept in self.of_runs(asked)[0]:
            if kept.id == asked.path["id"]:
                return kept
        raise NotFoundError(
            f"'{words(asked.path['id'][:80])}' is the id of no {self.name} here. The {self.name}s: /{self.name}s"
        )

    def _text(self, asked: Asked, found: Document) -> str:
        """The document as the package that wrote it shows it; empty where that is not installed."""
        kind = asked.site.plugins.known_documents.get(self.name)
        if kind is None:
            return ""
        try:
            return "\n".join(kind.resolve().render(found))
        except BundleError as error:
            return str(error)
