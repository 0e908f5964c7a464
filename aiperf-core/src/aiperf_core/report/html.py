"""A result as one HTML page without anything from elsewhere: conclusion, pictures, tables, assumptions, sources."""

import functools
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from aiperf_core.names import words
from aiperf_core.report import cell_text, layout, picture, svg, views
from aiperf_core.report.result import Result, Source
from aiperf_core.results.bundle import Bundle

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
       color: var(--ink); background: var(--page); }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; display: block; overflow-x: auto; }
th, td { padding: .25rem .75rem .25rem 0; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
td.figure, th.figure { text-align: right; font-variant-numeric: tabular-nums; }
.quiet, summary { color: var(--quiet); }
pre { white-space: pre-wrap; }
figure { margin: 1rem 0; }
svg text { stroke: var(--page); stroke-width: 3px; stroke-linejoin: round; paint-order: stroke; }
svg { display: block; width: 100%; height: auto; }
"""


def page(result: Result) -> str:
    """The page. All texts are escaped, and shown without control characters."""
    template = environment("aiperf_core.report").get_template("result.html.jinja")
    return template.render(
        result=result,
        style=Markup(f":root {{ color-scheme: light dark; }}\n{colours()}{_STYLE}{svg.style_sheet()}{layout.STYLE}"),
        text_lines=escape(result.text),
        left_out=[f"{left.what} {left.verdict}: {left.reason}" for left in result.left_out],
        sources=[f"{source.path} ({source.created}, {source.hardware})" for source in result.sources],
        text=cell_text.text,
        interval=cell_text.interval,
        reason=cell_text.reason,
        picture=picture.both,
        figures=picture.table,
    )


def frame(bundle: Bundle) -> str:
    """The rows of a bundle as a frame for notebooks, whose styles stay those of the notebook."""
    source = Source(str(bundle.path), str(bundle.path), bundle.manifest.created, "")
    results = [bundle.outline(name) for name in bundle.targets]
    content = escape(page(views.rows(source, bundle.manifest, [*results, *bundle.manifest.skipped])))
    return f'<iframe srcdoc="{content}" style="width:100%;height:36rem;border:0" sandbox></iframe>'


def colours(media: str = "") -> str:
    """The colours of pictures as CSS custom properties. `media` restricts the dark scheme, such as to `screen`."""
    query = " and ".join(filter(None, (media, "(prefers-color-scheme: dark)")))
    dark = f"@media {query} {{ :root {{ {svg.declared(svg.DARK)} }} }}"
    return f":root {{ {svg.declared(svg.PALETTE)} }}\n{dark}\n"


@functools.cache
def environment(package: str) -> Environment:
    """The templates that lie in a package."""
    return Environment(
        loader=PackageLoader(package, "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _plain(value: Any) -> Any:
    """The filter of every value in a template: no control characters. Jinja then escapes all that is not `Markup`."""
    return value if isinstance(value, Markup | int) else words(str(value))
