import os
import subprocess
import sys

import pytest

from aiperf_core.devices import host

CPUINFO = "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nflags\t\t: fpu {flag} sse\n"


def files(monkeypatch, contents):
    monkeypatch.setattr(host, "text", lambda path: contents.get(path, "").strip())


def test_the_processor_is_named(monkeypatch):
    files(monkeypatch, {"/proc/cpuinfo": CPUINFO})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3})
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert host.processor() == "Some CPU @ 3 GHz, 2 of 8 logical CPUs usable"


def test_the_model_is_the_first_processors(monkeypatch):
    files(monkeypatch, {"/proc/cpuinfo": "model name\t: AMD EPYC 9654\nmodel name\t: AMD EPYC 9654\n"})
    assert host.processor_model() == "AMD EPYC 9654"


def test_a_processor_without_a_name(monkeypatch):
    files(monkeypatch, {"/proc/cpuinfo": "processor\t: 0\nBogoMIPS\t: 50.00\n"})
    monkeypatch.setattr(host.platform, "machine", lambda: "aarch64")
    assert host.processor_model() == "aarch64"
    assert host.processor().startswith("aarch64, ")


def test_usable_cpus_are_those_this_process_may_use():
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    code += "; from aiperf_core.devices.host import usable_cpus; print(usable_cpus())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
    assert host.usable_cpus() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("flag", "dmi", "name"),
    [
        ("", {}, ""),
        ("hypervisor", {}, "unnamed"),
        ("hypervisor", {"sys_vendor": "QEMU\n", "product_name": "Standard PC\n"}, "QEMU Standard PC"),
        ("nohypervisor", {"sys_vendor": "Dell\n"}, ""),
    ],
)
def test_the_hypervisor_that_the_processor_tells_is_named(monkeypatch, flag, dmi, name):
    contents = {f"/sys/class/dmi/id/{key}": value for key, value in dmi.items()}
    files(monkeypatch, contents | {"/proc/cpuinfo": CPUINFO.format(flag=flag)})
    assert host.hypervisor() == name


@pytest.mark.parametrize(
    ("contents", "name"),
    [
        ({}, ""),
        ({"/sys/hypervisor/type": "xen\n"}, "xen"),
        ({"/proc/device-tree/hypervisor/compatible": "linux,kvm\0other\0"}, "linux,kvm"),
        ({"/sys/class/dmi/id/sys_vendor": "QEMU\n", "/sys/class/dmi/id/product_name": "virt-8\n"}, "QEMU virt-8"),
        ({"/sys/class/dmi/id/sys_vendor": "Amazon EC2", "/sys/class/dmi/id/product_name": "c7g.metal"}, ""),
        (
            {"/sys/class/dmi/id/sys_vendor": "Amazon EC2", "/sys/class/dmi/id/product_name": "c7g.large"},
            "Amazon EC2 c7g.large",
        ),
        ({"/sys/class/dmi/id/sys_vendor": "Supermicro", "/sys/class/dmi/id/product_name": "SYS-821"}, ""),
    ],
)
def test_hypervisors_that_the_processor_does_not_tell(monkeypatch, contents, name):
    files(monkeypatch, {"/proc/cpuinfo": "processor\t: 0\nBogoMIPS\t: 50.00\n"} | contents)
    assert host.hypervisor() == name


def test_the_compiler_is_the_one_that_cc_names(monkeypatch, tmp_path):
    program = tmp_path / "mycc"
    program.write_text("#!/bin/sh\necho 'mycc 1.0'\necho more\n")
    program.chmod(0o755)
    monkeypatch.setenv("CC", str(program))
    assert host.compiler() == f"mycc 1.0 ({program})"
    program.write_text("#!/bin/sh\nexit 1\n")
    assert host.compiler() == ""


def test_without_a_compiler(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    assert host.compiler() == ""


def test_a_folder_that_does_not_exist_yet_can_be_written_where_its_parent_can(tmp_path):
    assert host.can_write(tmp_path / "a" / "b")
    file = tmp_path / "file"
    file.write_text("")
    file.chmod(0o755)
    assert not host.can_write(file / "b")


def test_this_machine_can_be_described():
    assert host.operating_system()
    assert "GiB available" in host.memory()
    assert "logical CPUs usable" in host.processor()
