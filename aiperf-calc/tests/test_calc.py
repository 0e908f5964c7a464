"""The calculators against published figures, against synthetic models, and with bad input."""

import json

import pytest

from aiperf_calc import cost, parallel
from aiperf_calc.families import FAMILIES
from aiperf_calc.kv_cache import Cached, cache_bytes, cached, token_bytes
from aiperf_calc.model import (
    activation_bytes,
    forward_flops,
    parameters,
    training,
    training_flops_per_token,
    weight_bytes,
)
from aiperf_calc.parts import ModelShape
from aiperf_calc.quantities import bytes_of, scaled_bytes
from aiperf_calc.shape import of_config
from aiperf_core.errors import UsageError
from aiperf_core.models.sizes import CONFIGS

GIB = 1 << 30


def llama(**sizes):
    found = {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
             "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "rope_theta": 500000.0,
             "torch_dtype": "bfloat16", "tie_word_embeddings": False}  # fmt: skip
    return found | sizes


# The shapes of published models, as their config.json has them.
LLAMA_2_7B = llama(num_key_value_heads=32, intermediate_size=11008, vocab_size=32000)
LLAMA_3_8B = llama()
LLAMA_3_70B = llama(num_hidden_layers=80, hidden_size=8192, num_attention_heads=64, intermediate_size=28672)
QWEN_25_7B = llama(
    model_type="qwen2", num_hidden_layers=28, hidden_size=3584, num_attention_heads=28, num_key_value_heads=4,
    intermediate_size=18944, vocab_size=152064, sliding_window=131072, max_window_layers=28, use_sliding_window=False,
)  # fmt: skip
QWEN_3_8B = llama(
    model_type="qwen3", num_hidden_layers=36, head_dim=128, intermediate_size=12288, vocab_size=151936,
    attention_bias=False,
)  # fmt: skip
MISTRAL_7B = llama(model_type="mistral", vocab_size=32000, sliding_window=4096)
MIXTRAL_8X7B = llama(
    model_type="mixtral", vocab_size=32000, num_local_experts=8, num_experts_per_tok=2, sliding_window=None
)
DEEPSEEK_V3 = llama(
    model_type="deepseek_v3", num_hidden_layers=61, hidden_size=7168, num_attention_heads=128, num_key_value_heads=128,
    intermediate_size=18432, vocab_size=129280, moe_intermediate_size=2048, n_routed_experts=256, n_shared_experts=1,
    num_experts_per_tok=8, first_k_dense_replace=3, moe_layer_freq=1, kv_lora_rank=512, q_lora_rank=1536,
    qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128, num_nextn_predict_layers=1,
)  # fmt: skip
GPT_2 = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "n_ctx": 1024,
         "vocab_size": 50257, "summary_type": "cls_index"}  # fmt: skip
GPT_3 = ModelShape(layers=96, width=12288, heads=96, kv_heads=96, head_width=128, hidden=4 * 12288, vocabulary=50257,
                   gated=False)  # fmt: skip


@pytest.mark.parametrize(
    ("config", "expected"),
    [(LLAMA_2_7B, 524_288), (LLAMA_3_8B, 131_072), (LLAMA_3_70B, 327_680), (QWEN_25_7B, 57_344), (DEEPSEEK_V3, 70_272)],
)
def test_cache_of_a_token_of_published_models(config, expected):
    assert token_bytes(cached(of_config(config)), "bf16") == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (LLAMA_2_7B, 6_738_415_616),
        (LLAMA_3_8B, 8_030_261_248),
        (LLAMA_3_70B, 70_553_706_496),
        (QWEN_25_7B, 7_615_616_512),
        (QWEN_3_8B, 8_190_735_360),
        (MISTRAL_7B, 7_241_732_096),
        (MIXTRAL_8X7B, 46_702_792_704),
        (DEEPSEEK_V3, 671_026_419_200),
        (GPT_2, 124_439_808),
    ],
)
def test_parameters_of_published_models(config, expected):
    assert parameters(of_config(config)).total == expected


