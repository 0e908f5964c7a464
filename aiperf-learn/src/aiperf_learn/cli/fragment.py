"""The program of `pages.separate`: print the lesson of a target as HTML, or why there is none."""

import sys

from aiperf_core.errors import AiperfError
from aiperf_core.loading import load_benchmark
from aiperf_core.plugins import load_plugins
from aiperf_learn.pages.html import html_fragment
from aiperf_learn.pages.model import lesson_page


def main(name: str) -> int:
    """Print the lesson of an installed target; return the exit code."""
    (target,) = [target for target in load_plugins().targets if target.name == name]
    try:
        sys.stdout.write(html_fragment(lesson_page(target, load_benchmark(target))))
    except AiperfError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
