"""Folders of bundles for tests of the dashboard, made without measuring, always the same."""

import runpy
from pathlib import Path

from attrs import evolve

from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.seal import sealed

run = runpy.run_path(str(Path(__file__).with_name("history_bundles.py")))["run"]
# Of `coalesced`, before and after the injected regression; after it as in the example, whose bundles are newer.
BEFORE_S, AFTER_S = 0.43e-3, 0.6523e-3
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
    return of_targets(folder / f"whole-{number:04d}", [example.result().target], **changes)


def of_targets(folder, targets, **changes):
    """A sealed bundle with every kind of row of each of these targets."""
    bundle = Bundle.create_at(folder)
    for target in targets:
        bundle.write_target(evolve(example.result(), target=target))
    hashes = {path: bundle.digest(path) for path in bundle.result_files}
    bundle.write_manifest(sealed(evolve(example.manifest(), **changes), hashes, bundle.path))
    return bundle


def hostile(folder):
    """Bundles whose labels are attacks on a page, and one in which every name is; the attacks are those of `HOSTILE`."""
    for number, (name, text) in enumerate(HOSTILE.items()):
        whole(folder, number, labels={name: text})
    markup = HOSTILE["markup"]
    rows = [evolve(row, name=text, why=text) for row, text in zip(example.rows()[:6], HOSTILE.values(), strict=True)]
    manifest = example.manifest()
    bundle = Bundle.create_at(folder / "named")
    bundle.write_target(
        evolve(example.result(), target=markup, summary=markup, rows=rows, order=list(HOSTILE.values()))
    )
    page = evolve(
        manifest,
        created="2026-08-01T00:00:00+00:00",
        machine=evolve(manifest.machine, hostname=HOSTILE["long"], cpu=markup),
        command=[markup],
    )
    hashes = {path: bundle.digest(path) for path in bundle.result_files}
    bundle.write_manifest(sealed(page, hashes, bundle.path))