def test_a_token_of_a_model_with_experts_uses_a_part():
    found = parameters(of_config(MIXTRAL_8X7B))
    assert found.active == 12_879_925_248
    assert parameters(of_config(LLAMA_3_8B)).active == 8_030_261_248


def test_activations_of_a_layer_of_gpt_3():
    assert activation_bytes(GPT_3, 2048, 1) == pytest.approx(2.87e9, rel=1e-3)
    # Korthikanti et al., 2022, table 2: each term by itself.
    base = 2048 * 12288
    assert activation_bytes(GPT_3, 2048, 1) == base * (34 + 5 * 96 * 2048 / 12288)
    assert activation_bytes(GPT_3, 2048, 1, recomputation="selective") == 34 * base
    assert activation_bytes(GPT_3, 2048, 1, recomputation="full") == 2 * base
    assert activation_bytes(GPT_3, 2048, 1, tensor=8) == base * (10 + 24 / 8 + 80 / 8)
    assert activation_bytes(GPT_3, 2048, 1, tensor=8, sequence=True) == base / 8 * (34 + 80)
    with pytest.raises(UsageError, match="'half' is no recomputation. Accepted: none, selective, full."):
        activation_bytes(GPT_3, 2048, 1, recomputation="half")


def test_the_example_with_full_heads_and_with_8():
    full = Cached(layers=80, elements=2 * 8192)
    shared = Cached(layers=80, elements=2 * 8 * 128)
    assert cache_bytes(full, "fp8", 4096, 8) == 40 * GIB
    assert cache_bytes(shared, "fp8", 4096, 8) == 5 * GIB


def test_pages_windows_and_scales():
    kept = Cached(layers=2, elements=16)
    assert cache_bytes(kept, "bf16", 17, 3, page=16) == 3 * 2 * 32 * 16 * 2
    local = Cached(layers=1, elements=16, local_layers=1, window=8)
    assert cache_bytes(local, "bf16", 100, 1) == (100 + 8) * 16 * 2
    assert cache_bytes(local, "bf16", 5, 1) == 10 * 16 * 2
    # A scale of two bytes for every 8 of 16 numbers.
    assert token_bytes(kept, "int8", 8, 2) == 2 * (16 + 2 * 2)
    assert scaled_bytes(10, "fp4", 8, 1) == 5 + 2
    with pytest.raises(UsageError, match="a window of 1 token or more"):
        Cached(layers=1, elements=16, local_layers=1)
    with pytest.raises(UsageError, match="from 1; got 0 tokens"):
        cache_bytes(kept, "bf16", 0, 1)
    mistral = cached(of_config(MISTRAL_7B))
    assert (mistral.layers, mistral.local_layers, mistral.window) == (0, 32, 4096)


@pytest.mark.parametrize("name", ["tiny"])
def test_the_memory_of_a_synthetic_model_is_what_the_formulas_say(name):
    torch = pytest.importorskip("torch")
    from aiperf_core.models import Cache, build

    config = CONFIGS[name]
    shape = ModelShape(
        layers=config.layers, width=config.width, heads=config.heads, kv_heads=config.kv_heads,
        head_width=config.head_width, hidden=config.hidden, vocabulary=config.vocabulary,
    )  # fmt: skip
    model = build(config, "cpu", torch.bfloat16, torch.Generator().manual_seed(1))
    tensors = [*model.parameters(), *model.buffers()]
    held = sum(one.untyped_storage().nbytes() for one in tensors)
    assert parameters(shape).total == sum(one.numel() for one in model.parameters())
    assert weight_bytes(shape, "bf16") == pytest.approx(held, rel=0.02)
    cache = Cache(config, batch=3, room=65, device="cpu", dtype=torch.bfloat16)
    # All layers share a storage each for keys and for values.
    stored = cache.keys[0].untyped_storage().nbytes() + cache.values[0].untyped_storage().nbytes()
    assert cache_bytes(cached(shape), "bf16", 65, 3) == pytest.approx(stored, rel=0.02)


