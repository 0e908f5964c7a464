"""A PostgreSQL server for tests: of the distribution's package, in a temporary folder, on a Unix socket.

    python aiperf-analysis/tests/postgres_server.py            whether there is one, and which
    python aiperf-analysis/tests/postgres_server.py install    install Debian's package (root only)

The server keeps nothing through a crash of the machine (`fsync = off`), which makes tests quick. PostgreSQL refuses to
run as root: for root it runs as the user `postgres`, or `nobody`.
"""

import argparse
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGE = "postgresql"
INSTALL = "python aiperf-analysis/tests/postgres_server.py install"
SETTINGS = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "listen_addresses=",
    "max_connections=40",
    "shared_buffers=512MB",
)


class Missing(Exception):
    """There is no server on this machine; the message says what to do."""


def programs() -> Path:
    """The folder of the server's programs. Raises Missing."""
    folders = [*map(Path, os.environ["PATH"].split(os.pathsep)), *sorted(Path("/usr/lib/postgresql").glob("*/bin"))]
    for folder in reversed(folders):
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    raise Missing(
        "PostgreSQL's server is not installed: neither PATH nor /usr/lib/postgresql has 'postgres' and 'initdb'. "
        f"Install it, as root on Debian: {INSTALL}. To leave its tests out: AIPERF_TEST_WITHOUT_POSTGRESQL=1"
    )


@contextmanager
def server(parent: str = "/tmp") -> Iterator[str]:
    """Start a server, and stop it at the end. Yields the URL of its database `postgres`. Raises Missing.

    parent: the folder for its own temporary folder, whose path must be short, for a socket is in it.
    """
    found = programs()
    user = _user()
    folder = Path(tempfile.mkdtemp(prefix="aiperf-postgres-", dir=parent))
    try:
        folder.chmod(0o711)
        data = folder / "data"
        data.mkdir(mode=0o700)
        if user:
            for path in (folder, data):
                shutil.chown(path, user.pw_uid, user.pw_gid)
        _run([found / "initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync",
              f"--pgdata={data}"], user, folder)  # fmt: skip
        options = " ".join(f"-c {one}" for one in (*SETTINGS, f"unix_socket_directories={folder}"))
        control = [found / "pg_ctl", f"--pgdata={data}", "--wait", "--timeout=60"]
        _run([*control, f"--log={folder}/log", f"--options={options}", "start"], user, folder)
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            _run([*control, "--mode=immediate", "stop"], user, folder)
    finally:
        shutil.rmtree(folder)


def _user() -> pwd.struct_passwd | None:
    """As whom the server runs; None for the user of this process."""
    if os.getuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _run(command: list[object], user: pwd.struct_passwd | None, folder: Path) -> None:
    """Run a program of the server. Its output goes to a file: the server would keep a pipe open."""
    more = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    output = folder / "output"
    with output.open("wb") as file:
        done = subprocess.run(
            [*map(str, command)], cwd=folder, stdout=file, stderr=file, stdin=subprocess.DEVNULL, **more
        )
    if done.returncode:
        log = (folder / "log").read_text() if (folder / "log").exists() else ""
        raise RuntimeError(f"{Path(str(command[0])).name} ended with {done.returncode}:\n{output.read_text()}{log}")


def install() -> None:
    """Install Debian's package. Raises Missing where that is not possible."""
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        raise Missing(f"only root can install '{PACKAGE}', with Debian's apt-get. Install PostgreSQL by other means.")
    # Without a cluster of the distribution: the tests make their own.
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "--no-install-recommends", PACKAGE]):
        if subprocess.run(command, env=quiet, stdin=subprocess.DEVNULL).returncode:
            raise Missing(f"'{' '.join(command)}' failed; its output above says why.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", nargs="?", choices=("show", "install"), default="show")
    try:
        if parser.parse_args().action == "install":
            install()
        subprocess.run([programs() / "postgres", "--version"], check=True)
    except Missing as error:
        raise SystemExit(f"error: {error}") from None
