"""The JSON Schema of the payload of a document of kind `load`, generated from its records as the core does.

The file ships with the package, so that other tools can read a load without aiperf. After a change of the records run:

    python -m aiperf_load.schema
"""

import sys
from pathlib import Path
from typing import Any

from aiperf_core.results import jsontext
from aiperf_core.results.schema import Schemas
from aiperf_load.records import FORMAT, LoadResult

FILE = Path(__file__).with_name("schemas") / f"load-{FORMAT}.json"


def generate() -> dict[str, Any]:
    """Make the schema from the records."""
    return Schemas().document(LoadResult, f"urn:aiperf:schema:load:{FORMAT}")


def write_file(path: Path = FILE) -> Path:
    """Write the schema and return its file."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(jsontext.to_bytes(generate()))
    return path


if __name__ == "__main__":
    sys.stdout.write(f"{write_file()}\n")
