"""`aiperf new --target`: add a target to an installed package: its file, its kernels, and its line in plugin.py."""

import ast
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from attrs import frozen

from aiperf_core.cli.plugin_file import literal, plugin_file
from aiperf_core.errors import UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.targets import is_name

DEVICES = ("cpu", "cuda")
_LINE = '{indent}yield Target("{name}", "{summary}", goal="speed", devices={devices})'
_NUMBERS = {"cpu": "2^25 float32 values on a CPU", "cuda": "2^28 float32 values on a GPU"}
_SIZES = {"cpu": 'cpu={"n": 1 << 25}', "cuda": 'cuda={"n": 1 << 28}'}


@frozen
class Language:
    """A language of kernels.

    device: of its kernels.
    ending: of the name of its file, after the name of the target.
    kernel: the name of the example, of the kernel and of the variant.
    source, makers: imported from `aiperf_core.kernels` and `aiperf_core.launches`.
    variant: declares the variant; `{file}` is the file's name.
    """

    device: str
    ending: str
    kernel: str
    source: str
    makers: tuple[str, ...]
    variant: str


_WHY = 'adds="fusion", why="each element is read once and written once"'
LANGUAGES = {
    "c": Language(
        "cpu", ".c", "fused_loop", "host_source", ("loop",),
        'loops = loop(host_source("{file}"), out="a")\n'
        f'cpu.variant(loops("fused_loop"), requires="compiler", {_WHY})',
    ),
    "cuda": Language(
        "cuda", ".cu", "fused", "cuda_source", ("blocks", "launch"),
        'kernels = launch(cuda_source("{file}"), out="a", grid=blocks(n=256))\n'
        f'cuda.variant(kernels("fused"), {_WHY})',
    ),
    "triton": Language(
        "cuda", "_triton.py", "fused_triton", "triton_source", ("blocks", "launch"),
        'programs = launch(triton_source("{file}"), out="a", make={"BLOCK": 1024}, grid=blocks(n=1024))\n'
        'cuda.variant(\n    programs("fused_triton"),\n    requires="package:triton",\n    '
        f'{_WHY.replace(", ", f",{chr(10)}    ")},\n)',
    ),
}  # fmt: skip


@frozen
class Added:
    """The files of a new target: new ones, and the plugin's module with one more line."""

    file: Path
    kernels: list[Path]
    plugin: Path


def languages_of(devices: Sequence[str], names: Sequence[str]) -> list[str]:
    """The languages asked for; without any, CUDA C++ for a GPU and C for a CPU alone. Raises `UsageError`."""
    chosen = list(dict.fromkeys(names)) or ["cuda" if "cuda" in devices else "c"]
    for name in chosen:
        if name not in LANGUAGES:
            raise UsageError(f"--lang {name!r} is not a language of kernels; accepted: {', '.join(LANGUAGES)}.")
        if LANGUAGES[name].device not in devices:
            raise UsageError(f"--lang {name} is for {LANGUAGES[name].device}; add it to --devices {','.join(devices)}.")
    return chosen


def add_target(plugins: Plugins, full_name: str, devices: Sequence[str], languages: Sequence[str]) -> Added:
    """Write the files. Raises `UsageError`, and changes nothing, where that is not possible."""
    group, _, name = full_name.partition(".")
    if not is_name(name):
        raise UsageError(f"{full_name!r} cannot name a target. A valid name is 'acme.row_means'.")
    plugin = plugin_file(plugins, group)
    kernels = {one: plugin.parent / "kernels" / f"{name}{LANGUAGES[one].ending}" for one in languages}
    added = Added(plugin.with_name(f"{name}.py"), [*kernels.values()], plugin)
    if any(target.name == full_name for target in plugins.targets):
        raise UsageError(f"{full_name!r} exists already. Choose another name.")
    for path in (added.file, *added.kernels):
        if path.exists():
            raise UsageError(f"'{path}' already exists, and is not overwritten. Choose another name.")
    listed = _with_line(plugin, name, devices)
    texts = {added.file: _benchmark(name, devices, kernels)}
    examples = files("aiperf_core") / "templates/chapter/src/PACKAGE/kernels"
    for language, path in kernels.items():
        example = examples / f"scale_and_shift{LANGUAGES[language].ending}.in"
        texts[path] = example.read_text("utf-8").replace("scale_and_shift", LANGUAGES[language].kernel)
    written = []
    try:
        plugin.with_name("kernels").mkdir(exist_ok=True)
        for path, text in texts.items():
            written.append(path)
            path.write_text(text, "utf-8")
        plugin.write_text(listed, "utf-8")
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise UsageError(f"cannot write to '{plugin.parent}': {error.strerror}.") from None
    return added


def _benchmark(name: str, devices: Sequence[str], kernels: Mapping[str, Path]) -> str:
    """The text of the benchmark's file."""
    made = [LANGUAGES[language] for language in kernels]
    calls = {"cpu": 'bench.on("cpu")', "cuda": 'bench.on("cuda", requires="sm_80")'}
    used = [one for one in devices if len(devices) == 1 or one == "cuda" or "c" in kernels]
    handles = {one: calls[one] for one in used}
    if len(devices) > 1:
        handles = {"both": 'bench.on(("cpu", "cuda"))', **handles}
    template = (files("aiperf_core") / "templates/target/NAME.py.in").read_text("utf-8")
    return Template(template).substitute(
        name=name,
        numbers=", ".join(_NUMBERS[one] for one in devices),
        sources=", ".join(sorted({one.source for one in made})),
        launches=", ".join(sorted({maker for one in made for maker in one.makers})),
        handles=f"{', '.join(handles)} = {', '.join(handles.values())}",
        sizes=", ".join(_SIZES[one] for one in devices),
        device=devices[-1],
        all=next(iter(handles)),
        kernels="\n\n".join(
            one.variant.replace("{file}", path.name) for one, path in zip(made, kernels.values(), strict=True)
        ),
    )


def _with_line(plugin: Path, name: str, devices: Sequence[str]) -> str:
    """The text of the plugin's module, with the target's line at the end of `aiperf_targets`."""
    text = plugin.read_text("utf-8")
    summary = name.replace("_", " ").strip().capitalize()
    named = {"name": name, "summary": summary, "devices": literal(tuple(devices))}
    functions = [one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)]
    hook = next((one for one in functions if one.name == "aiperf_targets"), None)
    nodes = list(ast.walk(hook)) if hook else []
    yields = any(isinstance(one, ast.Yield) for one in nodes)
    if hook is None or not yields or any(isinstance(one, ast.Return) for one in nodes):
        line = _LINE.format(indent="", **named).removeprefix("yield ")
        raise UsageError(
            f"'{plugin}' has no function aiperf_targets that yields its targets one by one, so no line can be added. "
            f"Write it so, or add the target by hand: {line}"
        )
    lines = text.splitlines()
    lines.insert(hook.end_lineno or len(lines), _LINE.format(indent=" " * hook.body[0].col_offset, **named))
    return "\n".join([*lines, ""])
