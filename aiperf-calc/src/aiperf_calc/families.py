"""The families of models: for each `model_type`, the facts that its config does not tell, and the keys that it has.

A step reads keys and adds to the sizes of a shape. `mixers` and `feeds` hold the letters of `ModelShape.pattern` for
each layer: a part that mixes tokens, and a feed-forward part.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from aiperf_calc.config_keys import MOST_LAYERS, Reader
from aiperf_calc.parts import Experts, Latent, ModelShape, Recurrent, Stored
from aiperf_core.errors import UsageError
from aiperf_core.names import words

Sizes = dict[str, Any]
Step = Callable[[Reader, Sizes], None]
_KINDS = {"full_attention": "a", "attention": "a", "sliding_attention": "l", "mamba": "r", "linear_attention": "r"}


@frozen(kw_only=True)
class Family:
    """A family of models.

    steps: what its config tells beyond the sizes that all types have.
    tied: whether embedding and head are one matrix unless the config says otherwise.
    facts: fields of `ModelShape` that are the same for all its models.
    """

    steps: tuple[Step, ...] = ()
    tied: bool = False
    facts: Mapping[str, Any] = field(factory=dict)


def shape_of(read: Reader, kind: str) -> ModelShape:
    """The shape of a config of a known type."""
    family = FAMILIES[kind]
    layers = read.whole("num_hidden_layers", "layers", most=MOST_LAYERS)
    sizes: Sizes = {
        "layers": layers, "width": read.whole("hidden_size", "hidden"), "vocabulary": read.whole("vocab_size"),
        "tied": read.truth("tie_word_embeddings", family.tied), "mixers": ["a"] * layers, "feeds": ["d"] * layers,
        "renamed": {}, "notes": (), **family.facts,
    }  # fmt: skip
    for step in family.steps:
        step(read, sizes)
    mixers, feeds, qk_norm = sizes.pop("mixers"), sizes.pop("feeds"), sizes.pop("qk_norm", "")
    if qk_norm:
        heads = sizes["heads"] + sizes["kv_heads"] if qk_norm == "all" else 2
        sizes["attention_vectors"] = heads * sizes["head_width"]
    return ModelShape(
        **sizes,
        pattern=tuple(mixer + feed for mixer, feed in zip(mixers, feeds, strict=True)),
        stored=Stored(file=read.file, dtype=read.get("torch_dtype"), quantization=read.get("quantization_config")),
        name=kind,
    )


# --- steps


def _attention(read: Reader, sizes: Sizes) -> None:
    sizes["heads"] = read.whole("num_attention_heads", "heads")
    if read.get("num_key_value_heads") is None and "kv_heads" not in read.given:
        raise UsageError(
            f"{read.file} has no 'num_key_value_heads', and the hidden size alone does not tell the size of the cache "
            "of a model whose heads share keys and values. Give --kv-heads NUMBER; a model that shares none has as "
            "many as --heads."
        )
    sizes["kv_heads"] = read.whole("num_key_value_heads", "kv_heads")
    _head_width(read, sizes)


def _head_width(read: Reader, sizes: Sizes) -> None:
    if "head_dim" in read.given or read.get("head_dim") is not None:
        sizes["head_width"] = read.whole("head_dim", "head_dim")
        return
    if sizes["width"] % sizes["heads"]:
        raise UsageError(
            f"{read.file} has hidden_size {sizes['width']}, which {sizes['heads']} heads do not divide. Add "
            "'head_dim', or give --head-dim NUMBER."
        )
    sizes["head_width"] = sizes["width"] // sizes["heads"]


def _own_heads(read: Reader, sizes: Sizes) -> None:
    """Attention in which every head has its keys and values unless the config says otherwise (GPT-2, Phi)."""
    heads = sizes["heads"] = read.whole("num_attention_heads", "heads")
    sizes["kv_heads"] = read.whole("num_key_value_heads", "kv_heads", default=heads)
    _head_width(read, sizes)


def _hidden(read: Reader, sizes: Sizes) -> None:
    sizes["hidden"] = read.whole("intermediate_size")


def _hidden_or_4(read: Reader, sizes: Sizes) -> None:
    sizes["hidden"] = read.whole("intermediate_size", default=4 * sizes["width"])


def _flag(key: str, default: bool, *fields: str) -> Step:
    """A switch of the config that sets these fields."""

    def step(read: Reader, sizes: Sizes) -> None:
        sizes.update(dict.fromkeys(fields, read.truth(key, default)))

    return step


def _qk_norm(key: str, kind: str) -> Step:
    """A switch for the norms of queries and keys: of one head (`head`), or of all heads (`all`)."""

    def step(read: Reader, sizes: Sizes) -> None:
        sizes["qk_norm"] = kind if read.truth(key, False) else ""

    return step


def _kinds(read: Reader, sizes: Sizes, default: Callable[[int], str]) -> None:
    """The mixers by `layer_types`, or else by the number of the layer."""
    kinds, layers = read.get("layer_types"), sizes["layers"]
    if kinds is None:
        sizes["mixers"] = [default(layer) for layer in range(layers)]
        return
    strange = [kind for kind in kinds if kind not in _KINDS] if isinstance(kinds, list) else [kinds]
    if strange:
        raise UsageError(f"{read.file} has {words(repr(strange[0]))[:60]} in layer_types; known: {', '.join(_KINDS)}.")
    if len(kinds) != layers:
        raise UsageError(f"{read.file} has {len(kinds):,} layer_types for {layers:,} layers; accepted is one a layer.")
    sizes["mixers"] = [_KINDS[kind] for kind in kinds]


def _local(default: Callable[[Reader], Callable[[int], str]], used: bool = True) -> Step:
    """Local layers of a sliding window. `default` tells a layer's mixer where the config has no `layer_types`."""

    def step(read: Reader, sizes: Sizes) -> None:
        window, on = read.maybe("sliding_window"), read.truth("use_sliding_window", used)
        _kinds(read, sizes, default(read))
        if window is None or not on:
            sizes["mixers"] = ["a" if mixer == "l" else mixer for mixer in sizes["mixers"]]
        elif "l" in sizes["mixers"]:
            sizes["window"] = window

    return step


