"""An analysis: conclusion, options, pictures, tables, assumptions, what was left out, and the sources."""

from collections.abc import Mapping
from typing import Any

from attrs import evolve, frozen

from aiperf_analysis.dashboard import filters, shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.sources.errors import GoneError
from aiperf_core.errors import AiperfError, UsageError


@frozen
class Introduction:
    """The text of a page without a question: a sentence, and proposed questions as pairs of text and options."""

    sentence: str
    presets: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()


INTRODUCTIONS = {
    "whatif": Introduction(
        "Ask which measured rows fit a limit, or how long they would take on another machine or at another size.",
        (
            ("Which fit 24 GiB?", (("vram", "24GiB"),)),
            ("Which take at most 10 ms?", (("latency", "10ms"),)),
            ("How long on memory of 3.35 TB/s, as of an H100?", (("bandwidth", "3.35TB/s"),)),
            ("How long at 80 % of the processor's clock?", (("clock", "x0.8"),)),
            ("How often do such predictions hold?", (("validate", "true"),)),
        ),
    ),
    "targets": Introduction(
        "Goals for benchmarks stand in a TOML file, which the command that starts the server names: "
        "aiperf dashboard FOLDER --set targets.file=goals.toml"
    ),
    "cost": Introduction(
        "There are no prices of machines yet: add one with aiperf prices add, or price hardware of your own here.",
        (
            ("My GPU cost $30,000", (("own-price", "30000"),)),
            ("My GPU cost $2,000 and serves 3 years", (("own-price", "2000"), ("life", "3"))),
            ("Electricity at $0.30 a kWh", (("tariff", "0.30"),)),
        ),
    ),
}
LIMIT = 80  # lines of a table on a page, which is short on a telephone too


def page(asked: Asked) -> View:
    """The page of the analysis that the registry names. Where it has no result, the form and the reason."""
    return of(asked, asked.analysis)


def of(asked: Asked, name: str, *, template: str = "analysis.html.jinja", **more: Any) -> View:
    """The page of an analysis, with further data for a template of its own."""
    texts = filters.others(asked.query)
    options = asked.site.options(name)
    data: dict[str, Any] = {
        "form": shown.form(options, asked.query), "result": None, "problem": "", "introduction": None, "presets": (),
        **more,
    }  # fmt: skip
    status, pairs, command = 200, [], []
    try:
        chosen = asked.filters
        pairs, command = chosen.query, chosen.command
        result = asked.site.result(name, chosen, texts)
    except GoneError:
        raise
    except AiperfError as error:
        introduction = INTRODUCTIONS.get(name) if not texts and isinstance(error, UsageError) else None
        if introduction is not None:
            data |= {"introduction": introduction, "presets": _presets(asked, introduction)}
        else:
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


def _presets(asked: Asked, introduction: Introduction) -> list[tuple[str, str]]:
    """The questions of an introduction with their addresses, which keep the filters; files answer none."""
    if asked.site.settings.exported:
        return []
    pairs = asked.filters.query
    return [(text, filters.with_query(asked.of.path, [*pairs, *options])) for text, options in introduction.presets]


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
