"""Families of models against published numbers of parameters, and the caches of local and recurrent layers."""

import pytest

from aiperf_calc import parallel
from aiperf_calc.kv_cache import cache_bytes, cached, token_bytes
from aiperf_calc.model import forward_flops, parameters, places, training_flops_per_token
from aiperf_calc.shape import of_config
from aiperf_core.errors import UsageError

GIB = 1 << 30


def model(kind, layers, width, vocabulary, **keys):
    return {"model_type": kind, "num_hidden_layers": layers, "hidden_size": width, "vocab_size": vocabulary} | keys


def heads(heads, kv_heads, hidden, **keys):
    return {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "intermediate_size": hidden} | keys


def experts(count, chosen, **keys):
    return {"num_experts": count, "num_experts_per_tok": chosen} | keys


def mamba2(heads, groups, state):
    return {"mamba_n_heads": heads, "mamba_d_head": 64, "mamba_n_groups": groups, "mamba_d_state": state,
            "mamba_d_conv": 4}  # fmt: skip


FALCON = {"multi_query": True, "parallel_attn": True, "bias": False, "alibi": False}
MAMBA = {"state_size": 16, "conv_kernel": 4, "expand": 2}
GPT_OSS = heads(64, 8, 2880, head_dim=64, num_local_experts=32, experts_per_token=4, sliding_window=128)
GRANITE = [("attention" if layer in (5, 15, 25, 35) else "mamba") for layer in range(40)]
GEMMA_2_9B = model("gemma2", 42, 3584, 256000, **heads(16, 8, 14336, head_dim=256), sliding_window=4096)
GEMMA_3_1B = model("gemma3_text", 26, 1152, 262144, **heads(4, 1, 6912, head_dim=256), sliding_window=512,
                   _sliding_window_pattern=6)  # fmt: skip
JAMBA = model(
    "jamba", 32, 4096, 65536, **heads(32, 8, 14336), **experts(16, 2), attn_layer_period=8, attn_layer_offset=4,
    expert_layer_period=2, expert_layer_offset=1, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=256,
)  # fmt: skip
QWEN_3_NEXT = model(
    "qwen3_next", 48, 2048, 151936, **heads(16, 2, 5120, head_dim=256),
    **experts(512, 10, moe_intermediate_size=512, shared_expert_intermediate_size=512), linear_num_value_heads=32,
    linear_num_key_heads=16, linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4,
    full_attention_interval=4,
)  # fmt: skip
MAMBA_28B = model("mamba", 64, 2560, 50280, **MAMBA, time_step_rank="auto")
NEMOTRON_H = model(
    "nemotron_h", 52, 4096, 131072, **heads(32, 8, 21504, attention_head_dim=128), mamba_num_heads=128,
    mamba_head_dim=64, n_groups=8, ssm_state_size=128, conv_kernel=4,
    hybrid_override_pattern="M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
)  # fmt: skip

