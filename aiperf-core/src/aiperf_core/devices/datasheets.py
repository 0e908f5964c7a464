"""What makers promise of their devices, from `datasheets.toml`."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

FILE = Path(__file__).with_name("datasheets.toml")
MEMORY = ("copy_bytes_per_s", "read_bytes_per_s", "write_bytes_per_s")


def datasheet(device: str, keys: Iterable[str]) -> tuple[str | None, dict[str, float]]:
    """The name of the sheet of a device, and what it promises for those of the figures that it mentions."""
    for entry in tomllib.loads(FILE.read_text())["gpu"]:
        if re.fullmatch(entry["name"], device):
            promised = {key: value for key in keys if (value := _promised(entry, key)) is not None}
            return entry["sheet"], promised
    return None, {}


def _promised(entry: dict[str, object], key: str) -> float | None:
    name, _, part = key.partition(".")
    if name in MEMORY:
        name = "memory_bytes_per_s"
    elif name == "transfer_bytes_per_s":
        name = "host_link_bytes_per_s"
    elif name == "peer_bytes_per_s":
        name = "peer_link_bytes_per_s"
    found = entry.get(name)
    if isinstance(found, dict):
        found = found.get(part)
    return float(found) if isinstance(found, int | float) else None