def _every(key: str, usual: int) -> Step:
    """All layers but each n-th are local; the window must be told."""

    def step(read: Reader, sizes: Sizes) -> None:
        read.whole("sliding_window")
        _local(lambda read: lambda layer: "l" if (layer + 1) % read.whole(key, default=usual) else "a")(read, sizes)

    return step


def _from_layer(read: Reader) -> Callable[[int], str]:
    first = read.count("max_window_layers")
    return lambda layer: "l" if layer >= first else "a"


def _experts(hidden: str, places: Callable[[Reader], Callable[[int], bool]], **facts: Any) -> Step:
    """Experts in the layers that `places` tells. hidden: the key of their inner width."""

    def step(read: Reader, sizes: Sizes) -> None:
        has = places(read)
        sizes["feeds"] = ["e" if has(layer) else feed for layer, feed in enumerate(sizes["feeds"])]
        count, chosen = read.whole("num_local_experts"), read.whole("num_experts_per_tok")
        width = read.whole(hidden)
        if chosen > count:
            raise UsageError(f"{read.file} has {chosen} experts of a token and {count} of a layer; accepted is at most "
                             f"{count} of a token.")  # fmt: skip
        shared = read.count("n_shared_experts") * width + read.count("shared_expert_intermediate_size")
        sizes["experts"] = Experts(count=count, chosen=chosen, hidden=width, shared=shared, **facts)
        sizes["hidden"] = read.whole("intermediate_size")

    return step


def _all_layers(_: Reader) -> Callable[[int], bool]:
    return lambda layer: True


def _after_dense(read: Reader) -> Callable[[int], bool]:
    read.only("moe_layer_freq", 1)
    dense = read.count("first_k_dense_replace")
    return lambda layer: layer >= dense


def _sparse_steps(read: Reader) -> Callable[[int], bool]:
    step, dense = read.whole("decoder_sparse_step", default=1), read.indices("mlp_only_layers")
    return lambda layer: layer not in dense and (layer + 1) % step == 0


