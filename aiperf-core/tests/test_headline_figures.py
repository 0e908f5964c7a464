"""The page that holds known figures against measured ones is made of results alone, and says what is missing."""

import json
import subprocess
import sys
from pathlib import Path

import attrs
import measured

from aiperf_core.results.bundle import Bundle

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "headline_figures.py"
CEILINGS = {
    "device": "a GPU",
    "measured": "2026-11-22T04:01:00+00:00",
    "copy_bytes_per_s": 3e12,
    "datasheet": {"copy_bytes_per_s": 4e12},
    "transfer_bytes_per_s": {"pinned_to_device": 5e10, "pageable_to_device": 1e10, "pinned_from_device": 4e10},
    "all_reduce_bytes_per_s": {"2": 3.28e11},
}


def test_a_page_is_made_of_results_and_ceilings(tmp_path: Path) -> None:
    bundle: Bundle = measured.bundle(tmp_path / "run")
    bundle.write_target(attrs.evolve(measured.result(), target="ch12.cuda_graphs"))
    (tmp_path / "ceilings.json").write_text(json.dumps({"kept": True, "ceilings": CEILINGS}))
    command = [sys.executable, str(SCRIPT), "--ceilings", str(tmp_path / "ceilings.json"), str(bundle.path)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 1
    missing = [line for line in made.stderr.splitlines() if line.startswith("no result has: ")]
    assert len(missing) == 3, made.stderr
    page = made.stdout.splitlines()
    assert "- to device: pinned 50.0 GB/s, pageable 10.0 GB/s: 5.0x" in page
    assert "- copy 3.00 TB/s, 75% of the data sheet's 4.00 TB/s" in page
    assert "- 2 GPUs: 328 GB/s" in page
    assert page.count("- not measured") == 3
    assert any(line.startswith("- `coalesced` (FASTER) ") and "x [" in line for line in page)
