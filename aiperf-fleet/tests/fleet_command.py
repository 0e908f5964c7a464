"""What tests of `aiperf fleet` share: the command in a folder of its own, and what is in the folder of a fleet."""

import json
from pathlib import Path

from aiperf_core.results.bundle import Bundle
from aiperf_core.results.seal_check import check

PAGE = 4096


def run(call, suite, *more, out="f"):
    Path("suite.toml").write_text(suite)
    return call("run", "suite.toml", "--on", "pretend", "--out", out, "--poll", "0.05", *more)


def resume(call):
    return call("resume", "f", "--poll", "0.05")


def suite_of(targets, more=""):
    return f'name = "n"\ntargets = {json.dumps(list(targets))}\nrest_s = 0.0\n{more}'


def bundles(out="f"):
    """The machines of the sealed bundles, by task."""
    found = {path.name: Bundle.open(path) for path in Path(out, "runs").iterdir()}
    assert all(check(bundle).sealed and check(bundle).holds for bundle in found.values())
    return {name: bundle.manifest.labels["machine"] for name, bundle in sorted(found.items())}


def state(out="f"):
    return json.loads(Path(out, "fleet.json").read_text())


def endings(out="f"):
    return [[one["ending"] for one in task["attempts"]] for task in state(out)["tasks"]]


def interrupt(*_):
    raise KeyboardInterrupt


class Filled:
    """A file that takes all of a disk but some pages, until it is removed."""

    def __init__(self, disk, pages):
        self.path = disk / "filler"
        with open(self.path, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(PAGE))
            except OSError:
                file.truncate(file.tell() - pages * PAGE)

    def remove(self):
        self.path.unlink()
