"""An analysis: conclusion, options, pictures, tables, assumptions, what was left out, and the sources."""

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from aiperf_analysis.dashboard import filters, shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.sources.errors import GoneError
from aiperf_core.errors import AiperfError, UsageError

LIMIT = 200  # lines of a table on a page


def page(asked: Asked) -> View:
    """The page of the analysis that the registry names. Where it has no result, the form and the reason."""
    return of(asked, asked.analysis)


def of(asked: Asked, name: str, *, template: str = "analysis.html.jinja", **more: Any) -> View:
    """The page of an analysis, with further data for a template of its own."""
    texts = filters.others(asked.query)
    options = asked.site.options(name)
    data: dict[str, Any] = {"form": shown.form(options, asked.query), "result": None, "problem": "", **more}
    status, pairs, command = 200, [], []
    try:
        chosen = asked.filters
        pairs, command = chosen.query, chosen.command
        result = asked.site.result(name, chosen, texts)
    except GoneError:
        raise
    except AiperfError as error:
        data["problem"] = str(error)
        status = 400 if texts and isinstance(error, UsageError) else 200
    else:
        data |= {**document.data_of(result), "form": data["form"]}
    pairs = [*pairs, *((key, text) for key, some in texts.items() for text in some)]
    if data["result"] is not None:
        data |= _page_of(asked, data, filters.with_query(asked.of.path, [*pairs, ("page", "")]))
    given = asked.site.settings.given.get(name, {})
    own = [part for key, some in texts.items() for text in some for part in _option(options, key, text)]
    return View(
        template=template,
        data=data,
        command=["analyze", name, *asked.site.source.arguments, *command, *own, *_given(given)],
        api=filters.with_query(f"/api/v1/analyses/{name}", pairs),
        csv=True,
        status=status,
    )


def _page_of(asked: Asked, data: Mapping[str, Any], here: str) -> dict[str, Any]:
    """A page of the lines of the tables; the first has the pictures. `here` is the address without the number."""
    at, count = asked.page_of(max((len(one.lines) for one in data["tables"]), default=0), LIMIT)
    tables = [evolve(one, lines=one.lines[(at - 1) * LIMIT : at * LIMIT]) for one in data["tables"]]
    pictures = data["pictures"] if at == 1 else []
    return {"tables": tables, "pictures": pictures, "page_number": at, "page_count": count, "here": here}


def _option(options: type[Any], key: str, text: str) -> list[str]:
    """An option of a URL as that of a command: a flag has no value."""
    import attrs

    from aiperf_core.analysis_options import kind_of

    names = {one.name.replace("_", "-"): one.name for one in attrs.fields(options)}
    flag = key in names and kind_of(options, names[key]) is bool
    if not flag:
        return [f"--{key}", text]
    return [f"--{key}"] if text.lower() in ("", "1", "true", "yes") else []


def _given(given: "Any") -> list[str]:
    return [part for key, text in given.items() for part in (f"--{key}", text)]
