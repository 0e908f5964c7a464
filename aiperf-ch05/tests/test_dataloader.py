"""Loaders of images: what is decoded where, and what a broken image among good ones says."""

from pathlib import Path
from typing import Any

import pytest
import torch

from aiperf_core.errors import AiperfError, BenchmarkError

pytest.importorskip("PIL.Image")
from PIL import Image

from aiperf_ch05 import dataloader

SIDE = 32


def prepared(folder: Path, form: type[dataloader.InLine], images: int = 4) -> tuple[Any, torch.Tensor]:
    pixels = dataloader.saved(images, SIDE, "cpu", torch.Generator().manual_seed(1))["pixels"]
    loading = form()
    loading.prepare(str(folder), pixels, 2, SIDE, 8)
    return loading, pixels


@pytest.mark.parametrize("form", [dataloader.InLine, dataloader.WorkerBytes, dataloader.TwoWorkers])
def test_all_images_come_once_and_in_order(tmp_path: Path, form: type[dataloader.InLine]) -> None:
    loading, pixels = prepared(tmp_path, form, images=13)
    batches = [(list(numbers), images.clone()) for numbers, images in loading.loaded()]
    assert [number for numbers, _ in batches for number in numbers] == list(range(13))
    expected = (pixels.float() - 127.5) / 63.75 if form is dataloader.InLine else pixels
    assert torch.equal(torch.cat([images for _, images in batches]), expected)


def test_a_worker_is_at_most_two_batches_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loading, _ = prepared(tmp_path, dataloader.BatchedFetch, images=16)
    decoded, fetch = [], loading.fetch

    def counted(numbers: range, place: int) -> torch.Tensor:
        decoded.append(place)
        images: torch.Tensor = fetch(numbers, place)
        return images

    monkeypatch.setattr(loading, "fetch", counted)
    for place, _ in enumerate(loading.loaded()):
        assert place < len(decoded) <= place + 1 + loading.ahead
    assert decoded == list(range(8))


def test_torch_has_its_processors_again_after_a_call(tmp_path: Path) -> None:
    loading, _ = prepared(tmp_path, dataloader.Worker)
    before = torch.get_num_threads()
    loading.run([torch.randn(3 * dataloader.PATCH**2, 8)])
    assert torch.get_num_threads() == before


def test_pixels_compress_as_photographs_do(tmp_path: Path) -> None:
    pixels = dataloader.saved(1, 224, "cpu", torch.Generator().manual_seed(1))["pixels"]
    Image.fromarray(pixels[0].numpy()).save(tmp_path / "image.png")
    assert 0.3 < (tmp_path / "image.png").stat().st_size / pixels.numel() < 0.7


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:100] + bytes([data[100] ^ 255]) + data[101:],
        lambda data: b"\0" * len(data),
        lambda data: b"",
    ],
    ids=["cut", "flipped", "zeros", "empty"],
)
@pytest.mark.parametrize("form", [dataloader.InLine, dataloader.TwoWorkers])
def test_a_broken_image_among_good_ones_is_named(tmp_path: Path, form: type[dataloader.InLine], spoil: Any) -> None:
    loading, _ = prepared(tmp_path, form)
    path = tmp_path / "000002.png"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(AiperfError) as caught:
        loading.run([torch.randn(3 * dataloader.PATCH**2, 8)])
    assert str(caught.value).startswith(f"'{path}' cannot be decoded: ")


def test_an_image_of_another_size_is_named(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    Image.new("L", (SIDE, SIDE)).save(path)
    with pytest.raises(AiperfError) as caught:
        dataloader.decode(path, SIDE)
    assert str(caught.value) == f"'{path}' has pixels of shape (32, 32); the others have (32, 32, 3)"


def test_images_that_are_no_whole_patches_are_refused() -> None:
    with pytest.raises(BenchmarkError) as caught:
        dataloader.inputs(8, 2, 40, "cpu", torch.Generator())
    assert str(caught.value) == "side=40; accepted are multiples of 16, the side of a patch"