def _expert_period(read: Reader) -> Callable[[int], bool]:
    period, offset = read.whole("expert_layer_period"), read.count("expert_layer_offset")
    return lambda layer: layer % period == offset


def _names(**renamed: str) -> Step:
    """The names of parts in the checkpoint; a key has `__` for a dot."""
    return lambda _, sizes: sizes["renamed"].update({key.replace("__", "."): name for key, name in renamed.items()})


def _latent(read: Reader, sizes: Sizes) -> None:
    read.only("attention_bias", False)
    latent = Latent(
        kv_rank=read.whole("kv_lora_rank"), q_rank=read.maybe("q_lora_rank"), rope=read.whole("qk_rope_head_dim"),
        nope=read.whole("qk_nope_head_dim"), value=read.whole("v_head_dim"),
    )  # fmt: skip
    heads = read.whole("num_attention_heads", "heads")
    read.used.update({"num_key_value_heads", "head_dim"})
    sizes.update(heads=heads, kv_heads=heads, head_width=latent.nope + latent.rope, latent=latent)


def _further_tokens(read: Reader, sizes: Sizes) -> None:
    if read.count("num_nextn_predict_layers"):
        sizes["notes"] += ("layers for predicting several tokens (num_nextn_predict_layers) are not counted",)


def _gpt2(read: Reader, sizes: Sizes) -> None:
    sizes["positions"] = read.whole("n_positions")
    read.only("max_position_embeddings", sizes["positions"])


def _falcon(read: Reader, sizes: Sizes) -> None:
    """Multi-query attention, or groups of the new architecture; one norm of a layer where both parts share it."""
    heads, new = read.whole("num_attention_heads", "heads"), read.truth("new_decoder_architecture", False)
    multi_query, parallel = read.truth("multi_query", True), read.truth("parallel_attn", True)
    grouped = read.whole("num_key_value_heads", "kv_heads", default=heads)
    kv_heads = grouped if new or "kv_heads" in read.given else 1 if multi_query else heads
    sizes.update(heads=heads, kv_heads=kv_heads)
    sizes["norms"] = read.whole("num_ln_in_parallel_attn", default=2) if new else 1 if parallel else 2
    _head_width(read, sizes)


def _phi(read: Reader, sizes: Sizes) -> None:
    read.only("qk_layernorm", False)


def _no_attention(read: Reader, sizes: Sizes) -> None:
    sizes.update(heads=0, kv_heads=0, head_width=0, hidden=0)
    sizes.update(mixers=["r"] * sizes["layers"], feeds=[""] * sizes["layers"])


def _mamba(name: str, prefix: str, state: str, kernel: str, rank: str, norms: bool = False) -> Step:
    """Mamba (Gu and Dao, arXiv 2312.00752). norms: whether step, input and output of the state have norms (Jamba)."""

    def step(read: Reader, sizes: Sizes) -> None:
        width, numbers, taps = sizes["width"], read.whole(state), read.whole(kernel)
        inner = read.whole(f"{prefix}expand") * width
        if not prefix:
            inner = read.whole("intermediate_size", default=inner)
        automatic = read.get(rank) == "auto"
        steps = math.ceil(width / 16) if automatic else read.whole(rank)
        bias = read.truth(f"{prefix}proj_bias" if prefix else "use_bias", False)
        conv_bias = read.truth(f"{prefix}conv_bias" if prefix else "use_conv_bias", True)
        sizes["recurrent"] = Recurrent(
            name=name,
            matrices={"in_proj": (width, 2 * inner), "x_proj": (inner, steps + 2 * numbers),
                      "dt_proj": (steps, inner), "out_proj": (inner, width)},
            vectors=inner * (numbers + 2 + taps + conv_bias) + (2 * inner + width) * bias
            + (steps + 2 * numbers) * norms,
            state=inner * numbers,
            inputs=inner * (taps - 1),
        )  # fmt: skip

    return step


