"""Ladder A: a step of training; what each technique is worth to the model's own training.

Question    What is each technique of training worth to a step of one model, alone and beside all others?
Numbers     A batch of the corpus through the model, backward, and AdamW, from the moments that training left. `ci`: 8
            texts of 96 tokens, 0.9e6 weights. `one`: 4 texts of 1024 tokens, 0.56e9 weights.
Prediction  By the cost of operations, see `costs`: stored in the plan before a run, and never edited after it.
Limits      One step, whose gradients, loss and new weights are judged. The loss of a whole training is the plan's.
"""

import torch

from aiperf_core import Benchmark, Cost, Tolerance, lossy
from aiperf_labs.one_model import training
from aiperf_labs.one_model.declared import declare
from aiperf_labs.one_model.serve import preset_of
from aiperf_labs.one_model.switches import BASELINE
from aiperf_labs.one_model.trained import load

bench = Benchmark(goal="throughput", clock="wall", cache="warm", threads=1, prepare_timeout_s=600)
MOMENTS = ("weights", "averages", "squares", "counts")
PART = 0.1  # of the highest learning rate, as at the end of training


def rounding(bits):
    """The tolerance of gradients and weights."""
    if bits == 32:
        return Tolerance(1e-4, reason="gradients of up to 4 layers of float32, summed over all tokens in any order")
    return Tolerance(2e-1, reason="products of bfloat16 move tokens at the edge to other experts, and so gradients")


@bench.workload(
    smoke={"model": 0, "batch": 2, "length": 24, "dtype": "fp32"},
    cpu={"model": 0, "batch": 8, "length": 96, "dtype": "fp32"},
    cuda={"model": 1, "batch": 4, "length": 1024, "dtype": "bf16"},
    state=MOMENTS,
)
def inputs(model, batch, length, device, generator):
    known = load(preset_of(model))
    chosen = torch.randperm(len(known.held), device=device, generator=generator)[:batch]

    def moved(found):
        return {name: one.to(device) for name, one in found.items()}

    return {
        "texts": known.held.to(device)[chosen, : length + 1],
        "weights": moved(known.weights),
        "averages": moved(known.averages),
        "squares": moved(known.squares),
        "counts": {name: torch.tensor(float(known.steps), device=device) for name in known.weights},
    }


@bench.reference(tolerance=rounding)
def reference(texts, weights, averages, squares, counts, model):
    state = ({name: one.clone() for name, one in found.items()} for found in (weights, averages, squares, counts))
    return Step(preset_of(model), BASELINE, *state).run(texts)


@bench.cost
def cost(model, batch, length, bits):
    sizes, tokens = preset_of(model).model, batch * length
    return Cost(
        # Weights and two moments are read and written; a gradient is written and read.
        bytes_read=16 * sizes.parameters,
        bytes_written=16 * sizes.parameters,
        flops=6 * sizes.active * tokens,
        precision="bf16" if bits == 16 else "fp32",
        tokens=tokens,
    )


bench.awkward({"batch": 1, "length": 1}, {"batch": 3, "length": 37})


class Step:
    """A step of the optimizer on memory that is given."""

    def __init__(self, preset, switches, weights, averages, squares, counts, bits=32):
        self.sizes, self.switches, self.bits = preset.model, switches, bits
        # The same memory as parameters.
        self.weights = {name: one.detach().requires_grad_() for name, one in weights.items()}
        parameters = [*self.weights.values()]
        rate = PART * preset.schedule.rate
        self.adam = training.optimizer(parameters, rate, fused=switches.fused_optimizer)
        moments = zip(parameters, averages.values(), squares.values(), counts.values(), strict=True)
        for one, average, square, count in moments:
            self.adam.state[one] = {"step": count, "exp_avg": average, "exp_avg_sq": square}

    def loss(self, texts):
        """The loss of a batch, and the gradients of all weights by name."""
        self.adam.zero_grad()
        with torch.enable_grad(), torch.autocast(texts.device.type, torch.bfloat16, enabled=self.bits == 16):
            entropy, whole = training.loss_of(self.weights, texts, self.sizes, self.switches)
        whole.backward()
        # Without a layer, its weights have none.
        found = {name: torch.zeros_like(one) if one.grad is None else one.grad for name, one in self.weights.items()}
        return entropy.detach(), found

    def finished(self, loss, gradients):
        """The answer after the optimizer's step with these gradients."""
        for name, one in self.weights.items():
            one.grad = gradients[name]
        self.adam.step()
        return {"loss": loss, "gradients": gradients, "new": {name: one.detach() for name, one in self.weights.items()}}

    def run(self, texts):
        return self.finished(*self.loss(texts))


class Train:
    """A step with its switches."""

    flags = BASELINE

    def prepare(self, weights, averages, squares, counts, model, bits):
        self.step = Step(preset_of(model), self.flags, weights, averages, squares, counts, bits)

    def run(self, texts):
        return self.step.run(texts)


declare(bench, Train, "train", lossy("rel_l2", at_most=1e-2))
