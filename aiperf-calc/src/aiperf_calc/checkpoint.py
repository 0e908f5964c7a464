"""Number formats of the weights and of the cache of a checkpoint, as its config says."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from attrs import evolve, frozen

from aiperf_calc.parts import Stored
from aiperf_calc.quantities import DTYPE_BYTES
from aiperf_core.errors import UsageError
from aiperf_core.names import words

_TORCH = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8"}
# Parts that no scheme quantises, and parts of other modalities, which the sizes leave out.
_NEVER = re.compile(
    r"norm|embed|wte|wpe|rotary|bias|conv1d|A_log|mtp|vision|visual|audio|multi_modal|lm_head"
    r"|gate\b|router"
)


@frozen(kw_only=True)
class Format:
    """How weights are stored.

    dtype: of the matrices of layers. plain: of all else.
    block: the inputs and outputs of a matrix that share a scale; 0 for all.
    scale_bytes: of a scale with its zero point. input_bytes: those of each input beside it (the groups' order of GPTQ).
    only, skipped: names or patterns of the matrices that are quantised, all without any, and that are not.
    head: whether the head is quantised too.
    method: the method of quantisation; empty without.
    """

    dtype: str
    plain: str
    block: tuple[int, int] = (0, 0)
    scale_bytes: float = 0.0
    input_bytes: float = 0.0
    only: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    head: bool = False
    method: str = ""

    @property
    def name(self) -> str:
        """Such as `bf16`, or `int4 and bf16`."""
        return self.dtype if self.dtype == self.plain else f"{self.dtype} and {self.plain}"

    @property
    def note(self) -> str:
        """The format in a sentence."""
        return (
            f"weights are those of the quantised checkpoint ({self.method}): matrices of layers in {self.dtype} with "
            f"their scales, and all that it leaves unquantised in {self.plain}"
        )

    def matrix_bytes(self, inputs: int, outputs: int) -> float:
        """The bytes of a matrix with its scales."""
        across, down = self.block
        count = math.ceil(inputs / (across or inputs)) * math.ceil(outputs / (down or outputs))
        scales = count * self.scale_bytes + inputs * self.input_bytes
        return inputs * outputs * DTYPE_BYTES[self.dtype] + scales


def weight_format(stored: Stored) -> Format:
    """The format of the weights. Raises UsageError for one that is not known, with what to give instead."""
    plain = _torch_dtype(stored, "--dtype")
    unquantised = Format(dtype=plain, plain=plain)
    config = _quantization(stored)
    if not config:
        return unquantised
    method = config.get("quant_method", "compressed-tensors" if "config_groups" in config else None)
    maker = _METHODS.get(method) if isinstance(method, str) else None
    if maker is None:
        _unknown(stored, f"quant_method={words(repr(method))[:60]}; known: {', '.join(_METHODS)}")
    made = maker(_Scheme(stored, config), unquantised)
    return evolve(made, method=str(method)) if made.dtype != plain else made


def cache_format(stored: Stored | None, option: str) -> str:
    """The number format of the cache that the checkpoint asks for, or else that of the model.

    Raises UsageError for one that is not known; `option` is what to give instead.
    """
    if stored is None:
        return "bf16"
    config = _quantization(stored)
    scheme = config.get("kv_cache_scheme")
    name = config.get("kv_cache_quant_algo")
    if scheme is None and name is None:
        return _torch_dtype(stored, option)
    if isinstance(scheme, Mapping):
        name = f"{'fp' if scheme.get('type') == 'float' else scheme.get('type')}{scheme.get('num_bits')}"
        name = name if scheme.get("strategy", "tensor") == "tensor" else None
    elif scheme is not None:
        name = "fp8" if scheme in ("static", "dynamic") else None
    if not isinstance(name, str) or name.lower() not in ("fp8", "int8"):
        key = "kv_cache_scheme" if scheme is not None else "kv_cache_quant_algo"
        raise UsageError(
            f"{stored.file} has {key}={words(repr(config.get(key)))[:80]}, a format of the cache that is not known. "
            f"Give it: {option} NAME."
        )
    return name.lower()


def kept_layers(
    form: Format, renamed: Mapping[str, str], places: Mapping[str, Sequence[int]], stored: Stored
) -> dict[str, int]:
    """The layers in which each tensor stays unquantised. places: the layers that have a tensor, by its name.

    Raises UsageError for a pattern of the config that fits no part that is known.
    """
    skipped, only = _Patterns(form.skipped), _Patterns(form.only)
    kept: dict[str, int] = {}
    for name, layers in places.items():
        old = next((old for old in renamed if name == old or name.startswith(f"{old}.")), "")
        real = renamed[old] + name.removeprefix(old) if old else name
        full = [f"model.layers.{layer}.{real}" for layer in layers]
        kept[name] = sum([skipped.fit(path) | (bool(form.only) and not only.fit(path)) for path in full])
    count = 1 + max((layer for layers in places.values() for layer in layers), default=0)
    for pattern in [*skipped.unused(), *only.unused()]:
        layer = re.search(r"layers\.(\d+)", pattern)
        if not _NEVER.search(pattern) and not (layer and int(layer[1]) >= count):
            _unknown(stored, f"a scheme for {words(repr(pattern))[:80]}, which is no part of this model that is known")
    return kept


class _Patterns:
    """Names of modules, globs and regular expressions (`re:`), and which of them fitted a name."""

    def __init__(self, patterns: Sequence[str]) -> None:
        # The names of what holds the layers differ: model, backbone, language_model.model.
        patterns = [re.sub(r"^[\w.]*\blayers\.", "layers.", pattern) for pattern in patterns]
        self._plain = {pattern for pattern in patterns if "*" not in pattern and not pattern.startswith("re:")}
        self._rules = {
            pattern: re.compile(pattern[3:]).match if pattern.startswith("re:") else
            re.compile(rf"(?:^|.*\.){'.*'.join(map(re.escape, pattern.split('*')))}(?:\.|$)").match
            for pattern in set(patterns) - self._plain
        }  # fmt: skip
        self._used: set[str] = set()

    def fit(self, name: str) -> bool:
        """Tell whether any of the names covers this module or one that holds it."""
        parts = name.split(".")
        runs = {".".join(parts[a:b]) for a in range(len(parts)) for b in range(a + 1, len(parts) + 1)}
        used = self._plain & runs | {pattern for pattern, match in self._rules.items() if match(name)}
        self._used |= used
        return bool(used)

    def unused(self) -> list[str]:
        """Names that fitted no module."""
        return sorted((self._plain | set(self._rules)) - self._used)


def _quantization(stored: Stored) -> Mapping[str, Any]:
    """The description of the quantisation; that of ModelOpt's own file under the keys of a config."""
    config = stored.quantization if stored.quantization is not None else {}
    inner = config.get("hf_quant_config", config) if isinstance(config, Mapping) else config
    inner = inner.get("quantization", inner) if isinstance(inner, Mapping) else inner
    if not isinstance(inner, Mapping):
        _unknown(stored, f"quantization_config={words(repr(config))[:60]}")
    return {"quant_method": "modelopt", **inner} if "quant_algo" in inner else inner


def _torch_dtype(stored: Stored, option: str) -> str:
    name = stored.dtype
    if name is None:
        return "bf16"
    dtype = _TORCH.get(name.removeprefix("torch.")) if isinstance(name, str) else None
    if dtype is None:
        raise UsageError(f"{stored.file} has torch_dtype={words(repr(name))[:60]}; known: {', '.join(_TORCH)}. Give "
                         f"the number format: {option} NAME.")  # fmt: skip
    return dtype


def _unknown(stored: Stored, what: str) -> NoReturn:
    raise UsageError(
        f"{stored.file} describes a quantised checkpoint with {what}. Give the number format of the weights: "
        "--dtype NAME."
    )


@frozen
class _Scheme:
    """Reads the description of a quantisation."""

    stored: Stored
    config: Mapping[str, Any]

    def whole(self, key: str, *accepted: int, default: int | None = None) -> int:
        """A whole number: one of these, or without them any from 1."""
        value = self.config.get(key, default)
        if type(value) is not int or (value not in accepted if accepted else not 1 <= value <= 10**6):
            known = ", ".join(map(str, accepted)) if accepted else "whole numbers from 1"
            _unknown(self.stored, f"{key}={words(repr(value))[:60]}; known: {known}")
        return value

    def group(self, key: str = "group_size") -> tuple[int, int]:
        """The block of a group of inputs; -1 is one group of all."""
        return (0 if self.config.get(key) == -1 else self.whole(key)), 1

    def sides(self, key: str) -> tuple[int, int]:
        """The inputs and outputs of a block, which the config has in the other order; all of both without it."""
        value = self.config.get(key, [0, 0])
        if not (isinstance(value, list) and len(value) == 2 and all(type(side) is int and side >= 0 for side in value)):
            _unknown(self.stored, f"{key}={words(repr(value))[:60]}; known: two whole numbers from 1")
        return value[1], value[0]

    def names(self, *keys: str) -> tuple[str, ...]:
        """The names of modules under any of these keys."""
        values = [self.config.get(key) or [] for key in keys]
        listed = [name for value in values for name in (value if isinstance(value, list) else [None])]
        flat = [name for value in listed for name in (value if isinstance(value, list) else [value])]
        texts = tuple(name for name in flat if isinstance(name, str))
        try:
            _Patterns(texts)
        except re.error:
            texts = ()
        if len(texts) == len(flat):
            return texts
        _unknown(self.stored, f"{' or '.join(keys)} that is no list of names of modules")

    def refuse(self, key: str, *known: Any) -> None:
        """Raise UsageError if the key is set to something else."""
        if self.config.get(key) and self.config[key] not in known:
            _unknown(self.stored, f"{key}={words(repr(self.config[key]))[:60]}, which is not known")


def _fp8(scheme: _Scheme, plain: Format) -> Format:
    """Blocks of weights with a scale each in 32 bits, or a scale for each matrix."""
    block = scheme.config.get("weight_block_size")
    if block is not None and not (
        isinstance(block, list) and len(block) == 2 and all(type(side) is int and side > 0 for side in block)
    ):
        _unknown(scheme.stored, f"weight_block_size={words(repr(block))[:60]}; known: two whole numbers from 1")
    return evolve(plain, dtype="fp8", block=(block[1], block[0]) if block else (0, 0), scale_bytes=4.0,
                  skipped=scheme.names("modules_to_not_convert", "ignored_layers"))  # fmt: skip


def _fbgemm(scheme: _Scheme, plain: Format) -> Format:
    """A scale in 32 bits for each output."""
    return evolve(plain, dtype="fp8", block=(0, 1), scale_bytes=4.0, skipped=scheme.names("modules_to_not_convert"))


def _gptq(scheme: _Scheme, plain: Format) -> Format:
    """Groups of inputs with a scale in 16 bits and a packed zero point; each input has the number of its group."""
    scheme.refuse("dynamic")
    bits = scheme.whole("bits", 2, 3, 4, 8)
    return evolve(plain, dtype=f"int{bits}", block=scheme.group(), scale_bytes=2 + bits / 8, input_bytes=4.0,
                  only=scheme.names("modules_in_block_to_quantize"), skipped=scheme.names("modules_to_not_convert"),
                  head=bool(scheme.config.get("lm_head")))  # fmt: skip


def _awq(scheme: _Scheme, plain: Format) -> Format:
    """Groups of inputs with a scale in 16 bits and a packed zero point."""
    old = "w_bit" in scheme.config
    bits = scheme.whole("w_bit" if old else "bits", 4, 8)
    zero = bits / 8 if scheme.config.get("zero_point", True) else 0
    return evolve(plain, dtype=f"int{bits}", block=scheme.group("q_group_size" if old else "group_size"),
                  scale_bytes=2 + zero, skipped=scheme.names("modules_to_not_convert"))  # fmt: skip


def _bitsandbytes(scheme: _Scheme, plain: Format) -> Format:
    """4 bits: blocks of 64 with a scale in 32 bits, or in 8 with one in 32 for 256 of them. 8 bits: one an output."""
    skipped = scheme.names("llm_int8_skip_modules")
    four, eight = (scheme.config.get(key, scheme.config.get(f"_{key}")) for key in ("load_in_4bit", "load_in_8bit"))
    if eight:
        return evolve(plain, dtype="int8", block=(0, 1), scale_bytes=4.0, skipped=skipped)
    if not four:
        _unknown(scheme.stored, "neither load_in_4bit nor load_in_8bit")
    scale = 1 + 4 / 256 if scheme.config.get("bnb_4bit_use_double_quant") else 4.0
    return evolve(plain, dtype="fp4", block=(64, 1), scale_bytes=scale, skipped=skipped)


def _mxfp4(scheme: _Scheme, plain: Format) -> Format:
    """Groups of 32 with a scale in 8 bits (OCP Microscaling Formats), of the experts alone."""
    return evolve(plain, dtype="fp4", block=(32, 1), scale_bytes=1.0, only=("mlp.experts",),
                  skipped=scheme.names("modules_to_not_convert"))  # fmt: skip


_ALGORITHMS: Mapping[str, Mapping[str, Any]] = {
    "FP8": {"dtype": "fp8", "scale_bytes": 4.0},
    "FP8_PER_CHANNEL_PER_TOKEN": {"dtype": "fp8", "block": (0, 1), "scale_bytes": 4.0},
    "FP8_PB_WO": {"dtype": "fp8", "block": (128, 128), "scale_bytes": 4.0},
    "NVFP4": {"dtype": "fp4", "block": (16, 1), "scale_bytes": 1.0},
    "W4A16_AWQ": {"dtype": "int4", "scale_bytes": 2.0},
}


def _modelopt(scheme: _Scheme, plain: Format) -> Format:
    """The algorithms of NVIDIA's ModelOpt."""
    name = scheme.config.get("quant_algo")
    if name is None and "kv_cache_quant_algo" in scheme.config:
        return plain
    if not isinstance(name, str) or name not in _ALGORITHMS:
        _unknown(scheme.stored, f"quant_algo={words(repr(name))[:60]}; known: {', '.join(_ALGORITHMS)}")
    made = evolve(plain, **_ALGORITHMS[name], skipped=scheme.names("exclude_modules", "ignore"))
    return evolve(made, block=scheme.group()) if name == "W4A16_AWQ" else made


def _compressed(scheme: _Scheme, plain: Format) -> Format:
    """Groups of modules with a scheme each, which must be the same."""
    sparsity = scheme.config.get("sparsity_config") or {}
    if not isinstance(sparsity, Mapping) or sparsity.get("format", "dense") != "dense":
        _unknown(scheme.stored, "sparse weights (sparsity_config)")
    groups = scheme.config.get("config_groups")
    if not (isinstance(groups, Mapping) and groups and all(isinstance(group, Mapping) for group in groups.values())):
        _unknown(scheme.stored, "no config_groups")
    skipped = scheme.names("ignore")
    made = [
        _group(evolve(scheme, config=group), scheme.config, plain) for group in groups.values() if group.get("weights")
    ]
    if not made:
        return plain
    if any(evolve(form, only=()) != evolve(made[0], only=()) for form in made):
        _unknown(scheme.stored, "several number formats (config_groups)")
    only = () if any("Linear" in form.only for form in made) else tuple(name for form in made for name in form.only)
    return evolve(made[0], only=only, skipped=skipped, head=not only and not _Patterns(skipped).fit("lm_head"))


def _group(scheme: _Scheme, config: Mapping[str, Any], plain: Format) -> Format:
    weights = scheme.config["weights"]
    inner = _Scheme(scheme.stored, weights if isinstance(weights, Mapping) else {})
    bits, kind, strategy = inner.whole("num_bits", 4, 8), inner.config.get("type"), inner.config.get("strategy")
    if kind not in ("int", "float"):
        _unknown(scheme.stored, f"weights of type {words(repr(kind))[:60]}; known: int, float")
    named = str(scheme.config.get("format") or config.get("format") or "")
    scale = 1.0 if named.startswith(("nvfp4", "mxfp4")) else DTYPE_BYTES[plain.plain]
    blocks: Mapping[Any, Callable[[], tuple[int, int]]] = {
        "tensor": lambda: (0, 0), "channel": lambda: (0, 1), "group": inner.group, "tensor_group": inner.group,
        "block": lambda: inner.sides("block_structure"),
    }  # fmt: skip
    if strategy not in blocks:
        _unknown(scheme.stored, f"strategy={words(repr(strategy))[:60]}; known: {', '.join(blocks)}")
    zero = bits / 8 if kind == "int" and inner.config.get("symmetric") is False else 0
    order = 4.0 if inner.config.get("actorder") == "group" else 0.0
    return evolve(plain, dtype=f"{'fp' if kind == 'float' else 'int'}{bits}", block=blocks[strategy](),
                  scale_bytes=scale + zero, input_bytes=order, only=scheme.names("targets"))  # fmt: skip


_METHODS: Mapping[str, Callable[[_Scheme, Format], Format]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm,
    "gptq": _gptq,
    "awq": _awq,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": _mxfp4,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "compressed-tensors": _compressed,
}