@pytest.mark.parametrize("config", CONFIGS.values())
def test_operations_agree_with_the_core(config):
    shape = ModelShape(
        layers=config.layers, width=config.width, heads=config.heads, kv_heads=config.kv_heads,
        head_width=config.head_width, hidden=config.hidden, vocabulary=config.vocabulary,
    )  # fmt: skip
    assert forward_flops(shape, 7, 28) == config.flops(7, 28, 7)
    assert parameters(shape).total == config.parameters


def test_operations_of_training_are_those_of_palm():
    # Appendix B: 6 N + 12 L H Q T, with N without the embedding that is only looked up.
    shape = of_config(LLAMA_3_8B)
    found = parameters(shape)
    attention = 12 * 32 * 32 * 128 * 8192
    expected = 6 * (found.total - found.embedding - found.vectors) + attention
    assert training_flops_per_token(shape, 8192) == expected


def test_zero_divides_more_with_each_stage():
    # Rajbhandari et al., 2020, figure 1: 7.5e9 parameters on 64 GPUs.
    expected = {0: 120e9, 1: 31.4e9, 2: 16.6e9, 3: 1.88e9}
    for stage, total in expected.items():
        assert training(7.5e9, stage, 64).total == pytest.approx(total, rel=0.01)
    with pytest.raises(UsageError, match="stages 0"):
        training(1, 4, 2)


def test_the_bubble_of_a_pipeline():
    assert parallel.bubble(4, 12) == 3 / 15
    assert parallel.bubble(1, 8) == 0
    with pytest.raises(UsageError, match="from 1; got 0"):
        parallel.bubble(0, 1)


def test_ways_keep_all_of_the_model_and_fit_by_memory():
    shape = of_config(LLAMA_3_70B)
    ways = parallel.ways(shape, 8, 80 * GIB, 4 * GIB, parallel.Work(sequences=1, tokens=128))
    assert all(way.tensor * way.pipeline * way.data == 8 for way in ways)
    by_name = {way.name: way for way in ways}
    whole = by_name["TP8 PP1 EP1 DP1 ZeRO0"]
    assert whole.weights * 8 == weight_bytes(shape, "bf16")
    assert whole.fit == "FITS"
    assert by_name["TP1 PP1 EP1 DP8 ZeRO0"].fit == "FAILS"
    assert all(way.low <= way.high for way in ways)
    # 1F1B keeps as many micro-batches in flight as there are stages.
    train = parallel.Work(train=True, tokens=2048, sequences=1, micro_batches=8)
    stages = {way.name: way for way in parallel.ways(shape, 8, 80 * GIB, 4 * GIB, train)}
    one, four = stages["TP1 PP1 EP1 DP8 ZeRO3"], stages["TP1 PP4 EP1 DP2 ZeRO3"]
    assert one.activations == pytest.approx(four.activations)
    assert one.optimizer * 8 == pytest.approx(12 * parameters(shape).total)


def test_expert_parallelism_divides_the_experts_evenly():
    shape = of_config(MIXTRAL_8X7B)
    ways = parallel.ways(shape, 8, 80 * GIB, 4 * GIB, parallel.Work())
    assert {way.expert for way in ways} == {1, 2, 4, 8}
    found = parameters(shape)
    eight = next(way for way in ways if (way.tensor, way.expert, way.pipeline) == (1, 8, 1))
    assert eight.weights == 2 * (found.total - found.experts + found.experts / 8)


def test_ways_refuse_an_impossible_reserve():
    with pytest.raises(UsageError, match="a reserve below it"):
        parallel.ways(of_config(LLAMA_3_8B), 8, GIB, GIB, parallel.Work())


