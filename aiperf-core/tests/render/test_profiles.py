import io

import pytest
from attrs import evolve

from aiperf_core.cli.profile import print_profiles
from aiperf_core.cli.screen import Screen
from aiperf_core.profiler import Hot, Observed
from aiperf_core.profiling.models import Artifact, NotProfiled, Profile

BASE = Profile(
    target="a.b", implementation="eager", role="baseline", why="", device="cuda", size="cuda", params={"n": 4096},
    cache="cold", cost_bytes=1e6, tool="torch", metrics=[], calls=10, in_a_row=1, taken_s=[], aiperf="0.1",
    created="2026-11-21T22:00:00+00:00",
    observed=Observed(
        version="1",
        figures={"span_s": 1e-3, "launches": 61, "idle_share": 0.78, "copied_bytes": 0.0},
        hot=[
            Hot(name="void mul<float>(float*)", kind="kernel", count=60, seconds=2e-4, share=0.9, by="aten::mul"),
            Hot(name="Memcpy", kind="copy", count=1, seconds=2e-5, share=0.1, bytes=4096),
        ],
        missing={"occupancy": "it reads no counters", "stalls": "it reads no counters"},
    ),
    artifacts=[Artifact(name="trace.json.gz", bytes=2048, sha256="0" * 64)],
)  # fmt: skip
FUSED = evolve(
    BASE,
    implementation="fused",
    role="variant",
    why="one pass",
    observed=Observed(
        version="1",
        figures={"span_s": 1e-4, "launches": 1, "idle_share": 0.0, "sectors_per_load": 4, "stall.long_scoreboard": 8},
        hot=[Hot(name="k" * 200, kind="kernel", count=1, seconds=1e-4, share=1.0)],
        words={"occupancy_limiter": "registers"},
        notes=["A note."],
    ),
    artifacts=[],
)


def shown(*found: Profile | NotProfiled, width: int = 80) -> str:
    stream = io.StringIO()
    print_profiles(Screen(stream, width=width), found)
    return stream.getvalue()


PAGE = """\
a.b:eager - torch - cuda - n=4,096 - 10 calls
baseline

of a call                  eager
--------------------------------
GPU, first to last work  1.00 ms
launches                      61
GPU idle                    78 %
bytes copied                 0 B

share     time  count  kernel
-----------------------------------------
 90 %   200 us     60  mul<float>(float*)
                       by aten::mul
 10 %  20.0 us      1  Memcpy, 4 KiB

not offered by torch: occupancy, stalls (it reads no counters).
files: trace.json.gz (2 KiB)

a.b:fused - torch - cuda - n=4,096 - 10 calls
declared: one pass
Under torch 'fused' is 10.0x faster than 'eager' (GPU, first to last work: 1.00
ms -> 100 us). What differs: launches 61 -> 1; GPU idle 78 % -> 0 %. Instead of
mul<float>(float*) (90 % of its time) and Memcpy (10 % of its time) it runs
kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk... (100 % of its
time).

of a call                         eager      fused    ratio
-----------------------------------------------------------
GPU, first to last work         1.00 ms     100 us   0.100x
launches                             61          1  0.0164x
GPU idle                           78 %        0 %       0x
sectors a load request                        4.00
warps stalled: long scoreboard                8.00
occupancy limiter                        registers

share    time  eager  count  kernel
--------------------------------------------------------------------------------
100 %  100 us    new      1  kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk...
gone: 200 us mul<float>(float*)
gone: 20.0 us Memcpy

A note.

"""


def test_a_variant_stands_beside_its_baseline_with_the_reason_first() -> None:
    assert shown(BASE, FUSED) == PAGE


@pytest.mark.parametrize("width", [80, 100])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, shown(BASE, FUSED, width=width).splitlines())) <= width


def test_an_implementation_without_a_profile_says_why() -> None:
    missing = NotProfiled(target="a.b", implementation="wide", reason="needs sm_90a (this GPU is sm_80)", failed=False)
    assert shown(missing) == "a.b:wide  SKIPPED\nneeds sm_90a (this GPU is sm_80)\n\n"
    assert shown(evolve(missing, failed=True)).startswith("a.b:wide  FAILED\n")
