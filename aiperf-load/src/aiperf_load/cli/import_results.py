"""`aiperf load import`: results of other load generators."""

from pathlib import Path
from typing import Any

import click

from aiperf_core.names import printable
from aiperf_core.plugins import Plugins
from aiperf_load.cli.options import bundle_options


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--from", "tool", required=True, metavar="vllm|guidellm|aiperf", help="The tool; aiperf is NVIDIA's.")
@bundle_options
@click.pass_obj
def command(plugins: Plugins, /, files: tuple[Path, ...], tool: str, **given: Any) -> None:
    """Import results of another load generator into a bundle.

    FILE is the JSON of `vllm bench serve --save-result`, of GuideLLM, or of NVIDIA's aiperf.

    Its points are marked as foreign and never trusted: nothing in the file shows that the requests were on time.
    """
    from attrs import evolve

    from aiperf_core.errors import ExitCode
    from aiperf_core.manifest import new_manifest
    from aiperf_core.report import picture
    from aiperf_core.results.bundle import DEFAULT_PARENT, Bundle
    from aiperf_load import keeping
    from aiperf_load.cli.output import show
    from aiperf_load.foreign import imported

    if given["picture"] is not None:
        picture.check(given["picture"], "--picture")
    name = given["name"]
    result = imported(tool, list(files))
    manifest = evolve(new_manifest(plugins=plugins), labels=given["labels"])
    out = given["out"]
    bundle = Bundle.create_at(out) if out is not None else Bundle.create(DEFAULT_PARENT, f"load-{name}")
    bundle.write_manifest(manifest)
    result = keeping.write(bundle, name, result, {})
    bundle.write_manifest(evolve(manifest, complete=True, exit_code=int(ExitCode.OK)))
    show(result, name, given)
    if not given["as_json"]:
        click.echo(f"\n{printable(str(bundle.path))}")