def test_electricity_of_tokens():
    # 800 W, 1500 tokens/s and 0.16 USD a kWh: 0.0237 USD a million tokens, and 0.0356 at a PUE of 1.5.
    assert round(cost.electricity_per_million(800, 1500, 0.16), 4) == 0.0237
    assert round(cost.electricity_per_million(800, 1500, 0.16, 1.5), 4) == 0.0356


def test_rent_and_own_hardware():
    assert cost.rental(3.6, 2, 1000, 0.5) == pytest.approx(4.0)
    assert cost.per_million(3.6, 8, 1000, 0.5) == pytest.approx(16.0)
    assert cost.own_per_hour(8766 * 4, 0, 4, 0.5) == pytest.approx(2.0)
    assert cost.own_per_hour(8766 * 4, 8766 * 2, 4, 1, overhead_per_year=8766) == pytest.approx(1.5)
    with pytest.raises(UsageError, match="the residual value must lie between 0 and the price, 1; got 2."):
        cost.own_per_hour(1, 2, 4, 1)
    with pytest.raises(UsageError, match="the utilisation must be above 0 and at most 1; got 0."):
        cost.rental(1, 1, 1, 0)
    with pytest.raises(UsageError, match="a PUE is at least 1"):
        cost.electricity(1, 0.1, 0.9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("80GiB", 80 * GIB), ("141GB", 141e9), ("512", 512), ("1.5 MiB", 1.5 * 2**20), ("2kB", 2000)],
)
def test_sizes_of_memory(text, expected):
    assert bytes_of(text) == expected


@pytest.mark.parametrize("text", ["", "-1GiB", "0", "8 iB", "8 GiBs", "many"])
def test_sizes_that_are_none(text):
    with pytest.raises(ValueError, match="80GiB"):
        bytes_of(text)


# --- config files


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"model_type": "lama"},
            f"the config has model_type 'lama', whose shape is not known. Did you mean 'llama'? Known: "
            f"{', '.join(FAMILIES)}. Other models: give the sizes by options, such as --layers, --kv-heads and "
            "--head-dim.",
        ),
        (
            llama(num_experts=8),
            "the config has keys that are not known for 'llama' and may change the sizes: 'num_experts'. If they do not: "
            "--ignore num_experts",
        ),
        (
            llama(num_key_value_heads=None),
            "the config has no 'num_key_value_heads', and the hidden size alone does not tell the size of the cache of a "
            "model whose heads share keys and values. Give --kv-heads NUMBER; a model that shares none has as many as "
            "--heads.",
        ),
        (llama(vocab_size="many"), "the config has vocab_size='many'; accepted is a whole number from 1."),
        (llama(hidden_size=4097), "the config has hidden_size 4097, which 32 heads do not divide. Add 'head_dim', or "
                                  "give --head-dim NUMBER."),
        (llama(mlp_bias=1), "the config has mlp_bias=1; accepted is true or false."),
    ],
)  # fmt: skip
def test_configs_that_are_refused(config, message):
    with pytest.raises(UsageError) as caught:
        of_config(config)
    assert str(caught.value) == message


def test_a_missing_size_names_its_key():
    config = llama()
    del config["vocab_size"]
    with pytest.raises(UsageError, match="the config has no 'vocab_size'. Add it."):
        of_config(config)
    del config["num_hidden_layers"]
    with pytest.raises(UsageError, match="no 'num_hidden_layers'. Add it, or give --layers NUMBER."):
        of_config(config)
    assert of_config(llama(num_hidden_layers=None), given={"layers": 2}).layers == 2


def test_local_layers_by_their_types():
    kinds = ["sliding_attention", "full_attention"] * 14
    shape = of_config(QWEN_25_7B | {"use_sliding_window": True, "sliding_window": 1024, "layer_types": kinds})
    assert (shape.count("l"), shape.window) == (14, 1024)


# --- the command


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA_3_8B))
    return file


