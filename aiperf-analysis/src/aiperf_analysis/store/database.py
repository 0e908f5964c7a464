"""A store's database: where it is, its version, its transactions, and its errors as messages.

    with opened(url) as database, database.writing() as connection:
        connection.execute(...)

SQLite keeps its data in a file in the mode WAL, so that readers and a writer do not wait for each other. A transaction
that writes takes the lock at its begin: two writers take turns, and neither fails half-way.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url

from aiperf_analysis.store import tables
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words

ACCEPTED = "sqlite:///FILE, the path of a file, or postgresql://USER@HOST/NAME"

VERSION_TABLE = "aiperf_version"
VERSION = "7"  # of the tables; a store of another version is refused

BUSY_S = 30  # a writer waits as long for others
CONNECT_S = 10
_LOCK = 0x61697065  # of PostgreSQL, for those who make a store; any fixed number
_WRITES = "aiperf_writes"
BINARY = "aiperf_binary"  # option of a statement: PostgreSQL sends numbers as such and not as text


class StoreError(AiperfError):
    """A store cannot be reached, read or written."""


class Database:
    """An open store. Made by `opened`."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine

    @property
    def name(self) -> str:
        """Its URL without the password."""
        return shown(self.engine.url)

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file of SQLite rather than a database of PostgreSQL."""
        return self.engine.dialect.name == "sqlite"

    @property
    def insert(self) -> Callable[[sa.Table], Any]:
        """`INSERT` of the engine, which can leave out rows that are there."""
        return sqlite.insert if self.is_sqlite else postgresql.insert

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that sees the store as it was at its begin. Raises StoreError."""
        options: dict[str, Any] = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        with self._explained(), self.engine.connect().execution_options(**options) as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that writes. It is rolled back where the block raises. Raises StoreError."""
        options = {_WRITES: True}
        with self._explained(), self.engine.connect().execution_options(**options) as connection, connection.begin():
            yield connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except exc.DBAPIError as error:
            told = _sqlite_told(error) if self.is_sqlite else _postgresql_told(error)
            if told is None:
                raise
            raise StoreError(f"the store {self.name} {told}") from error


@contextmanager
def opened(text: str) -> Iterator[Database]:
    """Open a store.

    text: see `ACCEPTED`.

    Raises UsageError for another text; StoreError where there is no store, or one of another version.
    """
    with _connected(text) as database:
        if database.is_sqlite and not _file(database).exists():
            raise StoreError(f"there is no store at {database.name}. Make it: {_command('init', database)}")
        with database.reading() as connection:
            version = _version(connection)
        _check_version(database, version)
        if version is None:
            raise StoreError(f"{database.name} holds no store. Make it: {_command('init', database)}")
        yield database


def made(text: str) -> tuple[str, bool]:
    """Make the tables of a store where there is none, in one transaction.

    Returns the name of the store, and whether it is new. Raises UsageError and StoreError.
    """
    with _connected(text) as database:
        if database.is_sqlite:
            if _file(database).exists():
                with database.reading() as connection:
                    _check_foreign(database, connection)  # before anything of the file is changed
            _make_folder(database)
        with database.writing() as connection:
            if not database.is_sqlite:
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            version = _version(connection)
            _check_version(database, version)
            _check_foreign(database, connection)
            if version is None:
                tables.METADATA.create_all(connection)
                connection.execute(sa.text(f"CREATE TABLE {VERSION_TABLE} (version_num TEXT NOT NULL)"))
                connection.execute(sa.text(f"INSERT INTO {VERSION_TABLE} VALUES (:version)"), {"version": VERSION})
        return database.name, version is None


def _version(connection: sa.Connection) -> str | None:
    """The version of the tables; None where there are none."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def _check_version(database: Database, version: str | None) -> None:
    """Raise StoreError for a store of another version."""
    if version not in (None, VERSION):
        raise StoreError(
            f"the store {database.name} has version {words(version)}, and this aiperf-analysis reads version {VERSION} "
            "only. Make it anew from the bundles: aiperf db init --db NEW; aiperf db add FOLDER --db NEW"
        )


