import re

import click
import pytest

from aiperf_core.commands import Command

tea = click.Command("tea")


def test_a_command_is_found_by_module_and_attribute():
    assert Command("list", "List.", "aiperf_core.cli.list:list_targets").resolve().name == "list"


def test_a_command_may_be_made_by_a_callable():
    assert Command("tea", "Make tea.", lambda: tea).resolve() is tea


def test_what_is_no_click_command_is_refused():
    with pytest.raises(TypeError, match=r"^a click command was expected; found str$"):
        Command("tea", "Make tea.", lambda: "tea").resolve()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("make tea", "x", "a:b"),
            "'make tea' cannot name a command: use letters, digits and hyphens, such as 'compare'",
        ),
        (("--tea", "x", "a:b"), "'--tea' cannot name a command: use letters, digits and hyphens, such as 'compare'"),
        (("tea", "", "a:b"), "command 'tea' needs a summary of one line; found ''"),
        (("tea", "x", "a.b"), "command 'tea' needs load='module:attribute' or a callable; found 'a.b'"),
        (("tea", "x", ":b"), "command 'tea' needs load='module:attribute' or a callable; found ':b'"),
        (("tea", "x", None), "command 'tea' needs load='module:attribute' or a callable; found None"),
    ],
)
def test_a_command_that_breaks_a_rule_says_which(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Command(*arguments)
