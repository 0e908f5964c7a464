"""The synthetic models: their next token is the planted one at every precision, by a margin far beyond rounding."""

import pytest
import torch

from aiperf_core.errors import UsageError
from aiperf_core.models import Cache, ModelConfig, Transformer, agreeing, build, config, planted, successors
from aiperf_core.models.transformer import rotate

TINY = config("tiny")
# Odd everywhere it may be, and one head of keys for all queries.
AWKWARD = ModelConfig(layers=3, width=66, heads=3, kv_heads=1, hidden=37, vocabulary=257)


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def texts(model: ModelConfig, batch: int, length: int, seed: int = 2) -> torch.Tensor:
    return torch.randint(model.vocabulary, (batch, length), generator=generator(seed))


def every_token(model: ModelConfig) -> torch.Tensor:
    """Texts in which each token of the vocabulary stands, after others."""
    order = torch.randperm(model.vocabulary, generator=generator(3))
    return torch.nn.functional.pad(order, (0, -len(order) % 8), value=0).view(-1, 8)


@pytest.mark.parametrize("model", [TINY, AWKWARD], ids=["tiny", "awkward"])
def test_the_next_token_is_the_planted_one_at_every_precision(model: ModelConfig) -> None:
    tokens = every_token(model)
    full = build(model, "cpu", torch.float64, generator())
    right = full(tokens)
    assert torch.equal(right.argmax(-1), full.successor[tokens])
    first, second = right.topk(2).values.unbind(-1)
    margin = (first - second).min().item()
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        rounded = build(model, "cpu", dtype, generator())
        assert torch.equal(rounded.successor, full.successor)
        logits = rounded(tokens)
        assert torch.equal(logits.argmax(-1), full.successor[tokens])
        assert margin > 5
        # Twice: the first may fall and the second rise.
        assert margin > 2 * 5 * (logits.double() - right).abs().max().item()


def test_generated_text_is_bit_equal_in_float32_and_bfloat16() -> None:
    told = []
    for dtype in (torch.float32, torch.bfloat16):
        model = build(TINY, "cpu", dtype, generator())
        cache, token, said = Cache(TINY, 2, 40, "cpu", dtype), texts(TINY, 2, 1), []
        for _ in range(40):
            token = model(token, cache)[:, -1:].argmax(-1)
            said.append(token)
        told.append(torch.cat(said, 1))
    assert torch.equal(told[0], told[1])
    assert len(told[0][0].unique()) == 40


@pytest.mark.parametrize("parts", [(13,), (1,) * 13, (5, 1, 7), (1, 12)])
@pytest.mark.parametrize("sizes", [TINY, AWKWARD], ids=["tiny", "awkward"])
def test_decoding_with_a_cache_is_the_whole_forward_pass(sizes: ModelConfig, parts: tuple[int, ...]) -> None:
    model, tokens = build(sizes, "cpu", torch.float64, generator()), texts(sizes, 3, 13)
    cache = Cache(sizes, 3, 13, "cpu", torch.float64)
    pieces = [model(part, cache) for part in tokens.split(parts, 1)]
    # Angles are in float32 in both.
    assert torch.allclose(torch.cat(pieces, 1), model(tokens), rtol=0, atol=1e-9)
    assert cache.length == 13


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", [TINY, AWKWARD], ids=["tiny", "awkward"])
def test_prefill_and_decode_are_the_whole_forward_pass(sizes: ModelConfig, dtype: torch.dtype) -> None:
    model, tokens = build(sizes, "cpu", dtype, generator()), texts(sizes, 3, 13)
    logits, cache = model.prefill(tokens[:, :8], room=13)
    steps = [logits, *(model.decode(token, cache) for token in tokens[:, 8:].unbind(1))]
    whole = model(tokens)[:, 7:]
    assert (cache.length, steps[0].dtype) == (13, dtype)
    # Logits are up to about 16; bfloat16 keeps 8 bits of them.
    atol = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 0.5}[dtype]
    assert torch.allclose(torch.stack(steps, 1), whole, rtol=0, atol=atol)
    assert torch.equal(torch.stack(steps, 1).argmax(-1), model.successor[tokens[:, 7:]])
    with pytest.raises(UsageError, match="1 tokens were given after 13; the cache has room for 13"):
        model.decode(tokens[:, 0], cache)
    with pytest.raises(UsageError, match="13 tokens were given after 0; the cache has room for 12"):
        model.prefill(tokens, room=12)


def test_a_shorter_length_takes_tokens_back() -> None:
    model, tokens = build(TINY, "cpu", torch.float64, generator()), texts(TINY, 1, 9)
    cache = Cache(TINY, 1, 12, "cpu", torch.float64)
    model(texts(TINY, 1, 12, seed=5), cache)
    cache.length = 0
    assert torch.allclose(model(tokens, cache), model(tokens), rtol=0, atol=1e-9)


def test_a_cache_without_room_is_refused() -> None:
    model, cache = build(TINY, "cpu", torch.float32, generator()), Cache(TINY, 1, 4, "cpu", torch.float32)
    model(texts(TINY, 1, 3), cache)
    with pytest.raises(UsageError) as caught:
        model(texts(TINY, 1, 2), cache)
    assert str(caught.value) == "2 tokens were given after 3; the cache has room for 4. Make a larger Cache"


