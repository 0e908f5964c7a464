import platform
from pathlib import Path

import pytest

from aiperf_core.requirements import Hardware, is_requirement, lacking

NOTHING = Hardware()
HOPPER = Hardware("NVIDIA H100", 90, 2)


@pytest.mark.parametrize(
    "text",
    ["sm_80", "sm_90a", "sm_100f", "sm_120", "compiler", "machine:x86_64", "package:triton", "package:a.b", "gpus:2"],
)
def test_what_may_be_required(text: str) -> None:
    assert is_requirement(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sm_8",
        "sm80",
        "sm_80b",
        "sm_80 ",
        "SM_80",
        "compiler:gcc",
        "machine:",
        "package:",
        "package:a-b",
        "gpus:two",
    ],
)
def test_what_may_not(text: str) -> None:
    assert not is_requirement(text)
    with pytest.raises(ValueError, match=f"^{text}$"):
        lacking(text, HOPPER)


@pytest.mark.parametrize(
    ("text", "hardware", "reason"),
    [
        ("sm_80", HOPPER, None),
        ("sm_90", HOPPER, None),
        ("sm_90a", HOPPER, None),
        ("sm_100", HOPPER, "needs sm_100 (this GPU is sm_90, NVIDIA H100)"),
        ("sm_80a", HOPPER, "needs sm_80a (this GPU is sm_90, NVIDIA H100)"),
        ("sm_100f", HOPPER, "needs sm_100f (this GPU is sm_90, NVIDIA H100)"),
        ("sm_80", NOTHING, "needs sm_80 (this machine has no CUDA GPU)"),
        ("gpus:2", HOPPER, None),
        ("gpus:3", HOPPER, "needs 3 GPUs (this machine has 2)"),
        ("gpus:1", NOTHING, "needs 1 GPUs (this machine has 0)"),
        ("package:attrs", NOTHING, None),
        ("package:no_such_package", NOTHING, "needs the package 'no_such_package' (pip install it)"),
        ("package:no_such.package", NOTHING, "needs the package 'no_such.package' (pip install it)"),
        ("package:attrs.no_such", NOTHING, "needs the package 'attrs.no_such' (pip install it)"),
    ],
)
def test_the_reason_for_a_skip(text: str, hardware: Hardware, reason: str | None) -> None:
    assert lacking(text, hardware) == reason


def test_the_kind_of_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert lacking("machine:aarch64", NOTHING) is None
    assert lacking("machine:x86_64", NOTHING) == "needs a processor of kind x86_64 (this is aarch64)"


def test_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert lacking("compiler", NOTHING) == "needs a C compiler (looked for $CC, cc, gcc, clang)"
    monkeypatch.setenv("CC", "/opt/cc")
    assert lacking("compiler", NOTHING) is None
    monkeypatch.delenv("CC")
    clang = tmp_path / "clang"
    clang.write_text("#!/bin/sh\n")
    clang.chmod(0o755)
    assert lacking("compiler", NOTHING) is None


def test_a_package_whose_parent_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_broken.py").write_text("raise RuntimeError('no such driver')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    reason = "needs the package 'acme_broken.inner' (pip install it)"
    assert lacking("package:acme_broken.inner", NOTHING) == reason
