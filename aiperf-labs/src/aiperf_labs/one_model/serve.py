"""Ladder C: a trained model serves requests; what each technique is worth to their tokens.

Question    What is each technique of serving worth to the tokens of one trained model, alone and beside all others?
Numbers     Requests in fixed order, of which four at a time begin alike, with answers of 1 to `most` tokens that the
            model says itself. `ci`: 16 requests in 4 slots, 0.9e6 weights. `one`: 256 requests in 32 slots, bfloat16.
Prediction  By the cost of passes, see `costs`: stored in the plan before a run, and never edited after it.
Limits      On a GPU the answers are fed back whatever the model says, since bfloat16 turns some of them.
"""

import torch

from aiperf_core import Benchmark, Cost, Tolerance, lossy
from aiperf_labs.one_model import training
from aiperf_labs.one_model.declared import declare
from aiperf_labs.one_model.serving import Server
from aiperf_labs.one_model.sizes import PRESETS, Preset
from aiperf_labs.one_model.switches import BASELINE, DRAFT
from aiperf_labs.one_model.trained import load

bench = Benchmark(goal="throughput", clock="wall", cache="warm", threads=1, prepare_timeout_s=600)
SOME = {"model": 0, "requests": 5, "slots": 2, "dtype": "fp32"}
NATS = lossy("nats", at_most=0.01)


def preset_of(model: int) -> Preset:
    """The preset with a number, as sizes are numbers."""
    return [*PRESETS.values()][model]


def rounding(bits):
    """The tolerance of scores; tokens of float32 are equal."""
    if bits == 32:
        return Tolerance(1e-4, reason="the scores of likely tokens are small differences of logits of float32")
    return Tolerance(5e-2, reason="up to 12 layers round the stream to bfloat16, and tokens at the edge change experts")


def serving(made: Benchmark) -> Benchmark:
    """Declare the work: requests, the right answers, the least work."""

    @made.workload(
        smoke=SOME,
        cpu={"model": 0, "requests": 16, "slots": 4, "dtype": "fp32"},
        cuda={"model": 1, "requests": 256, "slots": 32, "dtype": "bf16"},
    )
    def inputs(model, requests, device):
        return {"texts": load(preset_of(model)).texts[:requests].to(device)}

    @made.static
    def parameters(model, dtype, device):
        return {"weights": {name: one.to(device, dtype) for name, one in load(preset_of(model)).weights.items()}}

    @made.reference(tolerance=rounding)
    def reference(texts, weights, model, requests):
        preset = preset_of(model)
        known = load(preset)
        wanted = torch.tensor(known.wanted[:requests], device=texts.device)
        after = torch.arange(int(wanted.max()), device=texts.device)
        places = torch.tensor(known.lengths[:requests], device=texts.device)[:, None] + after
        logits = training.logits_of(weights, texts, preset.model, BASELINE)
        logits = logits.gather(1, (places - 1)[..., None].expand(-1, -1, logits.shape[-1])).double()
        scores = logits.log_softmax(-1).gather(-1, texts.gather(1, places)[..., None])[..., 0]
        seen = after < wanted[:, None]
        return {"tokens": texts.gather(1, places) * seen, "scores": (scores * seen).float()}

    @made.metric
    def nats(output, reference):
        told = reference["scores"] != 0
        return max(0.0, float((reference["scores"] - output["scores"])[told].mean()))

    @made.cost
    def cost(model, requests, slots, bits):
        preset = preset_of(model)
        known, sizes = load(preset), preset.model
        shared = {
            tuple(text[:count].tolist()) for text, count in zip(known.texts, known.shared[:requests], strict=False)
        }
        own = sum(length - count for length, count in zip(known.lengths[:requests], known.shared, strict=False))
        said = sum(known.wanted[:requests])
        fed = sum(map(len, shared)) + own + said - requests
        head = sizes.width * sizes.vocabulary
        # With drafts a pass may say several tokens of a request.
        passes = max(known.wanted[:requests]) // (1 + DRAFT)
        return Cost(
            bytes_read=bits // 8 * sizes.active * (passes if bits == 16 else 1),
            bytes_written=8 * said,
            flops=2 * (sizes.active - head) * fed + 2 * head * said,
            precision="bf16" if bits == 16 else "fp32",
            tokens=said,
        )

    made.awkward({"requests": 1, "slots": 3}, {"requests": 3, "slots": 1})
    return made


class Serve:
    """The server with its switches."""

    flags = BASELINE

    def prepare(self, weights, model, requests, slots, bits):
        preset = preset_of(model)
        known = load(preset)
        given = (known.lengths[:requests], known.wanted[:requests], known.shared[:requests])
        forced = bits == 16 or self.flags.is_lossy
        self.server = Server(weights, preset.model, self.flags, *given, slots=slots, forced=forced)

    def run(self, texts):
        return self.server.run(texts)


declare(serving(bench), Serve, "serve", NATS)
