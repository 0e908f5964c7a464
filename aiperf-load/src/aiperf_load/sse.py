"""Server-sent events, cut out of a stream of bytes."""

MOST_BYTES = 1 << 20  # of an event


class TooLarge(Exception):
    """An event is longer than any server of tokens sends."""


class Events:
    """The data of the events in the bytes that arrive. A line ends with LF or CR LF; comments are left out.

    The work for a piece grows with the piece alone, whatever came before it, and what is kept of an unfinished event
    is bounded.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # of a line that has not ended
        self._rest_bytes = 0
        self._data: list[bytes] = []  # lines of an event that has not ended
        self._data_bytes = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The events that end in this piece. Raises `TooLarge`."""
        lines = piece.split(b"\n")
        last = lines.pop()
        found: list[bytes] = []
        for line in lines:
            if self._rest:
                line = b"".join((*self._rest, line))
                self._rest, self._rest_bytes = [], 0
            self._take(line.removesuffix(b"\r"), found)
        if last:
            self._rest.append(last)
            self._rest_bytes += len(last)
        if self._rest_bytes + self._data_bytes > MOST_BYTES:
            raise TooLarge
        return found

    def _take(self, line: bytes, found: list[bytes]) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            self._data_bytes += len(line) + 1
            if self._data_bytes > MOST_BYTES:
                raise TooLarge
        elif not line and self._data:
            found.append(b"\n".join(self._data))
            self._data, self._data_bytes = [], 0
