"""Synthetic language models: decoder-only transformers whose next token is known, made from a seed.

    from aiperf_core.models import build, config

    model = build(config("tiny"), "cpu", torch.float32, torch.Generator().manual_seed(1))
    logits = model(tokens)                      # [batch, length, vocabulary]
    tokens = logits.argmax(-1)                  # equal to model.successor[tokens], at any precision

    logits, cache = model.prefill(prompts, room=512)       # [batch, vocabulary], after each prompt
    logits = model.decode(logits.argmax(-1), cache)        # and after one more token

The weights are random; nothing is downloaded. Logits of random weights lie so close together that rounding changes the
largest. A *planted bigram head* therefore makes the token after t a fixed permutation of t, by a margin that no
rounding reaches; see `planted`. `states` and `logits` depend on every layer, but the token does not: a benchmark that
judges tokens alone cannot see a missing layer.

A benchmark declares the weights as static and wraps them in `prepare`, which copies nothing:

    @bench.static
    def parameters(device, generator):
        return {"weights": planted(config("tiny"), device, torch.float32, generator)}

    class Eager:
        def prepare(self, weights):
            self.model = Transformer(config("tiny"), weights)
"""

from aiperf_core.models.sizes import CONFIGS, ModelConfig, config
from aiperf_core.models.transformer import Cache, Transformer, build, rms_norm, rotate
from aiperf_core.models.weights import agreeing, planted, successors

__all__ = [
    "CONFIGS",
    "Cache",
    "ModelConfig",
    "Transformer",
    "agreeing",
    "build",
    "config",
    "planted",
    "rms_norm",
    "rotate",
    "successors",
]
