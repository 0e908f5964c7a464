"""The version of aiperf, and where its sources lie."""

from pathlib import Path

__version__ = "0.1.0"

SOURCES = Path(__file__).parent
