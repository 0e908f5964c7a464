"""The sources that decide a result."""

import hashlib

from aiperf_core.results.sources import of_modules, package_hashes


def hashes(site):
    return package_hashes(["aiperf_acme.scale"])


def test_a_package_and_its_kernels(site):
    site.install("aiperf-acme", "")
    site.write("aiperf_acme/kernels/scale.cu", "kernel")
    found = hashes(site)
    assert list(found) == ["aiperf_acme", "aiperf_acme/kernels/scale.cu", "aiperf_core"]
    assert found["aiperf_acme/kernels/scale.cu"] == hashlib.sha256(b"kernel").hexdigest()


def test_any_source_counts_and_what_a_run_writes_does_not(site):
    site.install("aiperf-acme", "")
    before = hashes(site)
    for path in ("expectations/x.json", "__pycache__/x.pyc", ".swp"):
        site.write(f"aiperf_acme/{path}", "x")
    assert hashes(site) == before
    site.write("aiperf_acme/helper.py", "x")
    added = hashes(site)
    assert added["aiperf_acme"] != before["aiperf_acme"]
    assert added["aiperf_core"] == before["aiperf_core"]


def test_what_is_no_package_has_none():
    assert list(package_hashes(["alone", "not_installed.module", "kernelbench:/tmp/a.py"])) == ["aiperf_core"]


def test_of_more_packages_only_what_the_modules_need(site):
    site.install("aiperf-acme", "")
    site.write("aiperf_acme/kernels/scale.cu", "kernel")
    site.install("aiperf-other", "")
    both = package_hashes(["aiperf_acme.scale", "aiperf_other.sort", "alone"])
    assert "aiperf_other" in both
    assert of_modules(both, ["aiperf_acme.scale", "alone"]) == hashes(site)
    assert list(of_modules(both, [])) == ["aiperf_core"]
