"""Server-sent events, cut out of a stream of bytes."""

MOST_BYTES = 1 << 20  # of an event


class TooLarge(Exception):
    """An event is longer than any server of tokens sends."""


class Events:
    """The data of the events in the bytes that arrive, by the rules of the HTML standard; comments are left out."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The events that end in this piece. Raises `TooLarge`."""
        buffer = self._rest + piece if self._rest else piece
        lines = buffer.split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > MOST_BYTES:
            raise TooLarge
        found = []
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
                if sum(map(len, self._data)) > MOST_BYTES:
                    raise TooLarge
            elif not line and self._data:
                found.append(b"\n".join(self._data))
                self._data = []
        return found