# The numbers of the reference implementations (transformers 4.57 for all but Nemotron-H, whose checkpoint is counted).
# GLM 4.5 has a bias of the router beside them, and layers that predict further tokens, which are left out.
PUBLISHED = {
    "gemma-2b": (model("gemma", 18, 2048, 256000, **heads(8, 1, 16384, head_dim=256)), 2_506_172_416),
    "gemma-7b": (model("gemma", 28, 3072, 256000, **heads(16, 16, 24576, head_dim=256)), 8_537_680_896),
    "gemma-2-2b": (model("gemma2", 26, 2304, 256000, **heads(8, 4, 9216, head_dim=256), sliding_window=4096),
                   2_614_341_888),
    "gemma-2-9b": (GEMMA_2_9B, 9_241_705_984),
    "gemma-3-1b": (GEMMA_3_1B, 999_885_952),
    "phi-2": (model("phi", 32, 2560, 51200, num_attention_heads=32, n_inner=10240), 2_779_683_840),
    "phi-3-mini": (model("phi3", 32, 3072, 32064, **heads(32, 32, 8192), sliding_window=2047), 3_821_079_552),
    "phi-4": (model("phi3", 40, 5120, 100352, **heads(40, 10, 17920), sliding_window=None), 14_659_507_200),
    "phi-3.5-moe": (model("phimoe", 32, 4096, 32064, **heads(32, 8, 6400), num_local_experts=16, num_experts_per_tok=2,
                          attention_bias=True, lm_head_bias=True), 41_873_153_344),
    "falcon-7b": (model("falcon", 32, 4544, 65024, n_head=71, num_kv_heads=71, **FALCON), 6_921_720_704),
    "falcon-40b": (model("falcon", 60, 8192, 65024, n_head=128, num_kv_heads=8, new_decoder_architecture=True,
                         **FALCON), 41_303_293_952),
    "falcon-11b": (model("falcon", 60, 4096, 65024, n_head=32, num_kv_heads=8, new_decoder_architecture=True,
                         ffn_hidden_size=16384, num_ln_in_parallel_attn=1, tie_word_embeddings=False, **FALCON),
                   11_102_822_400),
    "starcoder2-3b": (model("starcoder2", 30, 3072, 49152, **heads(24, 2, 12288), use_bias=True), 3_030_371_328),
    "starcoder2-7b": (model("starcoder2", 32, 4608, 49152, **heads(36, 4, 18432), use_bias=True), 7_173_923_840),
    "gpt-oss-20b": (model("gpt_oss", 24, 2880, 201088, **GPT_OSS), 20_914_757_184),
    "gpt-oss-120b": (model("gpt_oss", 36, 2880, 201088, **GPT_OSS | {"num_local_experts": 128}), 116_829_156_672),
    "olmo-2-7b": (model("olmo2", 32, 4096, 100352, **heads(32, 32, 11008)), 7_298_617_344),
    "olmo-3-7b": (model("olmo3", 32, 4096, 100278, **heads(32, 32, 11008), sliding_window=4096), 7_298_011_136),
    "olmoe-1b-7b": (model("olmoe", 16, 2048, 50304, **heads(16, 16, 1024), **experts(64, 8)), 6_919_161_856),
    "command-r": (model("cohere", 40, 8192, 256000, **heads(64, 64, 22528)), 34_980_831_232),
    "command-r-plus": (model("cohere", 64, 12288, 256000, **heads(96, 8, 33792), use_qk_norm=True), 103_810_674_688),
    "command-r7b": (model("cohere2", 32, 4096, 256000, **heads(32, 8, 14336), sliding_window=4096), 8_028_033_024),
    "glm-4-9b": (model("glm", 40, 4096, 151552, **heads(32, 2, 13696), attention_bias=True), 9_399_951_360),
    "glm-4-9b-0414": (model("glm4", 40, 4096, 151552, **heads(32, 2, 13696), attention_bias=True), 9_400_279_040),
    "granite-3-8b": (model("granite", 40, 4096, 49155, **heads(32, 8, 12800), tie_word_embeddings=True),
                     8_170_848_256),
    "qwen3-30b-a3b": (model("qwen3_moe", 48, 2048, 151936, **heads(32, 4, 6144, head_dim=128),
                            **experts(128, 8, moe_intermediate_size=768)), 30_532_122_624),
    "qwen1.5-moe": (model("qwen2_moe", 24, 2048, 151936, **heads(16, 16, 5632),
                          **experts(60, 4, moe_intermediate_size=1408, shared_expert_intermediate_size=5632)),
                    14_315_784_192),
    "glm-4.5-air": (model("glm4_moe", 46, 4096, 151552, **heads(96, 8, 10944, head_dim=128), attention_bias=True,
                          n_routed_experts=128, num_experts_per_tok=8, moe_intermediate_size=1408, n_shared_experts=1,
                          first_k_dense_replace=1, num_nextn_predict_layers=1), 106_852_251_264),
    "qwen3-next-80b": (QWEN_3_NEXT, 79_674_391_296),
    "jamba-v0.1": (JAMBA, 51_570_323_328),
    "bamba-9b": (model("bamba", 32, 4096, 128256, **heads(32, 8, 14336), attn_layer_indices=[9, 18, 27],
                       **mamba2(128, 1, 128)), 9_780_235_392),
    "granite-4-h-tiny": (model("granitemoehybrid", 40, 1536, 100352, **heads(12, 4, 512), num_local_experts=64,
                               num_experts_per_tok=6, shared_intermediate_size=1024, layer_types=GRANITE,
                               tie_word_embeddings=True, **mamba2(48, 1, 128)), 6_939_037_248),
    "granite-4-h-micro": (model("granitemoehybrid", 40, 2048, 100352, **heads(32, 8, 8192), num_local_experts=0,
                                num_experts_per_tok=0, shared_intermediate_size=8192, layer_types=GRANITE,
                                tie_word_embeddings=True, **mamba2(64, 1, 128)), 3_191_396_096),
    "falcon-h1-1.5b": (model("falcon_h1", 24, 2048, 65537, **heads(8, 2, 4096, head_dim=128), mamba_d_ssm=3072,
                             mamba_rms_norm=False, **mamba2(48, 1, 256)), 1_479_292_288),
    "nemotron-h-8b": (NEMOTRON_H, 8_100_852_736),
    "mamba-2.8b": (MAMBA_28B, 2_768_345_600),
    "falcon-mamba-7b": (model("falcon_mamba", 64, 4096, 65024, **MAMBA, time_step_rank=256, intermediate_size=8192,
                              tie_word_embeddings=False), 7_272_665_088),
    "codestral-mamba": (model("mamba2", 64, 4096, 32768, num_heads=128, head_dim=64, n_groups=8, state_size=128,
                              conv_kernel=4, expand=2), 7_285_403_648),
}  # fmt: skip


