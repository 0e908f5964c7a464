"""Characters and colours of results, in a terminal and outside of it."""

from attrs import frozen
from rich.box import Box
from rich.text import Text

from aiperf_core.results.models import Verdict

# The width of a terminal that is used. Wider lines are hard to read.
NARROWEST = 40
WIDEST = 120
LABEL = max(len(verdict.value) for verdict in Verdict)  # width of the labels of notes

RULED = "    \n    \n {0}{0} \n    \n {0}{0} \n    \n    \n    \n"
VERDICT_STYLES = {
    Verdict.FASTER: "bold green",
    Verdict.SLOWER: "bold yellow",
    Verdict.SMALLER: "bold green",
    Verdict.LARGER: "bold yellow",
    Verdict.SAME: "bold",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.MEASURED: "",
    Verdict.INVALID: "bold red",
    Verdict.UNTRUSTED: "bold red",
    Verdict.FAILED: "bold red",
    Verdict.SKIPPED: "dim",
}


@frozen
class Look:
    """The characters of an output. `plain`, for pipes and NO_COLOR, is ASCII except for the texts of authors."""

    plain: bool

    @property
    def box(self) -> Box:
        """The lines of a rich table: only a rule under the header."""
        return Box(RULED.format(self.rule), ascii=self.plain)

    @property
    def rule(self) -> str:
        """The character of a horizontal line."""
        return "-" if self.plain else "─"

    @property
    def dot(self) -> str:
        """The separator of the parts of a line."""
        return "-" if self.plain else "·"

    @property
    def arrow(self) -> str:
        """The sign between a value and the one after it."""
        return "->" if self.plain else "→"

    @property
    def bar(self) -> str:
        """The mark of a line that code under test printed."""
        return "|" if self.plain else "│"

    def text(self, content: str, style: str = "") -> Text:
        """A text with its units in the characters of this look."""
        return Text(content.replace("µ", "u") if self.plain else content, style)

    def verdict(self, verdict: Verdict) -> Text:
        """A verdict in its colour."""
        return Text(verdict.value, VERDICT_STYLES[verdict])
