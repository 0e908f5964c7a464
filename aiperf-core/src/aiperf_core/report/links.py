"""Addresses that a picture may hold: places of the page's own server, and nothing else."""

import re
from urllib.parse import quote

# One slash and no more: `//host` is another server. No scheme, no blank, no backslash, nothing that ends an attribute.
_LOCAL = re.compile(r"(?:/(?!/)|[?#])[A-Za-z0-9/._~!$&*+,;=:@%?#()\[\]-]*")


def local(address: str) -> str:
    """The address, which begins with `/`, `?` or `#`; an empty one is no link. Other characters are percent-encoded.

    Raises ValueError for an address that leads elsewhere, which is an error of ours and never one of a bundle.
    """
    if not address:
        return ""
    safe = quote(address, safe="/._~!$&*+,;=:@%?#()[]-", errors="replace")
    if not _LOCAL.fullmatch(safe):
        raise ValueError(f"a picture links to places of its own server, such as '/run/ID'; got {address[:80]!r}")
    return safe