def _mamba2(name: str, heads: str, head: str, groups: str, state: str, kernel: str, conv_bias: str, bias: str,
            inner: str = "", expand: str = "", norm: str = "") -> Step:  # fmt: skip
    """Mamba-2 (Dao and Gu, arXiv 2405.21060), by the names of its keys. norm: the switch of a norm of the output."""

    def step(read: Reader, sizes: Sizes) -> None:
        width, count, numbers, taps = sizes["width"], read.whole(heads), read.whole(state), read.whole(kernel)
        whole = read.maybe(inner) if inner else None
        if expand:
            whole = whole or read.whole(expand, default=2) * width
        each = whole // count if whole and read.get(head, "auto") == "auto" else read.whole(head)
        if whole not in (None, each * count):
            raise UsageError(f"{read.file} has {count} heads of {each} in recurrent layers of width {whole}; their "
                             "product must be the width.")  # fmt: skip
        channels = each * count + 2 * read.whole(groups) * numbers
        outputs = each * count + channels + count
        biased = read.truth(bias, False)
        normed = read.truth(norm, False) if norm else True
        sizes["recurrent"] = Recurrent(
            name=name,
            matrices={"in_proj": (width, outputs), "out_proj": (each * count, width)},
            vectors=3 * count + channels * (taps + read.truth(conv_bias, True)) + each * count * normed
            + (outputs + width) * biased,
            state=each * count * numbers,
            inputs=channels * (taps - 1),
        )  # fmt: skip

    return step


_BAMBA = _mamba2(
    "mamba", "mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv", "mamba_conv_bias",
    "mamba_proj_bias", expand="mamba_expand",
)  # fmt: skip
_FALCON_H1 = _mamba2(
    "mamba", "mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv", "mamba_conv_bias",
    "mamba_proj_bias", inner="mamba_d_ssm", expand="mamba_expand", norm="mamba_rms_norm",
)  # fmt: skip


def _delta(read: Reader, sizes: Sizes) -> None:
    """The gated delta rule (Yang et al., arXiv 2412.06464), as Qwen3-Next has it."""
    width, values, taps = sizes["width"], read.whole("linear_num_value_heads"), read.whole("linear_conv_kernel_dim")
    key, value = read.whole("linear_key_head_dim"), read.whole("linear_value_head_dim")
    keys_width, values_width = read.whole("linear_num_key_heads") * key, values * value
    channels = 2 * keys_width + values_width
    sizes["recurrent"] = Recurrent(
        name="linear_attn",
        matrices={"in_proj_qkvz": (width, channels + values_width), "in_proj_ba": (width, 2 * values),
                  "out_proj": (values_width, width)},
        vectors=2 * values + channels * taps + value,
        state=values * key * value,
        inputs=channels * (taps - 1),
        products=3,
    )  # fmt: skip
    interval = read.whole("full_attention_interval", default=4)
    _kinds(read, sizes, lambda layer: "r" if (layer + 1) % interval else "a")


def _attention_period(read: Reader, sizes: Sizes) -> None:
    period, offset = read.whole("attn_layer_period"), read.count("attn_layer_offset")
    sizes["mixers"] = ["a" if layer % period == offset else "r" for layer in range(sizes["layers"])]


def _attention_indices(read: Reader, sizes: Sizes) -> None:
    places = read.indices("attn_layer_indices")
    sizes["mixers"] = ["a" if layer in places else "r" for layer in range(sizes["layers"])]


def _attention_in_all(_: Reader, sizes: Sizes) -> None:
    sizes["mixers"] = ["ra"] * sizes["layers"]


def _override_pattern(read: Reader, sizes: Sizes) -> None:
    """Nemotron-H: a letter for each layer, which has one part."""
    text, letters = read.get("hybrid_override_pattern"), {"M": "r", "*": "a", "-": "d"}
    if not isinstance(text, str) or len(text) != sizes["layers"] or not set(text) <= set(letters):
        raise UsageError(f"{read.file} has no hybrid_override_pattern of {sizes['layers']} letters M, * and -.")
    sizes.update(mixers=[letters[letter] for letter in text], feeds=[""] * len(text))


def _granite_experts(read: Reader, sizes: Sizes) -> None:
    """Granite 4: a feed-forward part that every token uses, beside experts that may be missing."""
    _kinds(read, sizes, lambda _: "a")
    shared = read.whole("shared_intermediate_size")
    if not read.count("num_local_experts"):
        read.used.update({"num_experts_per_tok", "intermediate_size"})
        sizes["hidden"] = shared
        return
    _experts("intermediate_size", _all_layers)(read, sizes)
    experts: Experts = sizes["experts"]
    sizes["experts"] = Experts(count=experts.count, chosen=experts.chosen, hidden=experts.hidden, shared=shared)


