"""Kinds of machines: rows of one kind may be compared."""

import functools
import re
from collections.abc import Mapping

from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.results.models import Machine
from aiperf_core.targets import WORLD_SIZE

KEY = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
LONGEST_KEY = 100


def hardware_key(machine: Machine, device: str, params: Mapping[str, float]) -> str:
    """The kind of machine: the GPUs that a target uses and their number, or the processor and its usable CPUs.

    A target of several ranks uses as many GPUs, any other target one, whatever else is in the machine.
    """
    if device == "cuda" and machine.gpus:
        used = max(1, int(params.get(WORLD_SIZE, 1)))
        names = sorted({str(gpu.get("name") or "gpu") for gpu in machine.gpus[:used]})
        return _key(f"{' '.join(names)} x{used}")
    return _key(f"{machine.cpu} x{machine.cores}")


def is_gpu(key: str) -> bool:
    """Whether a kind of machine is one of GPUs: NVIDIA's driver names each of its GPUs `NVIDIA ...`."""
    return key.startswith("nvidia-")


@functools.lru_cache(maxsize=1024)
def _key(name: str) -> str:
    return checked_key(re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_KEY].strip("-"))


def checked_key(key: str) -> str:
    """A key that can be a file's name. Raises UsageError."""
    if not KEY.fullmatch(key) or len(key) > LONGEST_KEY:
        raise UsageError(
            f"'{words(key)}' cannot name a kind of hardware: lower-case letters and digits in words joined by hyphens "
            "can, such as 'nvidia-h200-x1'."
        )
    return key