def url_of(text: str) -> URL:
    """The URL of a store. Raises UsageError for a text that is none."""
    try:
        url = make_url(text) if "://" in text else URL.create("sqlite", database=text)
    except (exc.ArgumentError, ValueError):
        raise UsageError(f"'{words(text)}' is no store. Accepted: {ACCEPTED}.") from None
    engine = url.drivername.partition("+")[0]
    if engine in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    is_file = url.drivername in ("sqlite", "sqlite+pysqlite") and not url.host and not url.username
    if not is_file or not url.database or url.database == ":memory:":
        raise UsageError(f"'{words(url.render_as_string(hide_password=True))}' is no store. Accepted: {ACCEPTED}.")
    # By the text: the parser of URLs drops what has no value.
    options = text.partition("?")[1:] if "://" in text else ("", "")
    if options[0] and not re.fullmatch(r"timeout=\d{1,6}(\.\d*)?", options[1]):
        raise UsageError(
            f"'{words(text)}' has an option that is unknown. Accepted: ?timeout=SECONDS. For a file with '?' in its "
            "name, give the path of the file."
        )
    return url


def shown(url: str | URL) -> str:
    """A URL without its password, for messages. Raises UsageError as `url_of` does."""
    found = url_of(url) if isinstance(url, str) else url
    driver = found.drivername.partition("+")[0]
    return words(found.set(drivername=driver).render_as_string(hide_password=True))


