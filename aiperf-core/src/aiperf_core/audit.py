"""Audit: settings of a machine that change its performance, with advice where a setting costs some.

An audit only reads. The commands of chapters print audits with `aiperf_core.cli.audit_view`.
"""

from attrs import frozen


@frozen
class Setting:
    """A setting of the machine, as an audit found it.

    name: what is set.
    value: as the machine shows it; `unknown` if it does not.
    source: the file, or the call, that shows it.
    advice: why the value costs performance, and what to do; empty if it costs none.
    """

    name: str
    value: str
    source: str
    advice: str = ""


def chosen(choices: str) -> str:
    """The chosen word of a setting that lists its choices, as `madvise` of `always [madvise] never`."""
    return choices.partition("[")[2].partition("]")[0] or choices
