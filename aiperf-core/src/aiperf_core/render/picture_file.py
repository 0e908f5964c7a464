"""Writes a picture as a file: SVG, or through matplotlib PNG and PDF. The same picture makes the same bytes."""

import importlib
from pathlib import Path
from typing import Any

from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.render import svg

FORMATS = (".svg", ".png", ".pdf")
# Without the time of writing, so that the same picture makes the same bytes.
_METADATA: Any = {".png": {"Software": "aiperf"}, ".pdf": {"Creator": "aiperf", "CreationDate": None}}
_DPI = 180  # of a PNG; a pixel of the picture is a point, 1/72 inch
_ALIGNED: Any = {"start": "left", "middle": "center", "end": "right"}


def check(path: Path, option: str = "--out") -> None:
    """Raise where a picture cannot be written to `path`: the format is unknown, or it needs matplotlib.

    option: the option that names the file.
    """
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise UsageError(f"'{path}' is not .svg, .png or .pdf; give {option} a name that ends in one of them.")
    if kind != ".svg":
        try:
            importlib.import_module("matplotlib")
        except ImportError:
            raise AiperfError(
                f"{kind} needs the package 'matplotlib': pip install 'aiperf-core[plots]'. Without it, write .svg."
            ) from None


def write(picture: svg.Picture, path: Path, option: str = "--out") -> None:
    """Write the picture. Raises `AiperfError` where the file cannot be written."""
    check(path, option)
    try:
        if path.suffix.lower() == ".svg":
            path.write_text(svg.document(picture), encoding="utf-8")
        else:
            _save(picture, path)
    except OSError as error:
        raise AiperfError(f"cannot write '{path}': {error.strerror or error}. Choose another {option}.") from error


def _save(picture: svg.Picture, path: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    kind = path.suffix.lower()
    # A name may hold two dollars, which matplotlib would read as mathematics.
    with matplotlib.rc_context({"text.parse_math": False, "font.family": "DejaVu Sans"}):
        figure: Any = Figure(figsize=(picture.width / 72, picture.height / 72))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, picture.width), ylim=(picture.height, 0))
        axes.axis("off")
        for order, shape in enumerate(picture.shapes):
            axes.add_artist(_artist(shape)).set_zorder(order)
        figure.savefig(path, format=kind[1:], dpi=_DPI, metadata=_METADATA[kind])


def _artist(shape: svg.Shape) -> Any:
    """The shape in matplotlib, looking as the style sheet says."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Circle, Polygon
    from matplotlib.text import Text

    css = svg.properties(shape)
    if isinstance(shape, svg.Text):
        return Text(
            shape.x,
            shape.y,
            shape.content,
            color=css["fill"],
            fontsize=float(css["font-size"].removesuffix("px")),
            fontweight=int(css.get("font-weight", 400)),
            horizontalalignment=_ALIGNED[shape.anchor],
            rotation=shape.turned,
            rotation_mode="anchor",
        )
    dashes = tuple(map(float, css.get("stroke-dasharray", "").split()))
    looks: Any = {
        "edgecolor": css["stroke"],
        "facecolor": "none" if css["fill"] == "none" else to_rgba(css["fill"], float(css.get("fill-opacity", 1))),
        "linewidth": float(css.get("stroke-width", 1)),
        "linestyle": (0, dashes or None),
        "capstyle": css.get("stroke-linecap", "butt"),
        "alpha": float(css["opacity"]) if "opacity" in css else None,
    }
    if isinstance(shape, svg.Dot):
        return Circle((shape.x, shape.y), shape.radius, **looks)
    return Polygon(shape.points, closed=shape.closed, **looks)
