"""Number formats of quantised checkpoints against published sizes of files, and those that are refused."""

import json

import pytest

from aiperf_calc import parallel
from aiperf_calc.checkpoint import cache_format
from aiperf_calc.model import parameters, weight_bytes, weights
from aiperf_calc.shape import of_config
from aiperf_core.errors import UsageError

LLAMA = {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
         "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "torch_dtype": "bfloat16"}  # fmt: skip
GPT_OSS = {"model_type": "gpt_oss", "num_hidden_layers": 24, "hidden_size": 2880, "num_attention_heads": 64,
           "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "vocab_size": 201088,
           "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128}  # fmt: skip
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
    "intermediate_size": 18432, "vocab_size": 129280, "moe_intermediate_size": 2048, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "kv_lora_rank": 512,
    "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
}  # fmt: skip
BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e4m3", "activation_scheme": "dynamic"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "modules_to_not_convert": None}
BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
MXFP4 = {"quant_method": "mxfp4", "modules_to_not_convert": [
    "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}  # fmt: skip
FBGEMM = {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}
MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}


def compressed(targets=("Linear",), **weights):
    group = {"targets": list(targets), "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"} | weights}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"]}


def quantised(config, base=LLAMA):
    return of_config(base | {"quantization_config": config})


MATRICES = 6_979_321_856  # of the layers of LLAMA
REST = 2 * (8_030_261_248 - MATRICES)  # bytes of its embedding, head and norms
ATTENTION, DOWN = 2 * 4096 * (4096 + 1024), 4096 * 14336
OUTPUTS = 32 * (2 * 4096 + 2 * 1024 + 2 * 14336 + 4096)
INPUTS = 32 * (6 * 4096 + 14336)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (BLOCKS, MATRICES + MATRICES / 128**2 * 4 + REST),
        (BLOCKS | {"weight_block_size": None}, MATRICES + 7 * 32 * 4 + REST),
        (FBGEMM, MATRICES + OUTPUTS * 4 + REST),
        (FBGEMM | {"modules_to_not_convert": ["lm_head", "model.layers.0.mlp.down_proj", "layers.31.self_attn"]},
         MATRICES + OUTPUTS * 4 + REST + DOWN + ATTENTION - 4 * (4096 + 2 * 4096 + 2 * 1024)),
        (GPTQ, MATRICES * (1 / 2 + 2.5 / 128) + INPUTS * 4 + REST),
        (GPTQ | {"bits": 8, "group_size": -1}, MATRICES + OUTPUTS * 3 + INPUTS * 4 + REST),
        (GPTQ | {"modules_in_block_to_quantize": [["mlp.down_proj"]]},
         32 * (DOWN * (1 / 2 + 2.5 / 128 - 2) + 14336 * 4) + 2 * MATRICES + REST),
        (GPTQ | {"lm_head": True}, MATRICES * (1 / 2 + 2.5 / 128) + INPUTS * 4 + REST
         + 128256 * 4096 * (1 / 2 + 2.5 / 128 - 2) + 4096 * 4),
        (AWQ, MATRICES * (1 / 2 + 2.5 / 128) + REST),
        (AWQ | {"zero_point": False}, MATRICES * (1 / 2 + 2 / 128) + REST),
        (BNB, MATRICES * (1 / 2 + 4 / 64) + REST),
        (BNB | {"bnb_4bit_use_double_quant": True}, MATRICES * (1 / 2 + (1 + 4 / 256) / 64) + REST),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, MATRICES + OUTPUTS * 4 + REST),
        (MODELOPT, MATRICES * (1 / 2 + 1 / 16) + REST),
        (MODELOPT | {"ignore": ["lm_head", "*.self_attn*"]},
         MATRICES * (1 / 2 + 1 / 16) + 32 * ATTENTION * (2 - 1 / 2 - 1 / 16) + REST),
        ({"quant_method": "modelopt", "quant_algo": None, "kv_cache_quant_algo": "FP8"}, 2 * MATRICES + REST),
        (compressed(), MATRICES + 7 * 32 * 2 + REST),
        (compressed(strategy="channel"), MATRICES + OUTPUTS * 2 + REST),
        (compressed(num_bits=4, type="int", strategy="group", group_size=128), MATRICES * (1 / 2 + 2 / 128) + REST),
        (compressed(num_bits=4, type="int", strategy="group", group_size=128, symmetric=False),
         MATRICES * (1 / 2 + 2.5 / 128) + REST),
        (compressed(strategy="block", block_structure=[128, 128]), MATRICES * (1 + 2 / 128**2) + REST),
        (compressed(["re:.*self_attn.*"]), 32 * (4 * 2 - ATTENTION) + 2 * MATRICES + REST),
        (compressed(num_bits=4, strategy="tensor_group", group_size=16) | {"format": "nvfp4-pack-quantized"},
         MATRICES * (1 / 2 + 1 / 16) + REST),
        (compressed(strategy="channel") | {"ignore": []},
         MATRICES + (OUTPUTS + 128256) * 2 + REST - 128256 * 4096),
        ({}, 2 * MATRICES + REST),
    ],
)  # fmt: skip
def test_weights_with_their_scales(config, expected):
    assert weight_bytes(quantised(config)) == pytest.approx(expected, rel=1e-12)


