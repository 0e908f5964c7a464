"""Start a server: its socket, its tokens, and its end."""

import os
import secrets
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from attrs import frozen

from aiperf_analysis.dashboard.settings import LOOPBACK, Settings
from aiperf_analysis.filters import Filters
from aiperf_analysis.live.tail import live_runs
from aiperf_analysis.sources.source import FolderSource, Source, StoreSource
from aiperf_core import units
from aiperf_core.errors import AiperfError, ExitCode, UsageError
from aiperf_core.names import cause, printable, words
from aiperf_core.plugins import Plugins
from aiperf_core.targets import nearest

if TYPE_CHECKING:
    from aiperf_analysis.dashboard.site import Site

MOST_AT_ONCE = 512  # connections
KEEP_ALIVE_S = 15
PATIENCE_S = 0.2  # until a page tells how far the reading of the results is
END_S = 3  # for requests to end when the server stops


@frozen(kw_only=True)
class Wanted:
    """The options of the command."""

    host: str
    port: int
    socket: Path | None
    hosts: tuple[str, ...]
    certificate: Path | None
    key: Path | None
    behind_proxy: bool
    accept: Path | None
    given: tuple[str, ...]
    opens: bool

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches the server."""
        return self.socket is not None or self.host in LOOPBACK


def local(port: int, *, opens: bool) -> Wanted:
    """The options of a server that only this machine reaches."""
    return Wanted(
        host="127.0.0.1",
        port=port,
        socket=None,
        hosts=(),
        certificate=None,
        key=None,
        behind_proxy=False,
        accept=None,
        given=(),
        opens=opens,
    )


def serve(plugins: Plugins, folder: Path, url: str | None, wanted: Wanted, tell: Callable[..., Any]) -> ExitCode:
    """Serve until a signal ends it. Raises UsageError for options that do not fit, and a port that is taken."""
    check(wanted, url)
    source = source_of(folder, url)
    settings = settings_of(plugins, wanted)
    sock = listening(wanted)
    try:
        _serve(sock, plugins, source, settings, wanted, tell)
    except KeyboardInterrupt:
        pass
    finally:
        sock.close()
        if wanted.socket is not None:
            wanted.socket.unlink(missing_ok=True)
    return ExitCode.OK


def export(
    plugins: Plugins, folder: Path, url: str | None, target: Path, wanted: Wanted, tell: Callable[..., Any]
) -> ExitCode:
    """Write a static site. Raises UsageError for options of a server, and what `exporting.export` raises."""
    from aiperf_analysis.dashboard import exporting

    if wanted.socket is not None or wanted.accept is not None or not wanted.is_local:
        raise UsageError("--export writes files and serves nothing; give no --host, --socket or --accept with it.")
    settings = Settings(given=_given(plugins, wanted.given), exported=True)
    written = exporting.export(source_of(folder, url), plugins, target, settings, tell)
    tell(
        f"{units.plural('page', written.pages)} and {units.plural('other file', written.files - written.pages)}, "
        f"{units.size(written.size)}. Open: {printable(str(target / 'index.html'))}"
    )
    if wanted.opens:
        import webbrowser

        webbrowser.open((target / "index.html").resolve().as_uri())
    return ExitCode.OK


def _serve(
    sock: socket.socket, plugins: Plugins, source: Source, settings: Settings, wanted: Wanted, tell: Callable[..., Any]
) -> None:
    import uvicorn

    from aiperf_analysis.dashboard.app import create_app
    from aiperf_analysis.dashboard.connections import Connection

    app = create_app(source, settings, plugins)
    address = address_of(wanted, sock)
    for line in greeting(address, source, settings):
        tell(line)
    if wanted.opens and wanted.socket is None:
        import webbrowser

        webbrowser.open(entrance(address, settings))
    config = uvicorn.Config(
        app,
        http=Connection,
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=wanted.behind_proxy,
        limit_concurrency=MOST_AT_ONCE,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=END_S,
        ssl_certfile=wanted.certificate and str(wanted.certificate),
        ssl_keyfile=wanted.key and str(wanted.key),
        lifespan="off",
        ws="none",
    )
    threading.Thread(target=warm, args=(app.state.site,), daemon=True).start()

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """End the streams, which would last until the time for ending is over."""
            app.state.site.streams.end()
            super().handle_exit(sig, frame)

    Server(config).run(sockets=[sock])


def check(wanted: Wanted, url: str | None) -> None:
    """Refuse options that do not fit together."""
    if (wanted.certificate is None) != (wanted.key is None):
        raise UsageError("TLS needs both --certificate and --key.")
    for file in (wanted.certificate, wanted.key):
        if file is not None and not file.is_file():
            raise UsageError(f"'{file}' does not exist; --certificate and --key take PEM files.")
    if not wanted.is_local and wanted.certificate is None and not wanted.behind_proxy:
        raise UsageError(
            f"--host {words(wanted.host)} lets other machines reach the server, and its token would cross the network "
            "in clear. Give --certificate and --key for TLS, or --behind-proxy if a proxy of yours ends TLS."
        )
    if wanted.accept is not None and url is None:
        raise UsageError("--accept adds bundles to a store; name it with --db URL.")


def source_of(folder: Path, url: str | None) -> Source:
    """The source that the command names. Raises UsageError for a folder that does not exist, and for no URL."""
    if url is not None:
        source = StoreSource(url)
        source.state()
        return source
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise UsageError(
            f"'{words(str(folder))}' {what}; the dashboard shows a folder of bundles. Make some: aiperf run PATTERN"
        )
    return FolderSource(folder)


def settings_of(plugins: Plugins, wanted: Wanted) -> Settings:
    """The settings. A server that other machines reach gets a token."""
    return Settings(
        hosts=(*wanted.hosts, *(() if wanted.is_local else (wanted.host,))),
        token=None if wanted.is_local else secrets.token_urlsafe(24),
        add_token=secrets.token_urlsafe(24) if wanted.accept is not None else None,
        accepted=wanted.accept,
        secure=wanted.certificate is not None or wanted.behind_proxy,
        given=_given(plugins, wanted.given),
        patience_s=PATIENCE_S,
    )


def _given(plugins: Plugins, texts: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """The options of analyses by analysis and name. Raises UsageError for one that does not exist."""
    import attrs

    from aiperf_core.analysis_options import options_of, value_of

    found: dict[str, dict[str, str]] = {}
    for text in texts:
        place, equals, value = text.partition("=")
        name, dot, option = place.partition(".")
        if not equals or not dot:
            raise UsageError(f"--set takes ANALYSIS.OPTION=VALUE, such as targets.file=targets.toml; got {text!r}.")
        if name not in plugins.analyses:
            raise UsageError(f"{name!r} is no analysis.{nearest(name, list(plugins.analyses))}")
        options = options_of(plugins.analyses[name].record.resolve())
        fields = {one.name.replace("_", "-"): one for one in attrs.fields(options)}
        if option not in fields:
            raise UsageError(f"{option!r} is no option of {name}.{nearest(option, list(fields))}")
        value_of(options, fields[option], value)
        found.setdefault(name, {})[option] = value
    return found


def listening(wanted: Wanted) -> socket.socket:
    """The socket of the server. Raises UsageError where the address cannot be taken."""
    if wanted.socket is not None:
        return _unix(wanted.socket)
    family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((wanted.host, wanted.port))
        sock.listen(1024)
    except (OSError, UnicodeError) as error:
        sock.close()
        reason = cause(error)
        raise UsageError(
            f"cannot listen on {words(wanted.host)}, port {wanted.port}: {reason}. Choose another with --port; "
            "--port 0 takes a free one."
        ) from None
    return sock


def _unix(path: Path) -> socket.socket:
    """A socket in the file system that this user alone may open."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.exists() and stat.S_ISSOCK(path.stat().st_mode) and _is_dead(path):
            path.unlink()
        before = os.umask(0o177)
        try:
            sock.bind(str(path))
        finally:
            os.umask(before)
        sock.listen(1024)
    except OSError as error:
        sock.close()
        raise UsageError(
            f"cannot listen on '{words(str(path))}': {error.strerror or error}. Choose another --socket."
        ) from None
    return sock


