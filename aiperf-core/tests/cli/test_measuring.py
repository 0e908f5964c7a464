"""Options that several commands share."""

import click
import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.cli.measuring import measuring_options
from aiperf_core.plugins import load_plugins


@click.command("measure")
@measuring_options(timeout_s=1.0, scope="")
def measure(measuring, **_):
    click.echo(repr(measuring.labels))


def test_labels_by_name():
    done = CliRunner().invoke(measure, ["--label", "branch=main", "--label", "note=a=b c", "--label", "empty="])
    assert done.stdout == "{'branch': 'main', 'note': 'a=b c', 'empty': ''}\n"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["main"], "--label takes NAME=VALUE, such as --label branch=main; got 'main'."),
        (["=main"], "--label takes NAME=VALUE, such as --label branch=main; got '=main'."),
        (["a=1", "a=2"], "--label a was given twice; each label has one value."),
    ],
)
def test_labels_that_are_refused(labels, message):
    given = [part for label in labels for part in ("--label", label)]
    done = CliRunner().invoke(Shell(load_plugins([])), ["run", "practice.softmax", *given])
    assert (done.exit_code, done.stderr) == (2, f"aiperf: {message}\n")
