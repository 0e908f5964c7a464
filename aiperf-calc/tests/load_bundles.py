"""Bundles of loads on servers, as `aiperf load` writes them, with made-up figures."""

import json

from attrs import evolve

from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Document

PERCENTILES = {"p50": 1.0, "p90": 2.0, "p95": 3.0, "p99": 4.0, "p99.9": None}
LATENCIES = {"ttft_s": 0.01, "itl_s": 0.002, "tpot_s": 0.0025, "e2e_s": 0.05}


def figure(value, spread=0.02):
    """A figure with its interval, or the reason why it has none."""
    if value is None:
        return {"value": None, "low": None, "high": None, "reason": "needs 10,000 requests, 1,000 were counted"}
    return {"value": value, "low": value * (1 - spread), "high": value * (1 + spread), "reason": None}


def point(rate, good, *, name="p000", trusted=True, complete=True, residence_s=0.1, failed=3):
    """A point at a rate, with this goodput a second."""
    counted = 900
    return {
        "name": name,
        "spec": {
            "server": {"url": "http://127.0.0.1:8000", "endpoint": "completions", "model": "default"},
            "workload": {
                "input_low": 16, "input_high": 32, "output_low": 8, "output_high": 8, "prompt": "ids",
                "vocabulary": 1000, "shared_prefix": 0, "exact_output": True, "tokenizer": None,
            },
            "arrivals": {"kind": "poisson", "rate_per_s": rate, "burstiness": None, "clients": None, "trace": None},
            "limits": {"ttft_s": 0.2, "tpot_s": None, "e2e_s": 0.5, "gap_s": None},
            "rules": {"duration_s": 60.0, "warmup_s": 6.0, "timeout_s": 60.0, "cap": None, "processes": 1, "seed": 1},
        },
        "started": "2026-11-22T10:00:00+00:00",
        "complete": complete,
        "requests": 1000,
        "outcomes": {"OK": 1000 - failed, "CUT": failed},
        "counted": counted,
        "counted_outcomes": {"OK": counted - failed, "CUT": failed},
        "trusted": trusted,
        "reasons": [] if trusted else ["UNTRUSTED: the generator was late"],
        "state": "STEADY",
        "offered_per_s": float(rate),
        "lateness_p99_s": 0.0004,
        "lateness_limit_s": 0.001,
        "queued_p99_s": None,
        "latencies": {
            name: {share: figure(by and by * each) for share, by in PERCENTILES.items()}
            for name, each in LATENCIES.items()
        },
        "goodput_per_s": {"value": good, "low": good * 0.98, "high": good * 1.01, "reason": None},
        "goodput_share": figure(good / rate),
        "good_tokens_per_s": good * 8.0,
        "input_tokens_per_s": rate * 24.0,
        "output_tokens_per_s": rate * 8.0,
        "user_tokens_per_s": figure(400.0),
        "in_flight": rate * residence_s,
        "residence_s": residence_s,
        "flags": {"SPLIT": 0, "UNEVEN": 0, "NO_USAGE": 0},
        "slices": [],
    }  # fmt: skip


def payload(*points, capacity=None, **more):
    """The content of a load with these points, named by their places."""
    knee = {"capacity_per_s": figure(capacity), "met": 0.99, "rate_per_s": figure(None)}
    return {
        "mode": "sweep",
        "points": [{**one, "name": f"p{place:03d}"} for place, one in enumerate(points)],
        "origin": "aiperf-load",
        "complete": True,
        "samples_sha256": None,
        "knee": knee if capacity else None,
        "notes": [],
        "format": 1,
        **more,
    }


def written(path, created="2026-11-22T10:00:00+00:00", /, **loads):
    """Write a bundle with loads by their names, from their contents; its folder."""
    bundle = Bundle.create_at(path)
    for name, content in loads.items():
        bundle.write_document(Document("load", name, created, json.loads(json.dumps(content))))
    bundle.write_manifest(evolve(example.manifest(), created=created, complete=True, exit_code=0, skipped=[]))
    return bundle.path


def stored(path):
    """The bundle that the stored databases of version 2 have, without its load."""
    return written(path, chat=payload(point(20, 20), point(40, 30), point(80, 20, trusted=False), capacity=20.0))
