"""`aiperf load show`: the loads in a bundle."""

from typing import TYPE_CHECKING, Any

import click

from aiperf_core.cli.bundles import BUNDLE, verified
from aiperf_core.errors import AiperfError
from aiperf_load.cli.options import output_options

if TYPE_CHECKING:
    from aiperf_core.results.address import Address


@click.command("show")
@click.argument("what", type=BUNDLE, metavar="BUNDLE")
@output_options
@verified("what", samples=lambda _: False)
def command(what: "Address", **given: Any) -> None:
    """Show the loads of a bundle.

    A bundle is a path, a name or the start of it, or latest.
    """
    from aiperf_load import keeping
    from aiperf_load.cli.output import show

    names = what.bundle.documents(keeping.KIND)
    if not names:
        raise AiperfError(f"'{what.bundle.path}' has no load. Measure one: aiperf load run URL --rate N")
    if len(names) > 1 and (given["picture"] or given["csv_file"]):
        raise AiperfError(f"'{what.bundle.path}' has {len(names)} loads; --picture and --csv take a bundle with one.")
    for name in names:
        result = keeping.read(what.bundle.document(keeping.KIND, name))
        show(result, name, given)
