"""The JSON Schemas of a fleet file, of its bundle's document and of a suite, generated from their records.

The files ship with the package, so that other tools can read a fleet file, and check a suite. After a change of the
records run:

    python -m aiperf_fleet.schema
"""

import sys
from pathlib import Path
from typing import Any

from aiperf_core.results import jsontext
from aiperf_core.results.schema import Schemas
from aiperf_fleet import records, suite

FOLDER = Path(__file__).with_name("schemas")


def generate() -> dict[str, dict[str, Any]]:
    """The schemas by the names of their files. The suite in a fleet file has all fields, those with a default too."""
    fleet = Schemas().document(records.FleetFile, f"urn:aiperf:schema:fleet-file:{records.FORMAT}")
    result = Schemas().document(records.FleetResult, f"urn:aiperf:schema:fleet:{records.FORMAT}")
    return {
        f"fleet-{records.FORMAT}.json": result,
        f"fleet-file-{records.FORMAT}.json": fleet,
        "fleet-suite-1.json": suite.FORMAT.json_schema(),
    }


def write_files() -> list[Path]:
    """Write the schemas and return their files."""
    FOLDER.mkdir(exist_ok=True)
    written = []
    for name, document in generate().items():
        (FOLDER / name).write_bytes(jsontext.to_bytes(document))
        written.append(FOLDER / name)
    return written


if __name__ == "__main__":
    for path in write_files():
        sys.stdout.write(f"{path}\n")
