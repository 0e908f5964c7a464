"""How a dashboard is served: addresses, tokens and limits."""

import secrets
from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@frozen(kw_only=True)
class Settings:
    """The settings of a server.

    hosts: host names that a request may name, beside those of loopback.
    token: what a reader must show; None on loopback, where none is needed.
    add_token: what `PUT /api/v1/bundles/{id}` needs; None accepts no bundle.
    accepted: the folder that keeps the bundles which were added.
    secure: whether readers come by HTTPS, so that cookies are for HTTPS only.
    given: options of analyses that only the command line gives, by analysis and option.
    session: the value of the cookie of this server. It is another after each start.
    exported: whether the pages become files, which have no forms.
    answer_s: the longest time of a request.
    patience_s: how long a page waits for results to be read, and for the history; then it says how far they are. None
        waits for both.
    body_bytes: the longest body of a request, uploads excepted.
    """

    hosts: tuple[str, ...] = ()
    token: str | None = None
    add_token: str | None = None
    accepted: Path | None = None
    secure: bool = False
    given: Mapping[str, Mapping[str, str]] = field(factory=dict)
    session: str = field(factory=lambda: secrets.token_urlsafe(32))
    exported: bool = False
    answer_s: float = 60.0
    patience_s: float | None = None
    body_bytes: int = 1 << 16

    @property
    def shows_lessons(self) -> bool:
        """Whether lessons are made, by a process that imports installed benchmarks: for readers on this machine."""
        return self.token is None and not self.exported
