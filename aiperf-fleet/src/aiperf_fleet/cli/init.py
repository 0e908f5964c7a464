"""`aiperf fleet init`: a suite to start from, and recipes for clusters and clouds."""

import click

RECIPES = {
    "suite": "suite.toml",
    "slurm": "slurm.sh",
    "ray": "ray.sh",
    "kubernetes": "kubernetes.yaml",
    "skypilot": "skypilot.yaml",
}


@click.command("init")
@click.argument("what", type=click.Choice(list(RECIPES)), default="suite")
def command(what: str) -> None:
    """Print a suite, which is the default, or a recipe for a cluster.

    Nothing is submitted: save the text, change it, and follow its first lines.
    """
    from importlib.resources import files

    click.echo(files("aiperf_fleet").joinpath("recipes", RECIPES[what]).read_text(), nl=False)
