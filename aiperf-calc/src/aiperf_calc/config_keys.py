"""The keys of a `config.json`: names that mean the same, values that are accepted, and keys that change no sizes."""

from collections.abc import Collection, Mapping
from typing import Any

from attrs import field, frozen

from aiperf_core.errors import UsageError
from aiperf_core.names import words

MOST, MOST_LAYERS = 10**9, 10**5

# Keys that do not change sizes. Others that no type reads are refused.
_HARMLESS = frozenset({
    "architectures", "model_type", "transformers_version", "transformers.js_config", "auto_map", "use_cache",
    "pretraining_tp", "hidden_act", "hidden_activation", "activation_function", "activation", "mlp_hidden_act",
    "mamba_hidden_act", "initializer_range", "max_position_embeddings", "original_max_position_embeddings",
    "initial_context_length", "partial_rotary_factor", "rotary_pct", "norm_eps", "norm_epsilon", "layer_norm_epsilon",
    "layer_norm_eps", "rms_norm_eps", "mixer_rms_eps", "hidden_dropout", "resid_dropout", "residual_dropout",
    "embedding_dropout", "mamba_dropout", "router_aux_loss_coef", "output_router_logits",
    "router_jitter_noise", "input_jitter_noise", "aux_loss_alpha", "norm_topk_prob", "routed_scaling_factor",
    "scoring_func", "seq_aux", "topk_group", "topk_method", "n_group", "ep_size", "swiglu_limit",
    "n_ctx", "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "alibi",
    "attn_implementation", "use_bfloat16", "gradient_checkpointing", "n_special", "predict_special_tokens",
    "is_llama_config", "query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping",
    "cache_implementation", "use_bidirectional_attention", "logit_scale", "logits_scaling", "position_embedding_type",
    "num_logits_to_keep", "calc_logits_for_entire_prompt", "use_mamba_kernels", "use_mambapy", "use_falcon_mambapy",
    "mamba_chunk_size", "chunk_size", "mamba_ssm_dtype", "mamba_norm_before_gate", "residual_in_fp32",
    "rescale_prenorm_residual", "rms_norm", "ssm_rms_norm", "clip_qkv", "use_pos_enc", "ssm_cfg",
    # Metadata that transformers writes for every model.
    "is_encoder_decoder", "is_decoder", "cross_attention_hidden_size", "add_cross_attention", "tie_encoder_decoder",
    "output_attentions", "output_hidden_states", "output_scores", "return_dict", "return_dict_in_generate",
    "torchscript", "tf_legacy_loss", "chunk_size_feed_forward", "finetuning_task", "task_specific_params",
    "id2label", "label2id", "num_labels", "problem_type", "prefix", "tokenizer_class", "vocab_file",
    "suppress_tokens", "begin_suppress_tokens", "bad_words_ids", "max_length", "min_length", "max_new_tokens",
    "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty", "temperature", "top_k",
    "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "num_return_sequences", "exponential_decay_length_penalty",
    "remove_invalid_values",
})  # fmt: skip
_HARMLESS_STARTS = ("_", "rope_", "summary_", "time_step_")
_HARMLESS_ENDS = ("_token_id", "_pdrop", "_multiplier", "_multipliers", "_dropout")

# Names of the same size, the usual one first.
SAME = (
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    ("hidden_size", "n_embd", "n_embed", "d_model"),
    ("num_attention_heads", "n_head", "n_heads"),
    ("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads"),
    ("intermediate_size", "n_inner", "ffn_hidden_size"),
    ("n_positions", "n_ctx"),
    ("num_local_experts", "num_experts", "n_routed_experts"),
    ("num_experts_per_tok", "experts_per_token"),
    ("sliding_window_pattern", "_sliding_window_pattern"),
    ("head_dim", "attention_head_dim"),
    ("torch_dtype", "dtype"),
    ("quantization_config", "quantization"),
)