def test_bytes_of_published_checkpoints():
    # `total_size` in the index of gpt-oss-20b and of gpt-oss-120b.
    assert weight_bytes(quantised(MXFP4, GPT_OSS)) == 13_761_264_768
    large = GPT_OSS | {"num_hidden_layers": 36, "num_local_experts": 128}
    assert weight_bytes(quantised(MXFP4, large)) == 65_248_815_744


def test_experts_stay_whole_blocks_and_the_router_unquantised():
    shape, found = quantised(BLOCKS, DEEPSEEK_V3), parameters(of_config(DEEPSEEK_V3))
    kept = found.vectors + found.embedding + found.head + 58 * 7168 * 256
    blocks = (found.total - kept) / 128**2
    # A side of 576 has 4.5 blocks, and so 5 scales.
    expected = found.total - kept + 4 * (blocks + 61 * 0.5 * 56) + 2 * kept
    assert weight_bytes(shape) == expected
    ways = parallel.ways(shape, 8, 141 * (1 << 30), 1e9, parallel.Work())
    assert any(way.fit == "FITS" for way in ways)
    # The last layers of a stage may be unquantised: the fullest one counts.
    uneven = quantised(FBGEMM | {"modules_to_not_convert": ["layers.31"]})
    two = next(way for way in parallel.ways(uneven, 2, 1e12, 0, parallel.Work()) if way.pipeline == 2)
    assert two.weights == weights(uneven, None).ends + 16 * 2 * MATRICES / 32 + 16 * 2 * 2 * 4096


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (BLOCKS | {"kv_cache_scheme": "static"}, "fp8"),
        (compressed() | {"kv_cache_scheme": {"num_bits": 8, "type": "float", "strategy": "tensor"}}, "fp8"),
        (compressed() | {"kv_cache_scheme": {"num_bits": 8, "type": "int"}}, "int8"),
        (MODELOPT | {"kv_cache_quant_algo": "FP8"}, "fp8"),
        (MODELOPT | {"kv_cache_quant_algo": None}, "bf16"),
    ],
)
def test_the_cache_has_the_format_that_the_checkpoint_asks_for(config, expected):
    assert cache_format(quantised(config).stored, "--dtype") == expected


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quant_method": "hqq"},
         "quant_method='hqq'; known: fp8, fbgemm_fp8, gptq, awq, bitsandbytes, mxfp4, modelopt, modelopt_fp4, "
         "compressed-tensors"),
        ([1], "quantization_config=[1]"),
        (GPTQ | {"bits": 5}, "bits=5; known: 2, 3, 4, 8"),
        (GPTQ | {"group_size": 10**400}, f"group_size=1{'0' * 59}; known: whole numbers from 1"),
        (GPTQ | {"dynamic": {"-:.*": {}}}, "dynamic={'-:.*': {}}, which is not known"),
        ({"quant_method": "bitsandbytes"}, "neither load_in_4bit nor load_in_8bit"),
        (MODELOPT | {"quant_algo": "MIXED_PRECISION"},
         "quant_algo='MIXED_PRECISION'; known: FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO, NVFP4, W4A16_AWQ"),
        (compressed(strategy="token"), "strategy='token'; known: tensor, channel, group, tensor_group, block"),
        (compressed() | {"sparsity_config": {"format": "sparse-24-bitmask"}}, "sparse weights (sparsity_config)"),
        (compressed() | {"config_groups": {}}, "no config_groups"),
        (compressed() | {"config_groups": {"a": compressed()["config_groups"]["group_0"],
                                           "b": compressed(num_bits=4)["config_groups"]["group_0"]}},
         "several number formats (config_groups)"),
        (compressed() | {"ignore": ["re:("]}, "ignore that is no list of names of modules"),
        (BLOCKS | {"modules_to_not_convert": 5},
         "modules_to_not_convert or ignored_layers that is no list of names of modules"),
        (BLOCKS | {"modules_to_not_convert": ["encoder.block"]},
         "a scheme for 'encoder.block', which is no part of this model that is known"),
    ],
)  # fmt: skip
def test_formats_that_are_refused_unless_they_are_given(config, message):
    shape = quantised(config)
    with pytest.raises(UsageError) as caught:
        weight_bytes(shape)
    assert str(caught.value) == (
        f"the config describes a quantised checkpoint with {message}. Give the number format of the weights: "
        "--dtype NAME."
    )
    assert weight_bytes(shape, "int4") == 8_030_261_248 / 2


