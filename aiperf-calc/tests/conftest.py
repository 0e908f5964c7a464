"""The commands of the package in this process."""

from functools import partial

import pytest


@pytest.fixture
def calc(aiperf):
    """Runs `aiperf calc`."""
    return partial(aiperf, "calc")
