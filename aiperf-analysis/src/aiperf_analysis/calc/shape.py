"""The shape of a language model, from options or from a Hugging Face style `config.json`. Nothing is fetched."""

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.targets import nearest


@frozen(kw_only=True)
class Experts:
    """Feed-forward layers of experts, of which a router chooses some for each token.

    count, chosen: experts of a layer, and those of a token.
    hidden: the inner width of an expert.
    shared: experts that every token uses.
    layers: the layers that have experts.
    biased_router: whether the router has a bias for each expert (DeepSeek-V3, for the balance of load).
    """

    count: int
    chosen: int
    hidden: int
    shared: int = 0
    layers: int
    biased_router: bool = False


@frozen(kw_only=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): the cache holds one latent for all heads.

    kv_rank: the width of the latent of keys and values.
    q_rank: the width of the latent of queries; None where queries are projected directly.
    rope: the width of the part of a key with rotary positions; all heads share it.
    nope: the width of the part of a head's key without positions.
    value: the width of a head's value.
    """

    kv_rank: int
    q_rank: int | None
    rope: int
    nope: int
    value: int


@frozen(kw_only=True)
class ModelShape:
    """The sizes of a decoder-only transformer.

    layers, width: the number of layers, and the width of the residual stream.
    heads, kv_heads, head_width: heads of queries, heads of keys and values, and the width of each.
    hidden: the inner width of a feed-forward layer.
    vocabulary: the number of tokens.
    gated: whether the feed-forward layer has a gate, and so three matrices instead of two.
    tied: whether embedding and head are one matrix.
    qkv_bias, out_bias, mlp_bias: biases of the projections.
    norm_bias: whether a norm has a bias too (LayerNorm) or a weight alone (RMSNorm).
    qk_norm: whether each head's queries and keys are normalised (Qwen3).
    positions: learned positions; 0 for rotary ones.
    window: the tokens that a local layer attends to; None without local layers.
    local_layers: the number of local layers.
    name: the model's type in its `config.json`.
    notes: what the file says that these sizes leave out.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    hidden: int
    vocabulary: int
    gated: bool = True
    tied: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    norm_bias: bool = False
    qk_norm: bool = False
    positions: int = 0
    window: int | None = None
    local_layers: int = 0
    experts: Experts | None = None
    latent: Latent | None = None
    name: str = "options"
    notes: tuple[str, ...] = field(factory=tuple)


# Keys of a `config.json` that do not change sizes. Others that no type reads are refused.
_HARMLESS = frozenset({
    "architectures", "model_type", "torch_dtype", "dtype", "transformers_version", "auto_map", "use_cache",
    "pretraining_tp", "hidden_act", "activation_function", "initializer_range", "bos_token_id", "eos_token_id",
    "pad_token_id", "unk_token_id", "max_position_embeddings", "original_max_position_embeddings",
    "partial_rotary_factor", "rms_norm_eps", "norm_eps", "layer_norm_epsilon", "layer_norm_eps", "attention_dropout",
    "hidden_dropout", "resid_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "embedding_dropout",
    "router_aux_loss_coef", "output_router_logits", "router_jitter_noise", "aux_loss_alpha", "norm_topk_prob",
    "routed_scaling_factor", "scoring_func", "seq_aux", "topk_group", "topk_method", "n_group", "ep_size",
    "num_nextn_predict_layers", "quantization_config", "output_attentions", "output_hidden_states", "return_dict",
    "task_specific_params", "n_ctx", "scale_attn_weights", "scale_attn_by_inverse_layer_idx",
    "reorder_and_upcast_attn", "chunk_size_feed_forward", "is_encoder_decoder", "is_decoder", "attn_implementation",
    "use_bfloat16", "gradient_checkpointing", "id2label", "label2id", "problem_type",
})  # fmt: skip
_HARMLESS_STARTS = ("_", "rope_", "summary_")

# Older names of the same keys.
_ALIASES = {
    "n_layer": "num_hidden_layers",
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
}


@frozen
class _Reader:
    """Reads keys of a file, and knows which were read."""

    file: str
    found: dict[str, Any]
    given: Mapping[str, int]
    used: set[str] = field(factory=set)

    def whole(self, key: str, option: str | None = None, default: int | None = None) -> int:
        """A whole number from 1; an option that is given goes before the file. Raises UsageError without it."""
        self.used.add(key)
        if option and option in self.given:
            return self.given[option]
        value = self.found.get(key)
        if value is None and default is not None:
            return default
        if value is None:
            also = f", or give --{option.replace('_', '-')} NUMBER" if option else ""
            raise UsageError(f"{self.file} has no {key!r}. Add it{also}.")
        if type(value) is not int or value < 1:
            raise UsageError(f"{self.file} has {key}={words(repr(value))}; accepted is a whole number from 1.")
        return value

    def count(self, key: str) -> int:
        """A whole number from 0; 0 where it is missing or null."""
        value = self.found.get(key)
        return 0 if value in (None, 0) else self.whole(key)

    def maybe(self, key: str) -> int | None:
        """A whole number from 1, or None where it is missing or null."""
        self.used.add(key)
        return None if self.found.get(key) is None else self.whole(key)

    def truth(self, key: str, default: bool) -> bool:
        """A switch."""
        self.used.add(key)
        value = self.found.get(key, default)
        if not isinstance(value, bool):
            raise UsageError(f"{self.file} has {key}={words(repr(value))}; accepted is true or false.")
        return value


