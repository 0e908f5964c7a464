import pytest
from packaging.requirements import Requirement

from aiperf_core import __version__, compatibility
from aiperf_core.compatibility import unmet


@pytest.mark.parametrize(
    ("requirement", "version", "fits"),
    [
        ("aiperf-core", "0.1.0", True),
        ("aiperf-core~=0.1.0", "0.1.0", True),
        ("aiperf-core~=0.1.0", "0.1.7", True),
        ("aiperf-core~=0.1.0", "0.2.0", False),
        ("aiperf-core~=0.1.3", "0.1.2", False),
        ("aiperf-core~=1.2.0", "2.2.0", False),
        ("aiperf-core[cuda,triton]~=0.1.0", "0.1.10", True),
        ("aiperf-core[cuda,triton]~=0.1.0", "0.0.9", False),
        ("aiperf-core>=99", "0.1.0", False),
        ("aiperf-core (<2,>=0.1)", "0.1.0", True),
        ("Aiperf.Core>=99", "0.1.0", False),
        ("aiperf_core >=99", "0.1.0", False),
        ("aiperf-core==0.1.*", "0.1.4", True),
        # A development version is what its release will be, and no older one.
        ("aiperf-core~=0.2.0", "0.2.0.dev3", True),
        ("aiperf-core~=0.2.0", "0.2.0rc1", True),
        ("aiperf-core~=0.1.0", "0.2.0.dev3", False),
        ("aiperf-core>=0.3", "0.2.0.dev3", False),
        ("aiperf-core~=0.1.0", "0.1.0+g1234567", True),
        ("aiperf-core~=0.1.0", "0.1.1.post2", True),
        # What is asked for an extra, or on other machines, is not asked here.
        ('aiperf-core>=99; extra == "later"', "0.1.0", True),
        ('aiperf-core>=99; python_version < "3"', "0.1.0", True),
        ('aiperf-core>=99; python_version >= "3"', "0.1.0", False),
        ("aiperf-core >> 3", "0.1.0", False),
        # Others.
        ("aiperf-core-extras>=99", "0.1.0", True),
        ("torch>=99", "0.1.0", True),
    ],
)
def test_a_requirement(requirement, version, fits):
    assert unmet(["click>=8", requirement], version) == ("" if fits else requirement)


@pytest.mark.parametrize("version", ["0.0.9", "0.1.0", "0.1.2", "0.1.10", "0.2.0", "1.1.2", "0.1.0.dev1", "0.1.2rc1"])
@pytest.mark.parametrize("least", ["0.1.0", "0.1.2", "0.2.0", "1.1.0", "0.01.02"])
def test_the_short_way_never_differs_from_packaging(version, least):
    if compatibility._plainly_met(f"aiperf-core~={least}", version):
        assert Requirement(f"aiperf-core~={least}").specifier.contains(version)
    elif "dev" not in version and "rc" not in version:
        assert not Requirement(f"aiperf-core~={least}").specifier.contains(version)


def test_a_plugin_for_another_core_is_set_aside_without_being_imported(site):
    site.install("aiperf-acme", "raise AssertionError('imported')", requires="aiperf-core>=99")
    site.install("aiperf-bolt", "", requires=f"aiperf-core[cuda]~={__version__}")
    plugins = site.load()
    assert [str(one) for one in plugins.set_aside] == [
        f"skipped plugin aiperf-acme 0.3: it needs aiperf-core>=99, and this is aiperf-core {__version__}. Update both."
    ]
    assert [one.distribution for one in plugins.loaded] == ["aiperf-core", "aiperf-bolt"]


def test_a_development_version_of_the_core_loads_what_is_written_for_its_release(site, monkeypatch):
    monkeypatch.setattr("aiperf_core.plugins.__version__", "0.4.0.dev2+g1234567")
    site.install("aiperf-acme", "", requires="aiperf-core~=0.4.0")
    site.install("aiperf-bolt", "", requires="aiperf-core~=0.3.0")
    plugins = site.load()
    assert [one.distribution for one in plugins.set_aside] == ["aiperf-bolt"]
