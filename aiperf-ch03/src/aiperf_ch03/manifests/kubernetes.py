"""Rules of Kubernetes manifests: of every pod that a file describes, in whatever kind of object."""

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from attrs import frozen

from aiperf_ch03.manifests.dockerfile import is_pinned
from aiperf_ch03.manifests.rules import Mark
from aiperf_ch03.manifests.shell import interleaves
from aiperf_core.errors import AiperfError, UsageError

_GPU = re.compile(r"nvidia\.com/(gpu|mig-\S+)")
_OF_KUBELET = (
    "topologyManager",
    "topologyManagerPolicy",
    "topologyManagerScope",
    "cpuManagerPolicy",
    "memoryManagerPolicy",
)
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_SUFFIXES = {"m": Decimal("0.001"), "": Decimal(1)} | {
    f"{letter}{binary}": Decimal(base) ** power
    for power, letter in enumerate(("k", "M", "G", "T", "P"), 1)
    for binary, base in (("", 1000), ("i", 1024))
}
_SUFFIXES["Ki"] = _SUFFIXES.pop("ki")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z]*)")


@frozen
class Place:
    """A value of a file: a dict of places by key, a list of places, or a text; with the line where it begins."""

    value: Any
    line: int

    def at(self, *keys: str) -> "Place":
        """The place under these keys; an empty one, at the line of the last that is there, where one is missing."""
        place = self
        for key in keys:
            inner = place.value.get(key) if isinstance(place.value, dict) else None
            if inner is None:
                return Place(None, place.line)
            place = inner
        return place

    @property
    def items(self) -> list["Place"]:
        """The places of a list; none where this is no list."""
        return self.value if isinstance(self.value, list) else []

    @property
    def fields(self) -> dict[str, "Place"]:
        """The places of a mapping; none where this is no mapping."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def text(self) -> str:
        """The text; empty where this is none."""
        return self.value if isinstance(self.value, str) else ""


def documents(text: str, name: str) -> list[Place]:
    """The documents of a YAML file.

    Raises `AiperfError` without PyYAML, and `UsageError` for text that is not YAML, nested too deeply, or no manifest.
    """
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise AiperfError(
            f"'{name}' is YAML, which the package 'pyyaml' reads. Install it: pip install 'aiperf-ch03[lint]'"
        ) from None
    try:
        places = [_place(node, {}) for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if node is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "a character that YAML does not allow"
        raise UsageError(f"'{name}' is not YAML{where}: {problem}. Correct it there.") from None
    except RecursionError:
        raise UsageError(f"'{name}' is nested too deeply for a manifest. Give a file that kubectl accepts.") from None
    if not any(place.at("apiVersion").text and place.at("kind").text for place in places):
        raise UsageError(
            f"'{name}' is YAML without apiVersion and kind; accepted are Kubernetes manifests, such as of a Pod"
        )
    return places


def _place(node: Any, made: dict[int, Place]) -> Place:
    """A place for a node. Nodes under an alias are one node, and become one place."""
    if id(node) not in made:
        line = node.start_mark.line + 1
        value: Any = node.value
        made[id(node)] = Place(None, line)  # of an alias to a node around it
        if node.id == "mapping":
            own = {key.value: _place(inner, made) for key, inner in node.value if isinstance(key.value, str)}
            merged = own.pop("<<", Place(None, line))
            value = {
                name: place for source in [*merged.items[::-1], merged] for name, place in source.fields.items()
            } | own
        elif node.id == "sequence":
            value = [_place(inner, made) for inner in node.value]
        made[id(node)] = Place(value, line)
    return made[id(node)]


def lint(text: str, name: str) -> Iterator[Mark]:
    """The places of a manifest that break a rule. Raises as `documents` does."""
    for pod in _pods(documents(text, name)):
        yield from _pod(pod)


def _pods(places: list[Place]) -> Iterator[Place]:
    """All mappings with containers, each once."""
    waiting, known = list(places), set()
    while waiting:
        place = waiting.pop(0)
        if id(place) in known:
            continue
        known.add(id(place))
        if place.at("containers").items:
            yield place
        waiting += [*place.fields.values(), *place.items]


def _pod(pod: Place) -> Iterator[Mark]:
    for key in _OF_KUBELET:
        if key in pod.fields:
            yield Mark("kubernetes.kubelet_field", pod.at(key).line, f"{key} in the spec of a pod")
    in_memory = {}
    for volume in pod.at("volumes").items:
        directory = volume.at("emptyDir")
        if directory.at("medium").text == "Memory":
            in_memory[volume.at("name").text] = volume
            if not directory.at("sizeLimit").text:
                yield Mark("kubernetes.shm_size", volume.line, f"the volume {volume.at('name').text!r}")
    for container in [*pod.at("initContainers").items, *pod.at("containers").items]:
        yield from _container(container)
        shared = {
            mount.at("name").text
            for mount in container.at("volumeMounts").items
            if mount.at("mountPath").text.rstrip("/") == "/dev/shm"
        }
        if _gpus(container) and not shared & in_memory.keys() and pod.at("hostIPC").text != "true":
            yield Mark("kubernetes.shm", container.line, f"the container {_name(container)}")


def _container(container: Place) -> Iterator[Mark]:
    image = container.at("image")
    if image.text and not is_pinned(image.text):
        yield Mark("kubernetes.image_tag", image.line, f"image: {image.text}")
    command = " ".join(word.text for key in ("command", "args") for word in container.at(key).items)
    if interleaves(command):
        yield Mark("kubernetes.interleave", container.line, f"the command of {_name(container)}")
    limits, requests = container.at("resources", "limits"), container.at("resources", "requests")
    cpus = quantity(limits.at("cpu").text)
    for variable in container.at("env").items:
        name, value = variable.at("name").text, variable.at("value").text
        if name in _THREADS and value.isdigit() and cpus and int(value) > cpus:
            yield Mark("kubernetes.threads", variable.line, f"{name}={value} with a limit of {cpus:f} CPUs")
        if name == "NVIDIA_VISIBLE_DEVICES" and value == "all":
            yield Mark("kubernetes.all_gpus", variable.line, "NVIDIA_VISIBLE_DEVICES=all")
    security = container.at("securityContext")
    added = [capability.text for capability in security.at("capabilities", "add").items]
    privileged = security.at("privileged").text == "true"
    if any(name.startswith("rdma/") for name in limits.fields) and "IPC_LOCK" not in added and not privileged:
        yield Mark("kubernetes.memlock", container.line, f"{_name(container)} with a device of RDMA")
    gpus = _gpus(container)
    if not gpus:
        return
    if privileged:
        yield Mark("kubernetes.all_gpus", security.line, f"{_name(container)} is privileged")
    for name in gpus:
        limit, request = limits.at(name), requests.at(name)
        if not limit.text.isdigit() or (request.text and request.text != limit.text):
            line = request.line if request.text else limit.line
            said = f"{name}: limit {limit.text or 'none'}, request {request.text or 'none'}"
            yield Mark("kubernetes.gpu_limit", line, said)
    for name in ("cpu", "memory"):
        limit, request = limits.at(name), requests.at(name)
        if not limit.text or (request.text and quantity(request.text) != quantity(limit.text)):
            said = f"{name} of {_name(container)}: limit {limit.text or 'none'}, request {request.text or 'none'}"
            yield Mark("kubernetes.qos", request.line if request.text else limit.line, said)
    if cpus and cpus != math.floor(cpus):
        yield Mark("kubernetes.whole_cpus", limits.at("cpu").line, f"cpu: {limits.at('cpu').text}")


def _gpus(container: Place) -> list[str]:
    """The names of its resources that are GPUs, or parts of some."""
    resources = container.at("resources")
    names = [*resources.at("limits").fields, *resources.at("requests").fields]
    return [name for name in dict.fromkeys(names) if _GPU.fullmatch(name)]


def _name(container: Place) -> str:
    return container.at("name").text or "without a name"


def quantity(text: str) -> Decimal | None:
    """The number of a quantity, such as `3500m` or `16Gi`; None for text of another form."""
    match = _QUANTITY.fullmatch(text)
    return Decimal(match[1]) * _SUFFIXES[match[2]] if match and match[2] in _SUFFIXES else None
