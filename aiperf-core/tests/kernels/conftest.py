from collections.abc import Callable
from pathlib import Path

import pytest

from aiperf_core.kernels import CudaSource, HostSource, TritonSource

MakeCuda = Callable[..., CudaSource]
MakeHost = Callable[..., HostSource]
MakeTriton = Callable[..., TritonSource]


@pytest.fixture(autouse=True)
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(folder))
    return folder / "kernels"


@pytest.fixture
def make_cuda(tmp_path: Path) -> MakeCuda:
    def make(text: str, name: str = "lesson.cu", **keywords: object) -> CudaSource:
        (tmp_path / name).write_text(text)
        return CudaSource(tmp_path / name, **keywords)  # type: ignore[arg-type]

    return make


@pytest.fixture
def make_host(tmp_path: Path) -> MakeHost:
    def make(text: str, name: str = "lesson.c", **keywords: object) -> HostSource:
        (tmp_path / name).write_text(text)
        return HostSource(tmp_path / name, **keywords)  # type: ignore[arg-type]

    return make


@pytest.fixture
def make_triton(tmp_path: Path) -> MakeTriton:
    def make(text: str, *ahead: object, name: str = "lesson_triton.py", **keywords: object) -> TritonSource:
        (tmp_path / name).write_text(text)
        # The folder's name keeps the modules of two tests apart in sys.modules.
        return TritonSource(tmp_path / name, ahead, caller=f"{tmp_path.name}.bench", **keywords)  # type: ignore[arg-type]

    return make