def test_formats_of_the_cache_and_of_torch_that_are_refused():
    with pytest.raises(UsageError) as caught:
        cache_format(quantised(MODELOPT | {"kv_cache_quant_algo": "NVFP4"}).stored, "--kv-dtype")
    assert str(caught.value) == (
        "the config has kv_cache_quant_algo='NVFP4', a format of the cache that is not known. Give it: --kv-dtype NAME."
    )
    with pytest.raises(UsageError) as caught:
        weight_bytes(of_config(LLAMA | {"torch_dtype": "int5"}))
    assert str(caught.value) == (
        "the config has torch_dtype='int5'; known: float32, float16, bfloat16, float8_e4m3fn, float8_e5m2. Give the "
        "number format: --dtype NAME."
    )
    assert weight_bytes(of_config(LLAMA | {"torch_dtype": "float32"})) == 4 * 8_030_261_248


def test_the_command_tells_the_format_and_an_option_goes_before_it(calc, tmp_path):
    file, neighbour = tmp_path / "config.json", tmp_path / "hf_quant_config.json"
    file.write_text(json.dumps(LLAMA | {"quantization_config": BLOCKS}))
    note = ("- weights are those of the quantised checkpoint (fp8): matrices of layers in fp8 with their scales, and "
            "all that it leaves unquantised in bf16")  # fmt: skip
    for command in (("model",), ("parallel", "--gpus", 1, "--memory", "80GiB")):
        assert note in calc(*command, "--config", file).out.splitlines()
        given = calc(*command, "--config", file, "--dtype", "bf16").out.splitlines()
        assert "- --dtype bf16 goes before the number format of the quantised checkpoint" in given
        assert note not in given
    assert "8,030,261,248 parameters, 8.46 GiB in fp8 and bf16." in calc("model", "--config", file).out
    (tmp_path / "curve.csv").write_text("rate_per_s,goodput_per_s,residence_s\n4,4,0.5\n")
    sized = calc("sizing", tmp_path / "curve.csv", "--peak", 4, "--config", file, "--memory", "10GiB", "--tokens", 99)
    assert note in sized.out.splitlines()
    assert "8.46 GiB" in sized.out
    file.write_text(json.dumps(LLAMA))
    neighbour.write_text(json.dumps({"producer": {"name": "modelopt"}, "quantization": {
        "quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}))  # fmt: skip
    assert "8.46 GiB in fp8 and bf16." in calc("model", "--config", file).out
    assert "64 KiB for 1 sequence of 1 tokens in fp8." in calc("kv-cache", "--config", file).out
    assert "in fp16." in calc("kv-cache", "--config", file, "--dtype", "fp16").out
