import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_core.errors import AiperfError, BundleError, UsageError
from aiperf_core.results import address

TARGET = "ch07.memory_access"


@pytest.mark.parametrize(
    ("suffix", "target", "implementation", "rows"),
    [("", None, None, 8), (f":{TARGET}", TARGET, None, 8), (f":{TARGET}:wide", TARGET, "wide", 1)],
)
def test_the_parts(bundle, suffix, target, implementation, rows):
    found = address.find(f"{bundle.path}{suffix}")
    assert (found.bundle.path, found.target, found.implementation) == (bundle.path, target, implementation)
    (result,) = found.outlines()
    assert (result.target, len(result.rows)) == (TARGET, rows)


def test_a_folder_with_colons_in_its_name_wins(bundle):
    path = bundle.path.rename(bundle.path.with_name("a:b:c"))
    assert address.find(str(path)).target is None
    assert address.find(f"{path}:{TARGET}").target == TARGET


@pytest.mark.parametrize(
    ("suffix", "message"),
    [
        (":ch07.memory_acess", " has no result of 'ch07.memory_acess'. Did you mean 'ch07.memory_access'?"),
        (":zzz", " has no result of 'zzz'. There are: ch07.memory_access"),
    ],
)
def test_a_target_that_is_not_there(bundle, suffix, message):
    with pytest.raises(UsageError) as caught:
        address.find(f"{bundle.path}{suffix}").outlines()
    assert str(caught.value) == f"'{bundle.path}'{message}"


def test_an_implementation_that_is_not_there(bundle):
    with pytest.raises(UsageError) as caught:
        address.find(f"{bundle.path}:{TARGET}:wid").outlines()
    assert str(caught.value) == f"'{TARGET}' has no implementation 'wid' in this bundle. Did you mean 'wide'?"


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(BundleError, match=r"nowhere' does not exist"):
        address.find(f"{tmp_path}/nowhere:a.b:c")


@given(st.text(st.characters(exclude_characters="\0"), max_size=30))
def test_any_text_is_an_address_or_refused(text):
    with contextlib.suppress(AiperfError):
        address.find(text)
