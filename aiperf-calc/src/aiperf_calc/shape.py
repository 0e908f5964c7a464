"""The shape of a language model from a Hugging Face style `config.json`. Nothing is fetched."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from aiperf_calc.config_keys import Reader, renamed
from aiperf_calc.families import FAMILIES, shape_of
from aiperf_calc.parts import ModelShape
from aiperf_calc.text import read_json
from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.targets import nearest

_NEIGHBOUR = "hf_quant_config.json"  # NVIDIA's ModelOpt writes the number formats beside the config


def read(path: Path, given: Mapping[str, int] | None = None, ignore: Collection[str] = ()) -> ModelShape:
    """The shape that a `config.json` describes.

    given: sizes that go before those of the file: layers, hidden, heads, kv_heads, head_dim.
    ignore: keys of the file that are known not to change sizes.

    Raises UsageError for a file that cannot be read, a type or a key that is not known, and for a missing size.
    """
    config = read_json(path, "Give the config.json of a model.")
    if not isinstance(config, dict):
        raise UsageError(f"'{path}' holds {type(config).__name__}; a config.json holds one object.")
    neighbour = path.with_name(_NEIGHBOUR)
    if config.get("quantization_config") is None and neighbour.exists():
        stored = read_json(neighbour, "Correct it, or give a copy of the config.json alone with --dtype NAME.")
        config["quantization_config"] = {"quant_method": "modelopt", "hf_quant_config": stored}
    return of_config(config, f"'{path}'", given, ignore)


def of_config(
    config: Mapping[str, Any], file: str = "the config", given: Mapping[str, int] | None = None,
    ignore: Collection[str] = (),
) -> ModelShape:  # fmt: skip
    """The shape of a parsed `config.json`; see `read`. `file` names it in messages."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        named = "no 'model_type'" if kind is None else f"model_type {words(repr(kind))}"
        hint = nearest(kind, FAMILIES) if isinstance(kind, str) else ""
        raise UsageError(
            f"{file} has {named}, whose shape is not known.{hint} Known: {', '.join(FAMILIES)}. Other models: give the "
            "sizes by options, such as --layers, --kv-heads and --head-dim."
        )
    reader = Reader(file, renamed(file, config), dict(given or {}))
    shape = shape_of(reader, kind)
    reader.refuse_unknown(kind, ignore)
    return shape
