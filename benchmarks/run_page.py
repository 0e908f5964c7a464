"""Renew a page of the docs that shows a run: its own words stay, what `aiperf show` prints of a bundle follows.

    python benchmarks/run_page.py docs/h200-ch07.md BUNDLE [TARGET...]

TARGET is a name, or the beginning of some, such as `ch07`; without any, all targets of the bundle are shown, in the
order in which they ran. The words are what comes before the page's first block.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from aiperf_core.errors import AiperfError
from aiperf_core.results import atomic
from aiperf_core.results.bundle import Bundle

WIDTH = "80"
FENCE = "```"


def main() -> int:
    """Write the page; 1 where the bundle has no such target, or cannot be shown."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("targets", nargs="*", metavar="TARGET", default=[""])
    asked = parser.parse_args()
    try:
        text = renewed(asked.page.read_text(), asked.bundle, tuple(asked.targets))
    except AiperfError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    atomic.write(asked.page, text.encode())
    return 0


def renewed(page: str, path: Path, beginnings: tuple[str, ...]) -> str:
    """The page's words, and behind them the run and its targets. Raises `AiperfError`."""
    bundle = Bundle.open(path)
    ran = sorted(bundle.targets.values(), key=lambda one: one.started)
    names = [one.target for one in ran if one.complete and one.target.startswith(beginnings)]
    if not names:
        raise AiperfError(f"'{path}' has no complete target that begins with {' or '.join(beginnings)}.")
    words = page.partition(FENCE)[0].rstrip()
    shown = {name: shown_alone(path, name) for name in names}
    parts = [words, block(shown[names[0]][0])]
    parts += [f"## `{name}`\n\n{block(table)}" for name, (_, table) in shown.items()]
    return "\n\n".join(parts) + "\n"


def shown_alone(path: Path, target: str) -> tuple[str, str]:
    """What `aiperf show` prints of a run, and of one of its targets. Raises `AiperfError`."""
    command = [sys.executable, "-m", "aiperf_core", "show", f"{path.name}:{target}"]
    environment = {**os.environ, "COLUMNS": WIDTH}
    done = subprocess.run(command, capture_output=True, text=True, cwd=path.parent, env=environment, check=False)
    run, _, table = done.stdout.partition("\n\n")
    if done.returncode or not table:
        raise AiperfError(done.stderr.strip() or f"'{target}' of '{path}' could not be shown.")
    return run, table.strip("\n")


def block(text: str) -> str:
    """Text as a block of a page."""
    return f"{FENCE}text\n{text}\n{FENCE}"


if __name__ == "__main__":
    sys.exit(main())
