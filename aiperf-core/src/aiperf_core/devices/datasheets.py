"""Peak figures of devices from their data sheets, in `datasheets.toml`."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

FILE = Path(__file__).with_name("datasheets.toml")
# Names in the data sheets for several figures.
_NAMES = {
    **dict.fromkeys(("copy_bytes_per_s", "read_bytes_per_s", "write_bytes_per_s"), "memory_bytes_per_s"),
    "transfer_bytes_per_s": "host_link_bytes_per_s",
    "peer_bytes_per_s": "peer_link_bytes_per_s",
}


def datasheet(device: str, keys: Iterable[str]) -> tuple[str | None, dict[str, float]]:
    """The name of a device's data sheet and its values for `keys`; None and no values without a sheet."""
    for entry in tomllib.loads(FILE.read_text())["gpu"]:
        if re.fullmatch(entry["name"], device):
            promised = {key: value for key in keys if (value := _promised(entry, key)) is not None}
            return entry["sheet"], promised
    return None, {}


def _promised(entry: dict[str, object], key: str) -> float | None:
    name, _, part = key.partition(".")
    found = entry.get(_NAMES.get(name, name))
    if isinstance(found, dict):
        found = found.get(part)
    return float(found) if isinstance(found, int | float) else None
