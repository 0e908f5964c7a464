"""Engines for the tests of the store: SQLite, and a real PostgreSQL."""

import shutil
import sqlite3
from pathlib import Path

import psycopg
from attrs import frozen

from aiperf_analysis.store import database


@frozen
class Sqlite:
    """Stores in files of a folder."""

    folder: Path
    name = "sqlite"

    def place(self, name, copied=False):
        if copied:
            shutil.copyfile(self.folder / "empty.db", self.folder / f"{name}.db")
        return f"sqlite:///{self.folder}/{name}.db"

    def drop(self, name):
        for file in self.folder.glob(f"{name}.db*"):
            file.unlink()

    def shown(self, url):
        return url

    def load(self, url, text):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.executescript(text)
        connection.close()


@frozen
class Postgresql:
    """Stores in databases of one server."""

    url: str
    name = "postgresql"

    def place(self, name, copied=False):
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {'empty' if copied else 'template0'}")
        return self.url.replace("/postgres?", f"/{name}?")

    def drop(self, name):
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def shown(self, url):
        return database.shown(url)

    def load(self, url, text):
        with psycopg.connect(url) as connection:
            connection.execute(text)
