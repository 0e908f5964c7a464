"""The JSON Schemas of a `Result` and of a suite of `aiperf ci`, generated from their records by the core's generator.

Types give the structure, docstrings the descriptions. The files ship with the package, so that other tools can read
what `aiperf analyze --json` prints, and check a suite. After a change of the records run:

    python -m aiperf_analysis.schema
"""

import sys
from pathlib import Path
from typing import Any

from aiperf_analysis.ci.suite import FORMAT
from aiperf_core.report import result
from aiperf_core.results import jsontext
from aiperf_core.results.schema import Schemas

FILE = Path(__file__).with_name("schemas") / f"result-{result.SCHEMA_VERSION}.json"
SUITE = FILE.with_name("ci-suite-1.json")

# Rules that a type cannot express.
CONSTRAINTS: dict[tuple[type, str], dict[str, Any]] = {
    (result.Result, "schema_version"): {"const": result.SCHEMA_VERSION},
    (result.Result, "analysis"): {"minLength": 1},
    (result.Result, "title"): {"minLength": 1},
    (result.Result, "summary"): {"minItems": 1},
    (result.Table, "columns"): {"minItems": 1},
    (result.Figure, "unit"): {"minLength": 1},
    (result.LeftOut, "reason"): {"minLength": 1},
    (result.Drawing, "message"): {"minLength": 1},
    (result.Span, "length"): {"minimum": 0},
}
# A figure without a value has a reason and no interval.
RULES: dict[type, dict[str, Any]] = {
    result.Figure: {
        "if": {"properties": {"value": {"type": "null"}}},
        "then": {
            "properties": {
                "reason": {"type": "string", "minLength": 1},
                "low": {"type": "null"},
                "high": {"type": "null"},
            }
        },
    },
}


def generate() -> dict[str, Any]:
    """Make the schema from the records."""
    identifier = f"urn:aiperf:schema:analysis-result:{result.SCHEMA_VERSION}"
    return Schemas(CONSTRAINTS, RULES).document(result.Result, identifier)


def write_files() -> list[Path]:
    """Write the schemas and return their files."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(jsontext.to_bytes(generate()))
    SUITE.write_bytes(jsontext.to_bytes(FORMAT.json_schema()))
    return [FILE, SUITE]


if __name__ == "__main__":
    for path in write_files():
        sys.stdout.write(f"{path}\n")
