"""What the CUDA variants of `image_pipeline` do on the processor: decode in threads, as bytes, in whole batches."""

from itertools import product
from pathlib import Path

import pytest
import torch

from aiperf_core.benchmark import call_with
from aiperf_labs import image_pipeline


@pytest.mark.parametrize(("ahead", "narrow", "whole"), [*product((False, True), repeat=3)])
def test_every_way_to_decode_gives_the_same_classes(ahead: bool, narrow: bool, whole: bool, tmp_path: Path) -> None:
    # More batches than slots, and a last one that is not full.
    size = {"count": 31, "side": 9, "batch": 2}
    given = {**size, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    images = call_with(image_pipeline.inputs, given)["images"]
    weights = call_with(image_pipeline.network, given)
    (tmp_path / "images").write_bytes(images.numpy().tobytes())
    pipeline = image_pipeline.Pipeline()
    pipeline.ahead, pipeline.narrow, pipeline.whole = ahead, narrow, whole
    call_with(pipeline.prepare, {**size, **weights})
    right = image_pipeline.reference(images, **{name: one.double() for name, one in weights.items()})
    for _ in range(2):  # the slots of the first call are filled again
        torch.testing.assert_close(pipeline.run(str(tmp_path / "images")).double(), right, rtol=1e-5, atol=1e-5)