@contextmanager
def _connected(text: str) -> Iterator[Database]:
    url = url_of(text)
    is_sqlite = url.drivername.startswith("sqlite")
    if is_sqlite:
        arguments: dict[str, Any] = {} if "timeout" in url.query else {"timeout": BUSY_S}
    else:
        arguments = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_S}
    try:
        engine = sa.create_engine(url, connect_args=arguments)
    except ModuleNotFoundError:
        raise UsageError(
            "a store on PostgreSQL needs psycopg, which is not installed: pip install 'aiperf-analysis[postgres]'"
        ) from None
    if is_sqlite:
        sa.event.listen(engine, "connect", _set_up_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    else:
        sa.event.listen(engine, "connect", _set_up_postgresql)
        sa.event.listen(engine, "before_cursor_execute", _set_format)
    try:
        yield Database(engine)
    finally:
        engine.dispose()


def _set_up_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # `_begin_sqlite` begins transactions, not Python's module
    for pragma in ("foreign_keys = ON", "cache_size = -65536", "mmap_size = 1073741824", "temp_store = MEMORY"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _set_up_postgresql(connection: Any, _: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = '{BUSY_S}s'")
    connection.commit()


def _set_format(_: sa.Connection, cursor: Any, __: str, ___: Any, context: Any, ____: bool) -> None:
    if context is not None and context.execution_options.get(BINARY):
        cursor.format = 1  # psycopg.pq.Format.BINARY


def _file(database: Database) -> Path:
    return Path(database.engine.url.database or "")


def _make_folder(database: Database) -> None:
    file = _file(database)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the folder of {database.name}: {error.strerror or error}.") from error
    with database._explained():
        # WAL is a property of the file, and cannot be set within a transaction.
        raw = database.engine.raw_connection()
        try:
            _retried(lambda: raw.cursor().execute("PRAGMA journal_mode = WAL"))
        except Exception as error:
            told = _sqlite_told(error)
            if told is None:
                raise
            raise StoreError(f"the store {database.name} {told}") from error
        finally:
            raw.close()


def _retried(function: Callable[[], object]) -> None:
    """Call a function until SQLite is not busy. Changing the journal's mode does not wait for others by itself."""
    end = time.monotonic() + 5
    while True:
        try:
            function()
        except Exception as error:
            if "SQLITE_BUSY" not in str(getattr(error, "sqlite_errorname", "")) or time.monotonic() > end:
                raise
            time.sleep(0.02)
        else:
            return


def _check_foreign(database: Database, connection: sa.Connection) -> None:
    """Raise StoreError for a table or a view of another program where no store is."""
    inspector = sa.inspect(connection)
    there = sorted({*inspector.get_table_names(), *inspector.get_view_names()} - {VERSION_TABLE})
    if there and _version(connection) is None:
        raise StoreError(
            f"{database.name} has a table '{words(there[0])}' of another program; a store needs a database of its own. "
            "Name a new one with --db."
        )


def _command(name: str, database: Database) -> str:
    return f"aiperf db {name} --db {database.name}"


# --- errors of the engines


def _sqlite_told(error: BaseException) -> str | None:
    """An error of SQLite as the end of a sentence about the store; None for a mistake of ours."""
    found = getattr(error, "orig", None) or error
    name = getattr(found, "sqlite_errorname", None) or ""
    for prefix, told in _SQLITE.items():
        if name.startswith(prefix):
            return told
    return None


_SQLITE = {
    "SQLITE_BUSY": "is locked: another process has been writing all the time that this one waited. Try again when it "
    "has ended. What was added before is stored.",
    "SQLITE_LOCKED": "is locked by another process. Try again when it has ended. What was added before is stored.",
    "SQLITE_FULL": "cannot be written: the disk is full. Free some space and try again; what was added before is "
    "stored, and nothing half-way.",
    "SQLITE_READONLY": "cannot be written: the file or its folder is read-only for this user. Change the permissions, "
    "or name another store with --db.",
    "SQLITE_PERM": "cannot be opened: this user may not. Change the permissions, or name another store with --db.",
    "SQLITE_CANTOPEN": "cannot be opened: it is a folder, or this user may not use its folder. Name a file with --db.",
    "SQLITE_NOTADB": "is no database of SQLite. Name another file with --db.",
    "SQLITE_CORRUPT": "is damaged. Restore a copy, or make a new store and add the bundles again: aiperf db init "
    "--db NEW; aiperf db add FOLDER --db NEW",
    "SQLITE_IOERR": "cannot be read or written: the disk reports an error. Free some space or look at the disk, and "
    "try again; what was added before is stored.",
}


def _postgresql_told(error: exc.DBAPIError) -> str | None:
    """An error of PostgreSQL as the end of a sentence about the store; None for a mistake of ours."""
    state = getattr(error.orig, "sqlstate", None)
    # A failed connection is told on several lines, of which the last asks whether the server runs.
    text = str(error.orig).partition("\n\tIs the server")[0]
    reason = words(text if state is None else text.partition("\n")[0]).rstrip(".")
    if state is None and (isinstance(error, exc.OperationalError) or "connection option" in text):
        return (
            f"cannot be reached: {reason}. Check the host, the port, the user and the database in --db; then try again."
        )
    for prefix, told in _POSTGRESQL.items():
        if state and state.startswith(prefix):
            return f"{told} ({reason}). What was added before is stored."
    return None


_POSTGRESQL = {
    "53": "cannot be written: the server lacks disk, memory or connections",
    "55P03": f"is locked: other connections have been writing for {BUSY_S} s. Try again when they have ended",
    "40": "was being written by others in a conflicting order. Try again",
    "57": "cannot be reached: the server shuts down or ended the connection. Try again when it runs",
    "08": "cannot be reached: the connection broke. Try again",
    "28": "cannot be opened: the server refuses this user. Check the user and the password in --db",
    "3D": "cannot be opened: the server has no such database. Make it: createdb NAME",
    "42501": "cannot be used: this user lacks a right. Ask the owner for rights on the schema",
    "25006": "cannot be written: the server is read-only. Name the primary server in --db",
    "58": "cannot be read or written: the server reports an error of its disk",
    "XX": "is damaged",
}