def test_kv_cache_from_a_config(calc, config):
    found = calc("kv-cache", "--config", config, "--tokens", 4096, "--memory", "80GiB", "--json")
    assert (found.code, found.err) == (0, "")
    document = json.loads(found.out)
    cells = {one["cells"]["what"]: one["cells"]["value"]["value"] for one in document["tables"][0]["records"]}
    assert cells == {"bytes of a token": 131_072, "a token": 131_072, "a sequence": 131_072 * 4096,
                     "all sequences": 131_072 * 4096, "sequences that fit": 160}  # fmt: skip


def test_the_hidden_size_alone_asks_for_kv_heads(calc):
    found = calc("kv-cache", "--layers", 80, "--hidden", 8192, "--tokens", 4096, "--batch", 8, "--dtype", "fp8")
    assert found.code == 2
    assert found.err == (
        "aiperf: the hidden size alone does not tell the size of the cache: many models share keys and values between "
        "heads. Give --kv-heads NUMBER and --head-dim NUMBER; --kv-heads all for a model in which every head has its "
        "own.\n"
    )
    asked = ("kv-cache", "--layers", 80, "--hidden", 8192, "--tokens", 4096, "--batch", 8, "--dtype", "fp8")
    assert "40 GiB for 8 sequences of 4,096 tokens in fp8." in calc(*asked, "--kv-heads", "all").out
    assert "\n5 GiB for 8 sequences" in calc(*asked, "--kv-heads", 8, "--heads", 64).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("kv-cache", "--kv-heads", 8, "--head-dim", 128), "a cache needs --layers, or --config"),
        (("kv-cache", "--layers", 2, "--kv-heads", "few", "--head-dim", 8), "--kv-heads takes a whole number from 1"),
        (("kv-cache", "--layers", 2, "--kv-heads", 8), "a cache needs the width of a head"),
        (("kv-cache", "--layers", 2, "--kv-heads", 8, "--head-dim", 8, "--dtype", "bf15"),
         "'bf15' is not a number format. Did you mean 'bf16'? Accepted: fp32, tf32, bf16,"),
        (("kv-cache", "--layers", 2, "--kv-heads", 8, "--head-dim", 8, "--memory", "much"),
         "--memory got 'much'; it takes a number of bytes above 0, such as 80GiB"),
        (("model",), "--config is missing: the config.json of the model. Options such as --layers replace its sizes."),
        (("model", "--config", "gone.json"), "cannot read 'gone.json': No such file or directory."),
        (("cost-per-token", "--tokens-per-second", 0, "--watts", 1, "--tariff", 1),
         "--tokens-per-second must be a number above 0; got 0."),
        (("cost-per-token", "--tokens-per-second", 9, "--watts", -5, "--tariff", 1),
         "--watts must be a number above 0; got -5."),
        (("cost-per-token", "--tokens-per-second", 9, "--watts", 5), "electricity needs both --watts and --tariff"),
        (("cost-per-token", "--tokens-per-second", 9), "a cost needs --watts with --tariff"),
    ],
)  # fmt: skip
def test_bad_input_of_the_command(calc, arguments, message):
    found = calc(*arguments)
    assert found.code == 2
    assert found.err.startswith(f"aiperf: {message}"), found.err
    assert found.out == ""


def test_cost_per_token(calc):
    found = calc("cost-per-token", "--watts", 800, "--tokens-per-second", 1500, "--tariff", 0.16, "--pue", 1.5)
    assert found.code == 0
    assert "0.0356 USD of electricity for a million tokens." in found.out


def test_model_and_parallel(calc, config, tmp_path):
    found = calc("model", "--config", config)
    assert "8,030,261,248 parameters, 15.0 GiB in bf16." in found.out
    ways = calc("parallel", "--config", config, "--gpus", 4, "--memory", "24GiB", "--out", tmp_path / "ways.svg")
    assert (ways.code, ways.out) == (0, "")
    assert (tmp_path / "ways.svg").read_text().startswith("<svg")
    none = calc("parallel", "--config", config, "--gpus", 1, "--memory", "8GiB")
    assert none.code == 1
    assert "No way fits 1 GPU of 8 GiB." in none.out
