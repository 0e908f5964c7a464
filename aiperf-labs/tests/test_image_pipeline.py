"""What the CUDA variants of `image_pipeline` do on the processor: decode in threads, as bytes, in whole batches."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from aiperf_core.benchmark import call_with
from aiperf_labs import image_pipeline
from aiperf_labs.image_pipeline import Flags, ImageByImage
from aiperf_labs.ladders import ladder


@pytest.mark.parametrize(("workers", "narrow", "whole"), [*product((False, True), repeat=3)])
def test_every_way_to_decode_gives_the_same_classes(workers: bool, narrow: bool, whole: bool, tmp_path: Path) -> None:
    # More batches than slots, and a last one that is not full.
    size = {"count": 31, "side": 9, "batch": 2}
    given = {**size, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    images = call_with(image_pipeline.inputs, given)["images"]
    weights = call_with(image_pipeline.network, given)
    (tmp_path / "images").write_bytes(images.numpy().tobytes())
    pipeline = ImageByImage()
    pipeline.flags = Flags(workers=workers, bytes_copied=narrow, whole_batches=whole)
    call_with(pipeline.prepare, {**size, **weights})
    right = image_pipeline.reference(images, **{name: one.double() for name, one in weights.items()}, side=size["side"])
    for _ in range(2):  # the slots of the first call are filled again
        torch.testing.assert_close(pipeline.run(str(tmp_path / "images")).double(), right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("side", [1, 2, 13, 64, 96])
def test_a_record_has_four_bits_for_each_difference(side: int) -> None:
    differences = torch.randint(16, (3 * side**2,), generator=torch.Generator().manual_seed(side)).to(torch.uint8) - 8
    record = image_pipeline.encoded(differences).numpy()
    assert np.array_equal(image_pipeline.inflated(record), differences.numpy())
    used = int(np.flatnonzero(record)[-1]) + 1
    assert 0 <= used - len(differences) / 2 < 0.05 * len(differences) + 100


def test_the_ladders_leave_out_each_mechanism() -> None:
    steps = {"cpu": ["workers", "whole_batches"], "cuda": [*Flags.__dataclass_fields__]}
    for device, names in steps.items():
        found = ladder(image_pipeline.bench, device)
        assert [step.name for step in found.steps] == names
        assert [variant.name for variant in found.left_out] == [*(f"without_{name}" for name in names[:-1]), names[-2]]