def _is_dead(path: Path) -> bool:
    """Whether no server listens on a socket that a killed one left behind."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        try:
            one.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def address_of(wanted: Wanted, sock: socket.socket) -> str:
    """The address that a browser opens."""
    if wanted.socket is not None:
        return f"unix:{wanted.socket}"
    kind = "https" if wanted.certificate is not None else "http"
    host = f"[{wanted.host}]" if ":" in wanted.host else wanted.host
    return f"{kind}://{host}:{sock.getsockname()[1]}/"


def entrance(address: str, settings: Settings) -> str:
    """The address with the token, which a browser does not send to any server."""
    return f"{address}login#token={settings.token}" if settings.token else address


def greeting(address: str, source: Source, settings: Settings) -> list[str]:
    """What the command prints when the server listens."""
    found = [f"aiperf dashboard of {source.name}: {entrance(address, settings)}"]
    if settings.token:
        found.append(f"For programs, the header: Authorization: Bearer {settings.token}")
    if settings.add_token:
        found.append(f"To add bundles, the header: Authorization: Bearer {settings.add_token}")
    return [*found, "Ctrl-C ends it."]


def warm(site: "Site") -> None:
    """Read the results and compute the history once, so that the first reader need not wait.

    Not while a run is going on here, which it would disturb.
    """
    if any(run.state == "running" for run in live_runs()):
        return
    from aiperf_analysis.dashboard.pages import overview

    with suppress(AiperfError):
        site.soon(("worse", repr(Filters())), lambda: overview.worse_of(site, Filters()))
