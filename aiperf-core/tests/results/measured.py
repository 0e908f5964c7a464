"""A bundle whose figures follow from its samples, for tests of what reads bundles."""

import hashlib
import json

import attrs
import numpy as np

from aiperf_core.measurements import Samples
from aiperf_core.results import columns, example, records, structure
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Judgement, Row, Verdict
from aiperf_core.stats.judge import judge
from aiperf_core.stats.standing import rules_of

PASSES, BLOCK = 8, 3
FACTORS = {"strided": 1.0, "coalesced": 0.5, "wide": 1.02, "memcpy": 0.4}


def samples(index, rows, factor, seed):
    count = PASSES * BLOCK
    times = 4e-3 * factor * np.random.default_rng([seed, index]).normal(1, 0.002, count)
    return Samples(
        round=[k // (count // 2) for k in range(count)],
        block=[(k // BLOCK) * rows + index for k in range(count)],
        step=list(range(count)),
        device_s=[float(one) for one in times],
        wall_s=[None] * count,
        cpu_s=[None] * count,
        bracket_s=[float(one) + 1e-5 for one in times],
        hidden=[True] * count,
        judged=[k % BLOCK == 0 for k in range(count)],
        calls=[1] * count,
        voluntary_switches=[0] * count,
        involuntary_switches=[0] * count,
        throttled=[False] * count,
        answered_s=[None] * count,
        **example.of_trusted_code(count),
    )


def manifest():
    packages = {**example.manifest().packages, "numpy": np.__version__}
    return attrs.evolve(example.manifest(), packages=packages, git="0123456789abcdef" * 2 + "01234567", exit_code=3)


def result(seed=0, factors=FACTORS):
    """A baseline, a faster and an undecided variant, a yardstick, and one that is INVALID."""
    kinds = {"strided": "baseline", "memcpy": "yardstick"}
    rows = [
        Row(
            name,
            kinds.get(name, "variant"),
            "cuda",
            Verdict.MEASURED,
            samples=samples(index, len(factors) + 1, factor, seed),
        )
        for index, (name, factor) in enumerate(factors.items())
    ]
    rows.append(next(row for row in example.rows() if row.verdict is Verdict.INVALID))
    found = attrs.evolve(example.result(), rows=rows, clock_overhead_s=1e-7, rounds=2)
    return counted(attrs.evolve(found, rows=scored(found)))


def counted(found):
    """The result with the counts and the verification that its samples have in a run."""
    rows = [
        attrs.evolve(
            row, judgement=Judgement(1 + sum(row.samples.judged), found.problem.tolerance, 0.5), warmup_s=[4e-3]
        )
        if row.verdict is not Verdict.INVALID
        else row
        for row in found.rows
    ]
    taken = sum(len(row.samples.block) for row in rows)
    order = [row.name for row in rows for _ in set(row.samples.block)]
    return attrs.evolve(found, rows=rows, order=order, overhead=attrs.evolve(found.overhead, samples=taken))


def scored(found):
    return judge(found.rows, rules_of(found, manifest().ceilings["cuda"]))


def bundle(path, seed=0, factors=FACTORS, **changes):
    made = Bundle.create_at(path)
    made.write_target(result(seed, factors))
    made.write_manifest(attrs.evolve(manifest(), **changes))
    return made


def tamper(bundle, edit, target="ch07.memory_access"):
    """Edit a target as a document with its samples in it, and write both files as if nothing had happened."""
    file = bundle.target_path(target)
    document = json.loads(file.read_text())
    for one, row in zip(document["rows"], bundle.target(target).rows, strict=True):
        one["samples"] = attrs.asdict(row.samples)
    edit(document)
    stored = columns.encode([Samples(**row["samples"]) for row in document["rows"]])
    for row in document["rows"]:
        row["samples"] = len(row["samples"]["block"])
    (file.parent / document["sample_file"]["name"]).unlink()
    digest = hashlib.sha256(stored.data).hexdigest()
    name = records.samples_name(document["target"], digest)
    document["sample_file"] = {"name": name, "sha256": digest, "columns": structure.document(stored.columns)}
    (file.parent / name).write_bytes(stored.data)
    file.write_text(json.dumps(document))
    return file
