"""Statistical constants stand once, in `stats/distributions.py`, so that a correction holds everywhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HOME = "aiperf-core/src/aiperf_core/stats/distributions.py"
# Normal quantiles of usual confidences, the upper end of a 95 % interval, and the scale of the median absolute deviation.
CONSTANT = re.compile(
    r"(?<![\w.])(?:1\.28(?:2|155)\d*|1\.64(?:5|485)\d*|1\.96(?:0+)?|1\.9599\d*|2\.32(?:6|634)\d*|2\.57(?:6|582)\d*|"
    r"12\.706\d*|1\.4826\d*|0\.9750*|NormalDist\(\)\.inv_cdf)(?![\d.])"
)
# Draws shapes of requests from a normal distribution.
SHAPES = "aiperf-ch17/src/aiperf_ch17/prefill_packing.py"
pytestmark = pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="needs the repository")


def constants(text: str) -> list[str]:
    """The statistical constants of a source, without comments."""
    return CONSTANT.findall(re.sub(r"#.*", "", text))


def test_they_stand_once():
    files = [*ROOT.glob("aiperf-*/src/**/*.py"), *ROOT.glob("benchmarks/**/*.py")]
    assert len(files) > 100
    found = {str(file.relative_to(ROOT)): constants(file.read_text()) for file in files}
    assert sorted(found.pop(HOME)) == ["0.975", "1.4826", "1.959963984540054", "NormalDist().inv_cdf"]
    found.pop(SHAPES)
    assert {file: known for file, known in found.items() if known} == {}


@pytest.mark.parametrize(
    "text", ["x = 1.96", "t(0.975, 3)", "1.95996", "NormalDist().inv_cdf(0.9)", "2.576 * s", "1.4826"]
)
def test_a_second_one_is_seen(text):
    assert constants(text)
    assert not constants(f"y = 3  # {text}")