def _sinks(_: Reader, sizes: Sizes) -> None:
    sizes["attention_vectors"] = sizes["heads"]


_BIAS = _flag("attention_bias", False, "qkv_bias", "out_bias")
_QKV_BIAS = _flag("attention_bias", False, "qkv_bias")
_LLAMA = (_attention, _hidden)
_ALWAYS_LOCAL = _local(lambda _: lambda layer: "l")
_LOCAL_IF_ASKED = _local(_from_layer, used=False)
_MIXTRAL = _names(mlp__gate="block_sparse_moe.gate", mlp__experts="block_sparse_moe.experts")
_SHARED = _names(mlp__shared_experts="mlp.shared_expert")

FAMILIES: Mapping[str, Family] = {
    "llama": Family(steps=(*_LLAMA, _BIAS, _flag("mlp_bias", False, "mlp_bias"))),
    "mistral": Family(steps=(*_LLAMA, _ALWAYS_LOCAL)),
    "mixtral": Family(steps=(*_LLAMA, _ALWAYS_LOCAL, _experts("intermediate_size", _all_layers), _MIXTRAL)),
    "qwen2": Family(steps=(*_LLAMA, _LOCAL_IF_ASKED), facts={"qkv_bias": True}),
    "qwen2_moe": Family(
        steps=(*_LLAMA, _LOCAL_IF_ASKED, _flag("qkv_bias", True, "qkv_bias"),
               _experts("moe_intermediate_size", _sparse_steps, shared_gate=True), _SHARED),
    ),
    "qwen3": Family(steps=(*_LLAMA, _LOCAL_IF_ASKED, _BIAS), facts={"qk_norm": "head"}),
    "qwen3_moe": Family(
        steps=(*_LLAMA, _LOCAL_IF_ASKED, _BIAS, _experts("moe_intermediate_size", _sparse_steps)),
        facts={"qk_norm": "head"},
    ),
    "qwen3_next": Family(
        steps=(*_LLAMA, _BIAS, _delta, _experts("moe_intermediate_size", _sparse_steps, shared_gate=True), _SHARED),
        facts={"qk_norm": "head", "query_gate": True},
    ),
    "deepseek_v2": Family(
        steps=(_latent, _further_tokens, _experts("moe_intermediate_size", _after_dense)),
    ),
    "deepseek_v3": Family(
        steps=(_latent, _further_tokens, _experts("moe_intermediate_size", _after_dense, router_bias=True)),
    ),
    "gemma": Family(steps=(*_LLAMA, _BIAS), tied=True),
    "gemma2": Family(steps=(*_LLAMA, _BIAS, _every("sliding_window_pattern", 2)), tied=True, facts={"norms": 4}),
    "gemma3_text": Family(
        steps=(*_LLAMA, _BIAS, _every("sliding_window_pattern", 6)), tied=True, facts={"norms": 4, "qk_norm": "head"},
    ),
    "phi": Family(
        steps=(_own_heads, _hidden_or_4, _phi),
        facts={"gated": False, "qkv_bias": True, "out_bias": True, "mlp_bias": True, "head_bias": True, "norms": 1,
               "norm_bias": True},
    ),
    "phi3": Family(
        steps=(*_LLAMA, _ALWAYS_LOCAL,
               _names(self_attn__q_proj="self_attn.qkv_proj", self_attn__k_proj="self_attn.qkv_proj",
                      self_attn__v_proj="self_attn.qkv_proj", mlp__gate_proj="mlp.gate_up_proj",
                      mlp__up_proj="mlp.gate_up_proj")),
    ),
    "phimoe": Family(
        steps=(*_LLAMA, _ALWAYS_LOCAL, _BIAS, _flag("lm_head_bias", False, "head_bias"),
               _experts("intermediate_size", _all_layers), _MIXTRAL),
        facts={"norm_bias": True},
    ),
    "falcon": Family(
        steps=(_falcon, _hidden_or_4, _flag("bias", False, "qkv_bias", "out_bias", "mlp_bias")),
        tied=True, facts={"gated": False, "norm_bias": True},
    ),
    "starcoder2": Family(
        steps=(*_LLAMA, _ALWAYS_LOCAL, _flag("use_bias", True, "qkv_bias", "out_bias", "mlp_bias")),
        tied=True, facts={"gated": False, "norm_bias": True},
    ),
    "gpt_oss": Family(
        steps=(*_LLAMA, _sinks, _flag("attention_bias", True, "qkv_bias", "out_bias"),
               _every("sliding_window_pattern", 2),
               _experts("intermediate_size", _all_layers, router_bias=True, bias=True),
               _names(mlp__gate="mlp.router")),
    ),
    "olmo2": Family(steps=(*_LLAMA, _BIAS), facts={"qk_norm": "all"}),
    "olmo3": Family(steps=(*_LLAMA, _BIAS, _every("sliding_window_pattern", 4)), facts={"qk_norm": "all"}),
    "olmoe": Family(
        steps=(*_LLAMA, _BIAS, _experts("intermediate_size", _all_layers)), facts={"qk_norm": "all"},
    ),
    "cohere": Family(steps=(*_LLAMA, _BIAS, _qk_norm("use_qk_norm", "all")), tied=True, facts={"norms": 1}),
    "cohere2": Family(steps=(*_LLAMA, _BIAS, _every("sliding_window_pattern", 4)), tied=True, facts={"norms": 1}),
    "glm": Family(steps=(*_LLAMA, _QKV_BIAS)),
    "glm4": Family(steps=(*_LLAMA, _QKV_BIAS), facts={"norms": 4}),
    "glm4_moe": Family(
        steps=(*_LLAMA, _QKV_BIAS, _qk_norm("use_qk_norm", "head"), _further_tokens,
               _experts("moe_intermediate_size", _after_dense, router_bias=True)),
    ),
    "granite": Family(steps=(*_LLAMA, _BIAS, _flag("mlp_bias", False, "mlp_bias"))),
    "granitemoehybrid": Family(steps=(_attention, _BIAS, _granite_experts, _BAMBA)),
    "bamba": Family(steps=(*_LLAMA, _BIAS, _flag("mlp_bias", False, "mlp_bias"), _attention_indices, _BAMBA)),
    "jamba": Family(
        steps=(*_LLAMA, _attention_period, _experts("intermediate_size", _expert_period),
               _mamba("mamba", "mamba_", "mamba_d_state", "mamba_d_conv", "mamba_dt_rank", norms=True)),
    ),
    "falcon_h1": Family(
        steps=(*_LLAMA, _BIAS, _flag("mlp_bias", False, "mlp_bias"), _attention_in_all, _FALCON_H1),
    ),
    "nemotron_h": Family(
        steps=(*_LLAMA, _BIAS, _flag("mlp_bias", False, "mlp_bias"), _override_pattern,
               _mamba2("mixer", "mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel",
                       "use_conv_bias", "mamba_proj_bias"),
               _names(self_attn="mixer", mlp="mixer")),
        facts={"gated": False, "norms": 1},
    ),
    "mamba": Family(
        steps=(_no_attention, _mamba("mixer", "", "state_size", "conv_kernel", "time_step_rank")), tied=True,
        facts={"norms": 1},
    ),
    "falcon_mamba": Family(
        steps=(_no_attention, _mamba("mixer", "", "state_size", "conv_kernel", "time_step_rank")), tied=True,
        facts={"norms": 1},
    ),
    "mamba2": Family(
        steps=(_no_attention,
               _mamba2("mixer", "num_heads", "head_dim", "n_groups", "state_size", "conv_kernel", "use_conv_bias",
                       "use_bias", expand="expand")),
        facts={"norms": 1},
    ),
    "gpt2": Family(
        steps=(_own_heads, _hidden_or_4, _gpt2), tied=True,
        facts={"gated": False, "qkv_bias": True, "out_bias": True, "mlp_bias": True, "norm_bias": True},
    ),
}  # fmt: skip
