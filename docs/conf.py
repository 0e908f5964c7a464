"""How the site is built: Sphinx reads the Markdown of this folder. `nox -s docs` builds it."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

from aiperf_core import __version__

project = "aiperf"
author = "aiperf contributors"
version = release = __version__

extensions = ["myst_parser"]
root_doc = "index"
# Links to headings as GitHub makes them, so that a page reads the same there.
myst_heading_anchors = 4
# Quotation marks are curly; two hyphens stay, as options of commands have them.
smartquotes_action = "qe"
highlight_language = "text"

html_theme = "furo"
html_title = f"aiperf {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False


HERE = Path(__file__).parent


def setup(app: Sphinx) -> None:
    """Write the pages of lessons, and replace `<!-- generated: NAME -->` by what the code says; see `chapters.py`."""
    # What is made from the code, and the list of what the code promises, which the tests keep.
    sys.path += [str(HERE), str(HERE.parent / "aiperf-core" / "tests")]
    import chapters
    from reference import GENERATED

    def read(app: Sphinx, page: str, source: list[str]) -> None:
        source[0] = chapters.page(source[0])
        for name, make in GENERATED.items():
            mark = f"<!-- generated: {name} -->"
            if mark in source[0]:
                source[0] = source[0].replace(mark, make())

    app.connect("builder-inited", lambda _: chapters.write_lessons())
    app.connect("source-read", read)
