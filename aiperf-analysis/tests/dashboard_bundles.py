"""Folders of bundles for tests of the dashboard, made without measuring, always the same."""

from attrs import evolve
from history_bundles import run

from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.seal import sealed

BEFORE_S, AFTER_S = 0.65e-3, 0.98e-3  # of `coalesced`, before and after the injected regression
RUNS, REGRESSED_AT = 16, 10
HOSTILE = {
    "markup": "<script>window.pwned=1</script>",
    "attribute": '"><img src=x onerror=window.pwned=1>',
    "rtl": "\u202eexe.tnemhcatta",
    "up": "../../../../etc/passwd",
    "long": "x" * 10_000,
    "template": "{{ 7 * 7 }}{% raw %}",
}


def regression(folder):
    """A history in which the variant `coalesced` gets slower at run REGRESSED_AT and stays so."""
    for number in range(RUNS):
        time_s = BEFORE_S if number < REGRESSED_AT else AFTER_S
        run(folder, number, time_s * (1 + (number % 3 - 1) * 1e-3))


def whole(folder, number, **changes):
    """A sealed bundle with every kind of row, and these fields of the manifest."""
    bundle = Bundle.create_at(folder / f"whole-{number:04d}")
    bundle.write_target(example.result())
    hashes = {path: bundle.digest(path) for path in bundle.result_files}
    bundle.write_manifest(sealed(evolve(example.manifest(), **changes), hashes, bundle.path))
    return bundle


def hostile(folder):
    """Bundles whose labels are attacks on a page; their names come back from `HOSTILE`."""
    for number, (name, text) in enumerate(HOSTILE.items()):
        whole(folder, number, labels={name: text})


def damaged(folder):
    """A folder of broken bundles: cut, no JSON, no object, not UTF-8, deep, a folder for a file, a link that leaves."""
    contents = {
        "cut": b'{"format": ', "words": b"no JSON", "list": b"[]", "empty": b"", "nul": b"\0" * 64,
        "latin": b'{"format": "\xff\xfe"}', "deep": b"[" * 100_000, "number": b"1e999",
    }  # fmt: skip
    for name, content in contents.items():
        bundle = whole(folder, 9000 + len(name) + list(contents).index(name) * 100)
        (bundle.path / "manifest.json").write_bytes(content)
    for place, name in enumerate(("target", "rows")):
        bundle = whole(folder, 8000 + place)
        file = bundle.path / sorted(bundle.result_files)[0]
        file.write_bytes(b"<script>" if name == "target" else b'{"rows": 7}')
    (folder / "leaves").symlink_to("/etc")
    (folder / "is-a-folder" / "manifest.json").mkdir(parents=True)
