"""`PUT /api/v1/bundles/{id}`: a bundle as a tar stream, added to the store.

The stream is foreign: its size, its number of files and its ratio of compression are limited, it may hold regular files
of a bundle only, and nothing of it is visible before the readers of the core accepted all of it.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from starlette.concurrency import run_in_threadpool

from aiperf_analysis.dashboard.asked import Answer, Asked
from aiperf_analysis.lines import is_seal
from aiperf_analysis.sources.source import StoreSource
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words
from aiperf_core.results.incoming import LIMITS, unpack, validate


async def add(asked: Asked) -> Answer:
    """Receive a bundle, check it, and add it. Raises UsageError for a stream that is no bundle with this seal."""
    seal, source, folder = asked.path["id"], asked.site.source, asked.site.settings.accepted
    if not is_seal(seal):
        raise UsageError("the id of a bundle is its seal: 64 hexadecimal digits; aiperf recheck prints it.")
    if not isinstance(source, StoreSource) or folder is None:
        raise UsageError("this server adds no bundles; start it with --db URL and --accept FOLDER.")
    with tempfile.TemporaryFile() as file:
        sent = 0
        async for piece in asked.request.stream():
            sent += len(piece)
            if sent > LIMITS.sent:
                raise UsageError(f"the stream is longer than {LIMITS.sent:,} bytes.")
            file.write(piece)
        file.seek(0)
        return await run_in_threadpool(_added, source, folder, seal, file, sent)


def _added(source: StoreSource, folder: Path, seal: str, file: IO[bytes], sent: int) -> Answer:
    from aiperf_analysis.store import adding
    from aiperf_analysis.store.database import opened

    with _staged(folder) as staging:
        unpack(file, staging, sent)
        validate(staging, seal)
        place = folder / seal
        try:
            os.rename(staging, place)
        except OSError as error:
            if not place.is_dir():  # it is there already: a bundle is added once
                raise AiperfError(f"the bundle cannot be kept: {error.strerror or error}.") from error
    with opened(source.url) as database:
        outcome = adding.add(database, place)
    if outcome.ending not in ("added", "known", "moved"):
        shutil.rmtree(place, ignore_errors=True)
        raise UsageError(f"the bundle was not added: {words(outcome.reason)}")
    source.forget()
    status = 201 if outcome.ending == "added" else 200
    return Answer(document={"id": seal, "ending": outcome.ending, "name": place.name}, status=status)


@contextmanager
def _staged(folder: Path) -> Iterator[Path]:
    """A hidden folder, which is removed unless it was renamed."""
    staging = folder / f".{secrets.token_hex(8)}.incoming"
    try:
        staging.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise AiperfError(f"the server cannot keep bundles: {error.strerror or error}.") from error
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)