def _shown(value: Any) -> str:
    """A value on one line, shortened."""
    text = words(repr(value))
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text)} characters)"


def renamed(file: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are set, by their usual keys. Raises UsageError for two names of one size that differ."""
    values = {key: value for key, value in config.items() if value is not None and value != {}}
    for usual, *others in SAME:
        names = [key for key in (usual, *others) if key in values]
        for key in names[1:]:
            if values[key] != values[names[0]]:
                raise UsageError(
                    f"{file} has {names[0]}={_shown(values[names[0]])} and {key}={_shown(values[key])}, which are two "
                    "names of one size. Remove the wrong one."
                )
    return values


@frozen
class Reader:
    """Reads keys of a file and the options that go before them, and knows which were read."""

    file: str
    values: dict[str, Any]
    given: Mapping[str, int]
    used: set[str] = field(factory=set)

    def get(self, key: str, default: Any = None) -> Any:
        """The value under this name or another one of the same size."""
        names = next((names for names in SAME if key in names), (key,))
        self.used.update(names)
        return next((self.values[name] for name in (key, *names) if name in self.values), default)

    def whole(self, key: str, option: str | None = None, default: int | None = None, most: int = MOST) -> int:
        """A whole number from 1; an option that is given goes before the file. Raises UsageError without it."""
        value = self.get(key, default)
        if option and option in self.given:
            self.used.add(f"--{option}")
            return self.given[option]
        if value is None:
            also = f", or give --{option.replace('_', '-')} NUMBER" if option else ""
            raise UsageError(f"{self.file} has no {key!r}. Add it{also}.")
        if type(value) is not int or value < 1:
            raise UsageError(f"{self.file} has {key}={_shown(value)}; accepted is a whole number from 1.")
        if value > most:
            raise UsageError(f"{self.file} has {key}={_shown(value)}; accepted is a whole number from 1 to {most:,}.")
        return value

    def count(self, key: str) -> int:
        """A whole number from 0; 0 where it is missing."""
        return 0 if self.get(key, 0) == 0 else self.whole(key)

    def maybe(self, key: str) -> int | None:
        """A whole number from 1, or None where it is missing."""
        return None if self.get(key) is None else self.whole(key)

    def truth(self, key: str, default: bool) -> bool:
        """A switch."""
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise UsageError(f"{self.file} has {key}={_shown(value)}; accepted is true or false.")
        return value

    def indices(self, key: str) -> set[int]:
        """A list of numbers of layers from 0; empty where it is missing."""
        value = self.get(key, [])
        if not isinstance(value, list) or not all(type(index) is int and index >= 0 for index in value):
            raise UsageError(f"{self.file} has {key}={_shown(value)}; accepted is a list of numbers of layers from 0.")
        return set(value)

    def only(self, key: str, *accepted: Any) -> None:
        """Raise UsageError for another value than these; the first is that of a missing key."""
        value = self.get(key, accepted[0])
        if value not in accepted:
            raise UsageError(f"{self.file} has {key}={_shown(value)}; accepted is {' or '.join(map(repr, accepted))}.")

    def refuse_unknown(self, kind: str, ignore: Collection[str]) -> None:
        """Raise UsageError if nothing read an option, or a key of the file that may change sizes."""
        for option in self.given:
            if f"--{option}" not in self.used:
                raise UsageError(f"--{option.replace('_', '-')} is no size of the type {kind!r}. Leave it out.")
        unknown = [
            key
            for key in self.values
            if key not in self.used
            and key not in _HARMLESS
            and key not in ignore
            and not key.startswith(_HARMLESS_STARTS)
            and not key.endswith(_HARMLESS_ENDS)
        ]
        if unknown:
            named = ", ".join(repr(words(key)) for key in unknown[:8])
            again = " ".join(f"--ignore {words(key)}" for key in unknown[:8])
            raise UsageError(
                f"{self.file} has keys that are not known for {kind!r} and may change the sizes: {named}. If they do "
                f"not: {again}"
            )
