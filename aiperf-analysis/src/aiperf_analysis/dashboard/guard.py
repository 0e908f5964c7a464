"""What every request passes before a handler, and what every answer carries.

Host names are checked against DNS rebinding; a token off loopback; for actions the cookie of this server and the
origin; sizes of addresses and bodies. Answers carry a policy by which a browser loads nothing from elsewhere.
"""

import hashlib
import hmac
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aiperf_analysis.dashboard.settings import LOOPBACK, Settings

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "interest-cohort=()",
}
OPEN = ("/login", "/static/")  # addresses without a token
ADDRESS_BYTES = 8192
SAFE = ("GET", "HEAD")

Refuse = Callable[[Scope, int, str, str], ASGIApp]


class Guard:
    """The first and the last step of every request.

    refuse: makes the answer to a refused request from its scope, status, title and text.
    """

    def __init__(self, app: ASGIApp, settings: Settings, refuse: Refuse) -> None:
        self.app = app
        self.settings = settings
        self.refuse = refuse
        self.names = {*LOOPBACK, *(name.lower().strip("[]") for name in settings.hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    out[name] = value
                if "cache-control" not in out:
                    out["cache-control"] = "no-store"
            await send(message)

        refused = self._refused(scope, headers)
        app = self.app if refused is None else self.refuse(scope, *refused)
        await app(scope, self._limited(receive) if scope["method"] != "PUT" else receive, sending)

    def _refused(self, scope: Scope, headers: Headers) -> tuple[int, str, str] | None:
        """The status, the title and the text for a request that is refused."""
        if len(scope["path"]) + len(scope.get("query_string", b"")) > ADDRESS_BYTES:
            return 414, "Address too long", f"An address has at most {ADDRESS_BYTES} bytes."
        host = _name(headers.get("host", ""))
        if host not in self.names:
            return 421, "Unknown host", (
                "This server answers for the names that it was started with only. Add a name with --allow-host NAME."
            )  # fmt: skip
        method, path = scope["method"], scope["path"]
        if method not in (*SAFE, "POST", "PUT"):
            return 405, "Method not allowed", "Use GET; a recheck is POST, and an added bundle is PUT."
        length = headers.get("content-length", "0")
        if method != "PUT" and (not length.isdecimal() or int(length) > self.settings.body_bytes):
            return 413, "Body too large", f"A body has at most {self.settings.body_bytes} bytes here."
        if method == "PUT":
            return self._adding(headers)
        if self.settings.token is not None and not path.startswith(OPEN) and not self._may_read(headers):
            return 401, "Token needed", (
                "Open the address that the server printed at its start, or send the header Authorization: Bearer TOKEN."
            )  # fmt: skip
        if method == "POST" and (refused := self._foreign(path, headers, host)):
            return refused
        return None

    def _adding(self, headers: Headers) -> tuple[int, str, str] | None:
        wanted = self.settings.add_token
        if wanted is None:
            return (
                403,
                "No bundles accepted",
                "Start the dashboard with --db URL and --accept FOLDER to accept bundles.",
            )
        if not same(_bearer(headers), wanted):
            return 401, "Token needed", "Send the header Authorization: Bearer TOKEN with a token of the scope add."
        return None

    def _may_read(self, headers: Headers) -> bool:
        given = _bearer(headers)
        tokens = [one for one in (self.settings.token, self.settings.add_token) if one]
        return self.has_cookie(headers) or any(same(given, one) for one in tokens)

    def has_cookie(self, headers: Headers) -> bool:
        """Whether a request has the cookie of this server."""
        return same(cookie(headers, self.settings), self.settings.session)

    def _foreign(self, path: str, headers: Headers, host: str) -> tuple[int, str, str] | None:
        """Why an action is refused: it comes from another site, or without the cookie."""
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site", "same-origin")
        own = f"{'https' if self.settings.secure else 'http'}://{headers.get('host', '')}"
        if origin != own or site not in ("same-origin", "none"):
            return 403, "Other origin", "An action must come from a page of this server."
        if not path.startswith("/login") and not self.has_cookie(headers):
            return 403, "No cookie", "Open a page of this server first; an action needs its cookie."
        return None

    def _limited(self, receive: Receive) -> Receive:
        """A body that ends at the limit, whatever its header says."""
        most = self.settings.body_bytes
        seen = 0

        async def receiving() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                return {"type": "http.disconnect"}
            return message

        return receiving


def same(given: str, wanted: str) -> bool:
    """Whether two secrets are the same, in a time that does not tell where they differ."""
    return bool(given) and hmac.compare_digest(given.encode(), wanted.encode())


def cookie_name(settings: Settings) -> str:
    """The name of the cookie: of each server its own, since a browser sends a cookie to all ports of a host."""
    return f"aiperf-{hashlib.sha256(settings.session.encode()).hexdigest()[:8]}"


def cookie(headers: Headers, settings: Settings) -> str:
    """The cookie of this server; empty without one."""
    try:
        found: Any = SimpleCookie(headers.get("cookie", "")).get(cookie_name(settings))
    except CookieError:
        return ""
    return found.value if found else ""


def _bearer(headers: Headers) -> str:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _name(host: str) -> str:
    """The name of a `Host` header without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