def test_every_layer_counts_in_the_states() -> None:
    weights = planted(TINY, "cpu", torch.float32, generator())
    tokens = texts(TINY, 4, 16)
    right = Transformer(TINY, weights).states(tokens)
    for name in [one for one in weights if one.endswith((".out", ".down"))]:
        less = Transformer(TINY, weights | {name: torch.zeros_like(weights[name])}).states(tokens)
        assert (less - right).norm() / right.norm() > 0.05
    for name in ("layers.0.attention_norm", "norm"):
        less = Transformer(TINY, weights | {name: torch.ones_like(weights[name])}).states(tokens)
        assert (less - right).norm() / right.norm() > 0.005


def test_a_token_does_not_see_those_after_it() -> None:
    model, tokens = build(TINY, "cpu", torch.float64, generator()), texts(TINY, 1, 8)
    changed = tokens.clone()
    changed[0, 5:] = (changed[0, 5:] + 1) % TINY.vocabulary
    before, after = model.states(tokens), model.states(changed)
    assert torch.equal(before[0, :5], after[0, :5])
    assert not torch.equal(before[0, 5:], after[0, 5:])
    # An earlier one is seen.
    changed = tokens.clone()
    changed[0, 0] = (changed[0, 0] + 1) % TINY.vocabulary
    assert (model.states(changed)[0, 7] - before[0, 7]).norm() / before[0, 7].norm() > 1e-3


def test_attention_depends_on_places() -> None:
    # Of one layer: in a second one, the tokens in between have themselves seen others.
    sizes = ModelConfig(**TINY.sizes | {"layers": 1})
    model, tokens = build(sizes, "cpu", torch.float64, generator()), texts(sizes, 1, 8)
    turned = tokens.clone()
    turned[0, :7] = tokens[0, :7].flip(0)
    assert not torch.allclose(model.states(tokens)[0, 7], model.states(turned)[0, 7], rtol=0, atol=1e-4)
    # And on nothing but how far apart they are.
    first, later = model.turns(0, 12), model.turns(5, 12)
    query, key = torch.randn(2, 1, 1, 12, sizes.head_width, dtype=torch.float64, generator=generator())
    early, late = (rotate(query, turns) @ rotate(key, turns).mT for turns in (first, later))
    assert torch.allclose(early, late, rtol=0, atol=1e-4)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.7, 0.999, 1.0])
def test_a_draft_agrees_as_often_as_asked(fraction: float) -> None:
    successor = successors(1000, "cpu", generator())
    draft = agreeing(successor, fraction, generator(7))
    assert torch.equal(draft.sort().values, torch.arange(1000))
    # One token cannot differ alone.
    assert (draft == successor).sum().item() == (1000 if fraction == 0.999 else round(1000 * fraction))


def test_a_draft_model_says_what_it_was_told() -> None:
    successor = successors(TINY.vocabulary, "cpu", generator())
    small = ModelConfig(layers=1, width=64, heads=2, kv_heads=1, hidden=96, vocabulary=TINY.vocabulary)
    draft = build(small, "cpu", torch.float32, generator(8), agreeing(successor, 0.75, generator(9)))
    large = build(TINY, "cpu", torch.float32, generator(), successor)
    tokens = every_token(TINY)
    said, right = draft(tokens).argmax(-1), large(tokens).argmax(-1)
    assert (said == right).float().mean().item() == 0.75
    assert torch.equal(right, successor[tokens])


def test_what_is_no_fraction_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        agreeing(successors(8, "cpu", generator()), 1.5, generator())
    assert str(caught.value) == "an agreement of 1.5 was requested; accepted is a number from 0 to 1"


def test_successors_are_one_cycle() -> None:
    following = successors(101, "cpu", generator())
    seen, token = set(), 0
    for _ in range(101):
        token = int(following[token])
        seen.add(token)
    assert seen == set(range(101))


def test_the_weights_are_not_copied_and_counted() -> None:
    weights = planted(TINY, "cpu", torch.float32, generator())
    model = Transformer(TINY, weights)
    assert model.head.data_ptr() == weights["head"].data_ptr()
    assert sum(one.numel() for one in model.parameters()) == TINY.parameters
    assert 1.08e9 < config("1b").parameters < 1.12e9
    assert ModelConfig(**TINY.sizes) == TINY


def test_flops_are_those_of_the_products() -> None:
    model = config("1b")
    assert model.flops(1, 0, 1) == 2 * (model.layers * model.layer_parameters + model.width * model.vocabulary)
    assert model.flops(0, 1, 0) == 4 * model.layers * model.width


def test_other_models_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        config("2b")
    assert str(caught.value) == "'2b' is not a synthetic model; accepted are 'tiny', '1b', '8b4'"
    sizes = TINY.sizes
    for changed, message in (
        ({"layers": 0}, "a model has layers=0; accepted are whole numbers from 1"),
        ({"heads": 3}, "a model has width=128 and heads=3; accepted is an even width of each head"),
        ({"kv_heads": 3}, "a model has heads=4 and kv_heads=3; accepted are heads that share evenly"),
    ):
        with pytest.raises(UsageError) as caught:
            ModelConfig(**sizes | changed)
        assert str(caught.value) == message
