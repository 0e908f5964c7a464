"""Write the dashboard as a static site: every page that needs no server, with its JSON and CSV, and relative links.

The pages are those of the server: the application answers in this process, from the pages of the navigation to
everything that they link to. Nothing is visible under the wanted name before every page is written.
"""

import asyncio
import hashlib
import html
import os
import posixpath
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from attrs import define, frozen

from aiperf_analysis.dashboard.app import create_app
from aiperf_analysis.dashboard.settings import Settings
from aiperf_analysis.sources.source import FolderSource, Source
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words
from aiperf_core.plugins import Plugins

# The addresses on this server in what our templates and pictures write: they quote every attribute, and escape texts.
_LINK = re.compile(r'(?<=\s)(href|src)="(/[^"]*)"')
_PLAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,80}")
_TELL_EACH = 500  # pages


@frozen
class Reply:
    """What the application answers."""

    status: int
    media: str
    body: bytes


@define
class Written:
    """How much was written."""

    pages: int = 0
    files: int = 0
    size: int = 0


def export(source: Source, plugins: Plugins, target: Path, settings: Settings, say: Callable[[str], Any]) -> Written:
    """Write the site of a source to a new or empty folder.

    Raises UsageError for a folder with entries and one inside the source, and AiperfError where the results or the
    disk fail; then no file is left.
    """
    target = checked(source, target)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part.mkdir()
        written = asyncio.run(_Export(create_app(source, settings, plugins), part, say).run())
        os.replace(part, target)
    except OSError as error:
        raise AiperfError(f"cannot write '{words(str(target))}': {error.strerror or error}.") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return written


def checked(source: Source, target: Path) -> Path:
    """The folder of the site as an absolute path. Raises UsageError."""
    name = words(str(target))
    found = Path(os.path.abspath(target))
    if isinstance(source, FolderSource) and found.resolve().is_relative_to(source.root.resolve()):
        raise UsageError(f"'{name}' is inside the folder of the results; name a folder elsewhere: --export FOLDER")
    if found.is_dir() and not any(found.iterdir()):
        return found
    if found.is_dir():
        raise UsageError(f"'{name}' is not empty; --export needs a new or an empty folder.")
    if os.path.lexists(found):
        raise UsageError(f"'{name}' is not a folder; --export needs a new or an empty folder.")
    return found


class _Export:
    """One export: the addresses that were asked for, and those that wait."""

    def __init__(self, app: Any, folder: Path, say: Callable[[str], Any]) -> None:
        self.app = app
        self.folder = folder
        self.say = say
        self.site = app.state.site
        self.host = "localhost"
        self.known: dict[str, str | None] = {}
        self.waiting: list[str] = []
        self.written = Written()

    async def run(self) -> Written:
        """Ask for all pages, then make their links relative, when it is known which addresses have a file."""
        for page in self.site.pages:
            if page.section and not page.needs_server:
                self._place_of(page.path)
        while self.waiting:
            await self._one(self.waiting.pop())
        for place in {one for one in self.known.values() if one and one.endswith(".html")}:
            self._link(place)
        return self.written

    def _place_of(self, address: str) -> str | None:
        """The file of an address, which is asked for if it is new; None for an address without a file."""
        if address not in self.known:
            self.known[address] = place = file_of(address) if self._is_static(address) else None
            if place is not None:
                self.waiting.append(address)
        return self.known[address]

    def _is_static(self, address: str) -> bool:
        """Whether an address is a page that needs no server, a document of data, or a file of the browser."""
        path = urlsplit(address).path
        if path.startswith("/api/"):
            return not path.endswith("/openapi.json")
        return path.startswith("/static/") or not any(
            page.needs_server and re.fullmatch(re.sub(r"{[^}]*}", ".+", page.path), path) for page in self.site.pages
        )

    async def _one(self, address: str) -> None:
        reply = await answer(self.app, address, self.host)
        if reply.status >= 500:
            text = words(" ".join(re.sub(r"<[^>]+>", " ", reply.body.decode(errors="replace")).split()))[-400:]
            raise AiperfError(f"the page {words(address)} has no answer: {text} Nothing was written.")
        place = self.known[address]
        assert place is not None
        is_page = reply.media.startswith("text/html")
        if reply.status != 200 and not is_page:
            self.known[address] = None
            return
        file = self.folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(reply.body)
        self.written.files += 1
        if is_page:
            self.written.pages += 1
            if self.written.pages % _TELL_EACH == 0:
                self.say(f"{self.written.pages:,} pages written, {len(self.waiting):,} addresses known and not written")
            for _, found in _LINK.findall(reply.body.decode()):
                self._place_of(html.unescape(found).partition("#")[0])
        else:
            self.written.size += len(reply.body)

    def _link(self, place: str) -> None:
        """Make the links of a page relative; a link without a file becomes a text."""

        def relative(match: re.Match[str]) -> str:
            address, hash_, part = html.unescape(match[2]).partition("#")
            file = self.known.get(address)
            if file is None:
                return ""
            path = posixpath.relpath(file, posixpath.dirname(place))
            return f'{match[1]}="{html.escape(path + hash_ + part)}"'

        file = self.folder / place
        data = _LINK.sub(relative, file.read_text(encoding="utf-8")).encode()
        file.write_bytes(data)
        self.written.size += len(data)


def file_of(address: str) -> str:
    """The place of an address in the site: a path of plain names below it, whatever the address."""
    parts = urlsplit(address)
    query = dict(parse_qsl(parts.query))
    path = parts.path.removeprefix("/api/v1/").strip("/") or "index"
    names = [_plain(unquote(one)) for one in path.split("/")]
    if parts.path.startswith("/static/"):
        return "/".join(names)
    ending = ".html"
    if parts.path.startswith("/api/"):
        names.insert(0, "data")
        ending = ".csv" if query.pop("format", "") == "csv" else ".json"
    if query:
        names[-1] += f"-{_digest(urlencode(parse_qsl(parts.query)))}"
    return "/".join(names) + ending


def _plain(name: str) -> str:
    """A name as it is where it is plain, else its hash: names come from bundles."""
    return name if _PLAIN.fullmatch(name) else f"x-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


async def answer(app: Any, address: str, host: str) -> Reply:
    """What an application answers to a GET of an address of this server."""
    parts = urlsplit(address)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "headers": [(b"host", host.encode())],
        "client": None,
        "server": (host, 80),
    }
    status, media, body = 0, "", bytearray()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status, media
        if message["type"] == "http.response.start":
            status = message["status"]
            media = dict(message["headers"]).get(b"content-type", b"").decode()
        else:
            body.extend(message.get("body", b""))

    await app(scope, receive, send)
    return Reply(status, media, bytes(body))
