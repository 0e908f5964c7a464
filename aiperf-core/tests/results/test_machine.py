import os
import platform
import subprocess
import sys

from aiperf_core.results import machine


def test_the_machine_is_this_one():
    made = machine.machine()
    assert made.hostname == platform.node()
    assert made.cores == len(os.sched_getaffinity(0))
    assert made.memory_bytes > 1 << 28
    assert made.python == f"{platform.python_implementation()} {platform.python_version()}"


def test_packages_are_those_that_matter(site):
    for name in ("aiperf-acme", "torch", "nvidia_cublas_cu12", "cuda-core", "aiperfect", "requests"):
        site.declare(name, "1.2", "")
    found = machine.packages()
    assert {"aiperf-acme", "torch", "nvidia-cublas-cu12", "cuda-core"} <= found.keys()
    assert not {"aiperfect", "requests", "attrs"} & found.keys()
    assert found["torch"] == "1.2"  # the first on the path is the one that is imported
    assert list(found) == sorted(found)


def test_old_metadata_names_a_package_too(site):
    site.write("aiperf_old.egg-info/PKG-INFO", "Metadata-Version: 1.0\nName: aiperf_old\nVersion: 0.1\n\nName: other\n")
    site.write("aiperf_nameless-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nVersion: 1.0\n")
    found = machine.packages()
    assert found["aiperf-old"] == "0.1"
    assert "other" not in found


def test_a_package_installed_in_place_says_so(site):
    site.declare("aiperf-acme", "0.3", "")
    site.write("aiperf_acme-0.3.dist-info/direct_url.json", '{"url": "file:///src", "dir_info": {"editable": true}}')
    assert machine.packages()["aiperf-acme"] == "0.3 (editable)"


def test_torch_is_not_imported():
    code = "import sys; from aiperf_core.results import machine as m; m.machine(); m.packages(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
