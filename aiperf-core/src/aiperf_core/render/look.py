"""How results look: characters and colours, in a terminal and out of it.

Code under test may print anything, and its words reach the terminal through logs and messages. `words` takes the
control characters out, so that no benchmark can move the cursor, recolour a verdict or overwrite a line.
"""

from attrs import frozen
from rich.box import Box
from rich.text import Text

from aiperf_core.results.models import Verdict

NARROWEST = 80
WIDEST = 100

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
    """`plain` is for pipes and NO_COLOR: nothing that is not ASCII, save what a benchmark's author wrote."""

    plain: bool

    @property
    def box(self) -> Box:
        """For tables of rich's: a rule under the header and no other lines."""
        return Box(RULED.format(self.rule), ascii=self.plain)

    @property
    def rule(self) -> str:
        """Makes a line across."""
        return "-" if self.plain else "─"

    @property
    def dot(self) -> str:
        """Stands between the parts of a line."""
        return "-" if self.plain else "·"

    @property
    def bar(self) -> str:
        """Stands before a line that somebody else's code printed."""
        return "|" if self.plain else "│"

    def text(self, content: str, style: str = "") -> Text:
        """Our own words, with units spelt as this look can."""
        return Text(content.replace("µ", "u") if self.plain else content, style)

    def verdict(self, verdict: Verdict) -> Text:
        """A verdict in its colour. The word alone says everything: colour only helps to find it."""
        return Text(verdict.value, VERDICT_STYLES[verdict])