def _kv_heads(read: _Reader) -> int:
    """The heads of keys and values, which are asked for: some types share them by default and others do not."""
    if read.found.get("num_key_value_heads") is None and "kv_heads" not in read.given:
        raise UsageError(
            f"{read.file} has no 'num_key_value_heads', and the hidden size alone does not tell the size of the cache "
            "of a model whose heads share keys and values. Give --kv-heads NUMBER; a model that shares none has as "
            "many as --heads."
        )
    return read.whole("num_key_value_heads", "kv_heads")


def _common(read: _Reader) -> dict[str, Any]:
    """The sizes that all types of the Llama kind have."""
    width, heads = read.whole("hidden_size", "hidden"), read.whole("num_attention_heads", "heads")
    return {
        "layers": read.whole("num_hidden_layers", "layers"),
        "width": width,
        "heads": heads,
        "hidden": read.whole("intermediate_size"),
        "vocabulary": read.whole("vocab_size"),
        "tied": read.truth("tie_word_embeddings", False),
        "name": str(read.found["model_type"]),
    }


def _head_width(read: _Reader, sizes: Mapping[str, Any]) -> int:
    found = read.maybe("head_dim")
    if "head_dim" in read.given:
        return read.given["head_dim"]
    if found is not None:
        return found
    if sizes["width"] % sizes["heads"]:
        raise UsageError(
            f"{read.file} has hidden_size {sizes['width']}, which {sizes['heads']} heads do not divide. Add "
            "'head_dim', or give --head-dim NUMBER."
        )
    return int(sizes["width"] // sizes["heads"])


def _window(read: _Reader, layers: int, default_use: bool) -> dict[str, Any]:
    """The local layers: those that `layer_types` names, or else those from `max_window_layers` on."""
    window = read.maybe("sliding_window")
    used = read.truth("use_sliding_window", default_use)
    first = read.count("max_window_layers")
    read.used.update({"layer_types", "max_window_layers"})
    kinds = read.found.get("layer_types")
    if window is None or not used:
        return {}
    if isinstance(kinds, list):
        return {"window": window, "local_layers": sum(kind == "sliding_attention" for kind in kinds)}
    return {"window": window, "local_layers": layers if default_use else max(0, layers - first)}


def _llama(read: _Reader) -> ModelShape:
    sizes = _common(read)
    bias = read.truth("attention_bias", False)
    return ModelShape(
        **sizes,
        kv_heads=_kv_heads(read),
        head_width=_head_width(read, sizes),
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=read.truth("mlp_bias", False),
    )


def _mistral(read: _Reader) -> ModelShape:
    sizes = _common(read)
    local = _window(read, sizes["layers"], True)
    return ModelShape(**sizes, **local, kv_heads=_kv_heads(read), head_width=_head_width(read, sizes))


def _mixtral(read: _Reader) -> ModelShape:
    sizes = _common(read)
    local = _window(read, sizes["layers"], True)
    experts = Experts(
        count=read.whole("num_local_experts"),
        chosen=read.whole("num_experts_per_tok"),
        hidden=sizes["hidden"],
        layers=sizes["layers"],
    )
    return ModelShape(**sizes, **local, kv_heads=_kv_heads(read), head_width=_head_width(read, sizes), experts=experts)


def _qwen2(read: _Reader) -> ModelShape:
    sizes = _common(read)
    local = _window(read, sizes["layers"], False)
    return ModelShape(**sizes, **local, kv_heads=_kv_heads(read), head_width=_head_width(read, sizes), qkv_bias=True)


def _qwen3(read: _Reader) -> ModelShape:
    sizes = _common(read)
    local = _window(read, sizes["layers"], False)
    bias = read.truth("attention_bias", False)
    return ModelShape(
        **sizes, **local, kv_heads=_kv_heads(read), head_width=_head_width(read, sizes), qkv_bias=bias, out_bias=bias,
        qk_norm=True,
    )  # fmt: skip


def _deepseek(read: _Reader) -> ModelShape:
    sizes = _common(read)
    dense = read.count("first_k_dense_replace")
    read.used.update({"first_k_dense_replace", "moe_layer_freq", "num_key_value_heads", "q_lora_rank", "head_dim"})
    if read.found.get("moe_layer_freq", 1) != 1:
        raise UsageError(f"{read.file} has moe_layer_freq={read.found['moe_layer_freq']!r}; accepted is 1.")
    latent = Latent(
        kv_rank=read.whole("kv_lora_rank"),
        q_rank=read.maybe("q_lora_rank"),
        rope=read.whole("qk_rope_head_dim"),
        nope=read.whole("qk_nope_head_dim"),
        value=read.whole("v_head_dim"),
    )
    bias = read.truth("attention_bias", False)
    if bias:
        raise UsageError(f"{read.file} has attention_bias=true, which is not known for {sizes['name']!r}.")
    experts = Experts(
        count=read.whole("n_routed_experts"),
        chosen=read.whole("num_experts_per_tok"),
        hidden=read.whole("moe_intermediate_size"),
        shared=read.count("n_shared_experts"),
        layers=sizes["layers"] - dense,
        biased_router=sizes["name"] == "deepseek_v3",
    )
    read.used.update({"n_shared_experts"})
    notes: tuple[str, ...] = ()
    if read.found.get("num_nextn_predict_layers"):
        notes = ("layers for predicting several tokens (num_nextn_predict_layers) are not counted",)
    return ModelShape(
        **sizes,
        kv_heads=sizes["heads"],
        head_width=latent.nope + latent.rope,
        latent=latent,
        experts=experts,
        notes=notes,
    )


def _gpt2(read: _Reader) -> ModelShape:
    width, heads = read.whole("hidden_size", "hidden"), read.whole("num_attention_heads", "heads")
    if width % heads:
        raise UsageError(f"{read.file} has a width of {width}, which {heads} heads do not divide.")
    return ModelShape(
        layers=read.whole("num_hidden_layers", "layers"),
        width=width,
        heads=heads,
        kv_heads=heads,
        head_width=width // heads,
        hidden=read.whole("intermediate_size", default=4 * width),
        vocabulary=read.whole("vocab_size"),
        gated=False,
        tied=read.truth("tie_word_embeddings", True),
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        norm_bias=True,
        positions=read.whole("n_positions"),
        name="gpt2",
    )


_TYPES: Mapping[str, Callable[[_Reader], ModelShape]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "gpt2": _gpt2,
}
# Options that go before the file's keys.
GIVEN = ("layers", "hidden", "heads", "kv_heads", "head_dim")


def read(path: Path, given: Mapping[str, int] | None = None, ignore: Collection[str] = ()) -> ModelShape:
    """The shape that a `config.json` describes.

    given: sizes by the names of `GIVEN` that go before those of the file.
    ignore: keys of the file that are known not to change sizes.

    Raises UsageError for a file that cannot be read, a type or a key that is not known, and for a missing size.
    """
    try:
        found = json.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {error.strerror or error}. Give the config.json of a model.") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"'{path}' is not JSON: {error}. Give the config.json of a model.") from None
    if not isinstance(found, dict):
        raise UsageError(f"'{path}' holds {type(found).__name__}; a config.json holds one object.")
    return of_config(found, f"'{path}'", given, ignore)


def of_config(
    found: Mapping[str, Any], file: str = "the config", given: Mapping[str, int] | None = None,
    ignore: Collection[str] = (),
) -> ModelShape:  # fmt: skip
    """The shape of a parsed `config.json`; see `read`. `file` names it in messages."""
    kind = found.get("model_type")
    if not isinstance(kind, str) or kind not in _TYPES:
        told = "no 'model_type'" if kind is None else f"model_type {words(repr(kind))}"
        hint = nearest(kind, _TYPES) if isinstance(kind, str) else ""
        raise UsageError(
            f"{file} has {told}, whose shape is not known.{hint} Known: {', '.join(_TYPES)}. Other models: give the "
            "sizes by options, such as --layers, --kv-heads and --head-dim."
        )
    renamed: dict[str, Any] = {}
    for key, value in found.items():
        renamed[_ALIASES.get(key, key)] = value
    reader = _Reader(file, renamed, dict(given or {}))
    shape = _TYPES[kind](reader)
    unknown = [
        key
        for key in renamed
        if key not in reader.used
        and key not in _HARMLESS
        and key not in ignore
        and not key.startswith(_HARMLESS_STARTS)
    ]
    if unknown:
        named = ", ".join(repr(words(key)) for key in unknown[:8])
        again = " ".join(f"--ignore {words(key)}" for key in unknown[:8])
        raise UsageError(
            f"{file} has keys that are not known for {kind!r} and may change the sizes: {named}. If they do not: "
            f"{again}"
        )
    return shape