@pytest.mark.parametrize(("config", "expected"), PUBLISHED.values(), ids=PUBLISHED)
def test_parameters_of_published_models(config, expected):
    assert parameters(of_config(config)).total == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("gpt-oss-20b", (12, 12, 128)), ("gemma-2-9b", (21, 21, 4096)), ("gemma-3-1b", (4, 22, 512)),
     ("command-r7b", (8, 24, 4096)), ("phi-3-mini", (0, 32, 2047)), ("phi-4", (40, 0, 0)), ("jamba-v0.1", (4, 0, 0)),
     ("falcon-h1-1.5b", (24, 0, 0)), ("mamba-2.8b", (0, 0, 0))],
)  # fmt: skip
def test_layers_of_attention_by_their_windows(name, expected):
    kept = cached(of_config(PUBLISHED[name][0]))
    assert (kept.layers, kept.local_layers, kept.window) == expected


def test_local_layers_bound_the_cache_and_the_operations():
    shape = of_config(GEMMA_3_1B)
    assert cache_bytes(cached(shape), "bf16", 10_000, 1) == (4 * 10_000 + 22 * 512) * 2 * 256 * 2
    full = of_config(GEMMA_3_1B | {"layer_types": ["full_attention"] * 26})
    difference = places(10_000) - places(10_000, 512)
    assert difference == sum(max(0, place - 512) for place in range(10_001))
    whole = forward_flops(full, 10_000, places(10_000))
    assert whole - forward_flops(shape, 10_000, places(10_000), places(10_000, 512)) == 22 * difference * 4 * 4 * 256
    assert training_flops_per_token(full, 600) - training_flops_per_token(shape, 600) == 22 * 88 * 12 * 4 * 256


