"""`aiperf calc`: calculators that need no measurement but what is given."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aiperf_core.cli.measuring import json_option, together
from aiperf_core.cli.result_file import result_file_option, show_result
from aiperf_core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from aiperf_calc.parts import ModelShape
    from aiperf_core.report.result import Result

_WHOLE, _LAYERS, _GPUS = click.IntRange(1, 10**12), click.IntRange(1, 10**5), click.IntRange(1, 10**5)
_BYTES = click.FloatRange(0, 1e6)


@click.group("calc")
def calc() -> None:
    """Size caches, models, GPUs, replicas and costs by formulas with a source.

    Shapes of models come from options or from the config.json of a model that you have; nothing is fetched.
    """


def _shown(command: Callable[..., "Result"]) -> Callable[..., ExitCode]:
    """A command whose function returns a result, with the options `--out` and `--json`."""

    @wraps(command)
    def called(*, out: Path | None, as_json: bool, **values: Any) -> ExitCode:
        return show_result(command(**values), out, as_json=as_json)

    return together(result_file_option, json_option("the result as one JSON document"))(called)


def _size(_: click.Context, option: click.Parameter, text: str | None) -> float | None:
    from aiperf_calc.quantities import bytes_of

    if text is None:
        return None
    try:
        return bytes_of(text)
    except ValueError as error:
        raise UsageError(f"{option.opts[-1]} got {text!r}; {error}.") from None


def _size_option(name: str, about: str, **more: Any) -> Callable[[Any], Any]:
    return click.option(name, callback=_size, metavar="SIZE", help=about, **more)


def _format(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    """A number format that is known, or None."""
    from aiperf_calc.quantities import element_bytes

    if name is not None:
        element_bytes(name)
    return name


_DEFAULT = "[default: that of the config, or bf16]"
_config = click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="The config.json of a model."
)  # fmt: skip
_ignore = click.option(
    "--ignore", multiple=True, metavar="KEY", help="A key of the config that does not change sizes. May be repeated."
)
_shape_options = together(
    _config,
    _ignore,
    click.option("--layers", type=_LAYERS, metavar="NUMBER", help="Layers."),
    click.option("--hidden", type=_WHOLE, metavar="NUMBER", help="Width of the residual stream."),
    click.option("--heads", type=_WHOLE, metavar="NUMBER", help="Heads of queries."),
    click.option("--kv-heads", metavar="NUMBER|all", help="Heads of keys and values; all: as many as of queries."),
    click.option("--head-dim", type=_WHOLE, metavar="NUMBER", help="Width of a head."),
)


def _given(values: dict[str, Any]) -> dict[str, int]:
    """The sizes that options give, by the names that `shape.read` knows."""
    sizes = {name: values[name] for name in ("layers", "hidden", "heads", "head_dim") if values[name] is not None}
    kv_heads = values["kv_heads"]
    if kv_heads is None or kv_heads == "all":
        if kv_heads == "all" and "heads" in sizes:
            sizes["kv_heads"] = sizes["heads"]
        return sizes
    if not kv_heads.isdecimal() or len(kv_heads) > 9 or int(kv_heads) < 1:
        raise UsageError(f"--kv-heads takes a whole number from 1, or all; got {kv_heads!r}.")
    return sizes | {"kv_heads": int(kv_heads)}


def _read(values: dict[str, Any]) -> "ModelShape":
    from aiperf_calc.shape import read

    return read(values["config"], _given(values), values["ignore"])


@calc.command("kv-cache")
@_shape_options
@click.option("--window", type=_WHOLE, metavar="TOKENS", help="Tokens that local layers keep.")
@click.option(
    "--local-layers", type=click.IntRange(0, 10**5), metavar="NUMBER", help="Layers with that window. [default: all]"
)
@click.option("--tokens", type=_WHOLE, default=1, show_default=True, metavar="NUMBER", help="Tokens of a sequence.")
@click.option("--batch", type=_WHOLE, default=1, show_default=True, metavar="NUMBER", help="Sequences.")
@click.option("--dtype", callback=_format, metavar="NAME", help=f"Number format of the cache. {_DEFAULT}")
@click.option("--page", type=_WHOLE, default=1, show_default=True, metavar="TOKENS", help="Tokens of a page.")
@click.option("--scale-group", type=_WHOLE, metavar="NUMBER", help="Numbers of a quantised cache that share a scale.")
@click.option("--scale-bytes", type=_BYTES, default=2.0, show_default=True, metavar="BYTES", help="Bytes of a scale.")
@_size_option("--memory", "Also count the sequences that fit, such as in 80GiB.")
@_shown
def kv_cache(
    *, window: int | None, local_layers: int | None, tokens: int, batch: int, dtype: str | None, page: int,
    scale_group: int | None, scale_bytes: float, memory: float | None, **shape: Any,
) -> "Result":  # fmt: skip
    """Size the cache of keys and values.

    \b
    Examples:
      aiperf calc kv-cache --config config.json --tokens 4096 --batch 8
      aiperf calc kv-cache --layers 80 --kv-heads 8 --head-dim 128 \\
          --tokens 4096 --batch 8 --dtype fp8
    """
    from attrs import evolve

    from aiperf_calc import answers
    from aiperf_calc.checkpoint import cache_format
    from aiperf_calc.kv_cache import Cached, cached

    read = None if shape["config"] is None else _read(shape)
    kept = cached(read) if read else Cached(layers=_needed(shape, "layers"), elements=2 * _kv_width(shape))
    every = kept.layers + kept.local_layers
    if window is not None and not every:
        raise UsageError("--window is for layers of attention, and this model has none. Leave it out.")
    if window is not None:
        local = every if local_layers is None else min(local_layers, every)
        kept = evolve(kept, layers=every - local, local_layers=local, window=window)
    elif local_layers is not None:
        raise UsageError("--local-layers needs --window, the tokens that these layers keep.")
    dtype = dtype or cache_format(read.stored if read else None, "--dtype")
    return answers.kv_cache(
        kept, dtype=dtype, tokens=tokens, sequences=batch, page=page,
        group=scale_group or 0, scale_bytes=scale_bytes if scale_group else 0.0, memory=memory,
        notes=read.notes if read else (),
    )  # fmt: skip


def _needed(shape: dict[str, Any], name: str) -> int:
    value = shape[name]
    if value is None:
        raise UsageError(f"a cache needs --{name}, or --config with the config.json of the model.")
    return int(value)


def _kv_width(shape: dict[str, Any]) -> int:
    """The width of all heads of keys, from options. The hidden size alone does not tell it."""
    from aiperf_calc.parts import check_heads

    given = _given(shape)
    check_heads(given.get("heads", 0), given.get("kv_heads", 1))
    if shape["kv_heads"] is None:
        raise UsageError(
            "the hidden size alone does not tell the size of the cache: many models share keys and values between "
            "heads. Give --kv-heads NUMBER and --head-dim NUMBER; --kv-heads all for a model in which every "
            "head has its own."
        )
    if "head_dim" not in given and "hidden" in given and shape["kv_heads"] == "all":
        return given["hidden"]
    if "head_dim" not in given and "hidden" in given and "heads" in given and given["hidden"] % given["heads"] == 0:
        given["head_dim"] = given["hidden"] // given["heads"]
    if "head_dim" not in given or "kv_heads" not in given:
        raise UsageError(
            "a cache needs the width of a head: give --head-dim NUMBER, or --hidden and --heads, of which it is the "
            "quotient."
        )
    return given["kv_heads"] * given["head_dim"]


def _config_needed(values: dict[str, Any]) -> "ModelShape":
    if values["config"] is None:
        raise UsageError(
            "--config is missing: the config.json of the model. Options such as --layers replace its sizes."
        )
    return _read(values)


@calc.command("model")
@_shape_options
@click.option("--dtype", callback=_format, metavar="NAME", help=f"Number format of the weights. {_DEFAULT}")
@click.option("--tokens", type=_WHOLE, default=2048, show_default=True, metavar="NUMBER", help="Tokens of a sequence.")
@click.option("--batch", type=_WHOLE, default=1, show_default=True, metavar="NUMBER", help="Sequences of a GPU.")
@click.option("--zero", type=click.IntRange(0, 3), default=0, show_default=True, metavar="STAGE", help="Stage of ZeRO.")
@click.option("--ranks", type=_WHOLE, default=1, show_default=True, metavar="NUMBER", help="Data-parallel ranks.")
@_shown
def model(*, dtype: str | None, tokens: int, batch: int, zero: int, ranks: int, **shape: Any) -> "Result":
    """Count the parameters, operations and bytes of a model.

    \b
    Examples:
      aiperf calc model --config config.json --dtype bf16 --tokens 8192
    """
    from aiperf_calc import answers

    return answers.model(_config_needed(shape), dtype=dtype, tokens=tokens, batch=batch, zero=zero, ranks=ranks)


@calc.command("parallel")
@_shape_options
@click.option("--gpus", type=_GPUS, required=True, metavar="NUMBER", help="GPUs.")
@_size_option("--memory", "Memory of a GPU, such as 80GiB.", required=True)
@_size_option("--reserve", "Memory of a GPU that is kept free.  [default: a tenth]")
@click.option("--train", is_flag=True, help="Training with Adam in mixed precision, instead of serving.")
@click.option("--dtype", callback=_format, metavar="NAME", help=f"Number format of served weights. {_DEFAULT}")
@click.option("--kv-dtype", callback=_format, metavar="NAME", help=f"Number format of the cache. {_DEFAULT}")
@click.option("--tokens", type=_WHOLE, default=4096, show_default=True, metavar="NUMBER", help="Tokens of a sequence.")
@click.option("--batch", type=_WHOLE, default=1, show_default=True, metavar="NUMBER",
              help="Sequences of a replica or micro-batch at once.")  # fmt: skip
@click.option(
    "--micro-batches", type=_WHOLE, default=1, show_default=True, metavar="NUMBER", help="Micro-batches of a step."
)
@click.option("--recomputation", type=click.Choice(("none", "selective", "full")), default="none", show_default=True,
              help="Recomputation of activations in training.")  # fmt: skip
@click.option("--top", type=_WHOLE, default=20, show_default=True, metavar="NUMBER", help="Ways to show.")
@_shown
def parallel(
    *, gpus: int, memory: float, reserve: float | None, train: bool, dtype: str | None, kv_dtype: str | None,
    tokens: int, batch: int, micro_batches: int, recomputation: str, top: int, **shape: Any,
) -> "Result":  # fmt: skip
    """List the ways to divide a model over GPUs.

    TP, PP, EP, DP and ZeRO are filtered by the memory of a GPU.

    Exit code 1: none fits. The ways are not ranked by speed, which takes measurements.
    """
    from aiperf_calc import answers
    from aiperf_calc.checkpoint import cache_format
    from aiperf_calc.parallel import Work

    read = _config_needed(shape)
    work = Work(
        train=train, dtype=dtype, kv_dtype=kv_dtype or cache_format(read.stored, "--kv-dtype"), tokens=tokens,
        sequences=batch, micro_batches=micro_batches, recomputation=recomputation,
    )  # fmt: skip
    kept = memory / 10 if reserve is None else reserve
    return answers.parallel_ways(read, gpus=gpus, memory=memory, reserve=kept, work=work, most=top)


@calc.command("cost-per-token")
@click.option("--watts", type=float, metavar="W", help="Mean power of all machines.")
@click.option("--tokens-per-second", "per_second", type=float, required=True, metavar="RATE", help="Tokens a second.")
@click.option("--tariff", type=float, metavar="USD", help="Dollars for a kWh.")
@click.option("--pue", type=float, default=1.0, show_default=True, metavar="RATIO",
              help="Energy of the building over that of its machines.")  # fmt: skip
@click.option("--rate", type=float, metavar="USD", help="Dollars an hour of a rented GPU.")
@click.option("--gpus", type=_GPUS, default=1, show_default=True, metavar="NUMBER", help="Rented GPUs.")
@click.option("--utilisation", type=float, default=1.0, show_default=True, metavar="SHARE",
              help="The share of the paid time that is used.")  # fmt: skip
@_shown
def cost_per_token(
    *, watts: float | None, per_second: float, tariff: float | None, pue: float, rate: float | None, gpus: int,
    utilisation: float,
) -> "Result":  # fmt: skip
    """Price a million tokens by electricity, rent or both.

    \b
    Examples:
      aiperf calc cost-per-token --watts 800 --tokens-per-second 1500 \\
          --tariff 0.16 --pue 1.5
    """
    from aiperf_calc import answers
    from aiperf_calc.quantities import positive

    for value, name in (
        (watts, "--watts"),
        (per_second, "--tokens-per-second"),
        (tariff, "--tariff"),
        (rate, "--rate"),
    ):
        if value is not None:
            positive(value, name)
    return answers.cost_per_token(
        watts=watts,
        per_second=per_second,
        tariff=tariff,
        pue=pue,
        usd_per_hour=rate,
        gpus=gpus,
        utilisation=utilisation,
    )


_replica = together(
    click.option("--gpus", type=_GPUS, default=1, show_default=True, metavar="NUMBER", help="GPUs of a replica."),
    click.option(
        "--gpu", metavar="CLASS", help="Kind of machine of a replica, to find its price, such as nvidia-h200-x1."
    ),
    click.option("--prices", "price_file", metavar="FILE|seed", help="The price file, with --gpu."),
    click.option("--rate", type=float, metavar="USD", help="Dollars an hour of a GPU."),
    click.option("--watts", type=float, metavar="W", help="Power of a GPU under load."),
)
_memory_options = together(
    _config,
    _ignore,
    _size_option("--memory", "Memory of a GPU, with --config."),
    _size_option("--reserve", "Memory of a GPU that is kept free. [default: a tenth]"),
    click.option("--tokens", type=_WHOLE, metavar="NUMBER", help="Tokens of a sequence, with --config."),
    click.option("--dtype", callback=_format, metavar="NAME", help=f"Number format of the weights. {_DEFAULT}"),
    click.option("--kv-dtype", callback=_format, metavar="NAME", help=f"Number format of the cache. {_DEFAULT}"),
)


@calc.command("sizing")
@click.argument("curve", type=click.Path(path_type=Path))
@click.option("--peak", type=float, required=True, metavar="RATE", help="Requests a second at peak.")
@click.option("--headroom", type=float, default=0.2, show_default=True, metavar="SHARE", help="Kept free at peak.")
@click.option("--met", type=float, default=0.99, show_default=True, metavar="SHARE",
              help="Share of requests in time from which a measured point meets the SLO.")  # fmt: skip
@click.option("--available", type=float, default=1.0, show_default=True, metavar="SHARE",
              help="Share of time that a replica is up.")  # fmt: skip
@click.option("--wish", type=float, default=0.999, show_default=True, metavar="SHARE",
              help="Wished probability that enough replicas are up.")  # fmt: skip
@_replica
@_memory_options
@click.option(
    "--simulate",
    type=click.IntRange(1, 10**7),
    metavar="REQUESTS",
    help="Simulate this many requests at the peak rate.",
)
@click.option("--trace", type=click.Path(path_type=Path), metavar="FILE",
              help="Arrival times in seconds, one a line: simulate a scaling policy.")  # fmt: skip
@click.option(
    "--every",
    type=float,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Policy: the time between decisions.",
)
@click.option(
    "--over",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Policy: the window in which arrivals are counted.",
)
@click.option(
    "--start",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Policy: the time that a replica takes to start.",
)
@click.option("--least", type=_WHOLE, default=1, show_default=True, metavar="NUMBER", help="Policy: fewest replicas.")
@click.option(
    "--seed", type=int, default=0, show_default=True, metavar="NUMBER", help="Seed of the simulated arrivals."
)
@_shown
def sizing(curve: Path, **values: Any) -> "Result":
    """Find how many replicas a demand needs.

    CURVE is the measured goodput of one replica: a bundle of `aiperf load sweep`, or a JSON or CSV file in the format
    of docs/analysis-calculators.md. Answers are ranges. Exit code 1: no measured point meets the SLO.

    \b
    Examples:
      aiperf calc sizing curve.json --peak 120 --headroom 0.2 \\
          --available 0.995 --rate 2.5 --watts 500
    """
    from aiperf_calc import sizing_command

    return sizing_command.answer(curve, values)
