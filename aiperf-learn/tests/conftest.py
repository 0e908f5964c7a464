"""A made-up package of targets."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

import acme_package  # it is beside the tests


@pytest.fixture
def package(site):
    site.declare("aiperf-learn", "0.1", "learn = aiperf_learn.plugin")
    site.install("aiperf-acme", acme_package.PLUGIN)
    site.write("aiperf_acme/gather.py", acme_package.GATHER)
    site.write("aiperf_acme/copy.py", acme_package.COPY)
    return site.folder / "aiperf_acme"