@pytest.mark.parametrize(
    ("config", "numbers"),
    [
        # An inner width of 5,120 with 16 numbers each, and the last 3 inputs of the convolution.
        (MAMBA_28B, 64 * 5120 * (16 + 3)),
        (JAMBA, 28 * 8192 * (16 + 3)),
        # 32 heads of 128 x 128, and 3 inputs of queries, keys and values.
        (QWEN_3_NEXT, 36 * (32 * 128 * 128 + 3 * (2 * 2048 + 4096))),
        # 128 heads of 64 x 128, and 3 inputs with those of 8 groups.
        (NEMOTRON_H, 24 * (128 * 64 * 128 + 3 * (8192 + 2 * 8 * 128))),
    ],
)
def test_the_state_of_a_sequence_is_the_same_at_all_lengths(config, numbers):
    kept = cached(of_config(config))
    assert kept.state == numbers
    for tokens in (1, 1000):
        cache = tokens * token_bytes(kept, "fp8")
        assert cache_bytes(kept, "fp8", tokens, 3) == 3 * (cache + 2 * numbers)
        assert cache_bytes(kept, "fp32", tokens, 3) == 3 * 4 * (cache + numbers)


def test_recurrence_counts_the_state_of_each_token():
    shape, found = of_config(MAMBA_28B), parameters(of_config(MAMBA_28B))
    assert forward_flops(shape, 7, 28) == 2 * 7 * (found.matrices + found.embedding + 64 * 2 * 5120 * 16)


def test_recurrent_layers_are_not_divided():
    shape = of_config(JAMBA)
    ways = parallel.ways(shape, 8, 141 * GIB, GIB, parallel.Work(tokens=1024))
    assert {way.tensor for way in ways} == {1}
    with pytest.raises(UsageError) as caught:
        parallel.ways(shape, 8, 141 * GIB, GIB, parallel.Work(train=True))
    assert str(caught.value) == "the activations of recurrent layers (jamba) are not known. Leave out --train."


def test_the_fullest_stage_has_the_layers_that_follow_each_other():
    shape = of_config(JAMBA)
    found = parameters(shape)
    two = next(way for way in parallel.ways(shape, 2, 141 * GIB, GIB, parallel.Work(tokens=1)) if way.pipeline == 2)
    # Each half has 8 of the 16 layers of experts; embedding, head and the last norm are on one GPU.
    ends = found.embedding + found.head + 4096
    assert two.weights == 2 * ((found.total - ends) / 2 + ends)
    deep = of_config(PUBLISHED["glm-4.5-air"][0])
    eight = next(way for way in parallel.ways(deep, 8, 141 * GIB, GIB, parallel.Work()) if way.pipeline == 8)
    found = parameters(deep)
    assert eight.weights > 2 * 6 / 45 * found.experts  # a stage of 6 layers, all with experts


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (GEMMA_3_1B | {"sliding_window": None}, "the config has no 'sliding_window'. Add it."),
        (GEMMA_3_1B | {"layer_types": ["full_attention"] * 25},
         "the config has 25 layer_types for 26 layers; accepted is one a layer."),
        (GEMMA_3_1B | {"layer_types": ["chunked_attention"] * 26},
         "the config has 'chunked_attention' in layer_types; known: full_attention, attention, sliding_attention, "
         "mamba, linear_attention."),
        (NEMOTRON_H | {"hybrid_override_pattern": "ME" * 26},
         "the config has no hybrid_override_pattern of 52 letters M, * and -."),
        (JAMBA | {"num_experts_per_tok": 17},
         "the config has 17 experts of a token and 16 of a layer; accepted is at most 16 of a token."),
        (PUBLISHED["falcon-h1-1.5b"][0] | {"mamba_d_ssm": 3000},
         "the config has 48 heads of 64 in recurrent layers of width 3000; their product must be the width."),
        (PUBLISHED["phi-2"][0] | {"qk_layernorm": True}, "the config has qk_layernorm=True; accepted is False."),
        (PUBLISHED["bamba-9b"][0] | {"attn_layer_indices": [-1]},
         "the config has attn_layer_indices=[-1]; accepted is a list of numbers of layers from 0."),
    ],
)  # fmt: skip
def test_configs_of_families_that_are_refused(config, message):
    with pytest.raises(UsageError) as caught:
        of_config(config)
    assert str(caught.value) == message
