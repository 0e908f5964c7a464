"""Server-sent events, cut out of a stream of bytes by the rules of the WHATWG standard."""

MOST_BYTES = 1 << 20  # of an event
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class TooLarge(Exception):
    """An event is longer than any server of tokens sends."""


class Events:
    """The data of the events in the bytes that arrive.

    A line ends with LF, CR or CR LF. A byte order mark at the begin, comments and events without data are left out.

    The work for a piece grows with the piece alone, whatever came before it, and what is kept of an unfinished event
    is bounded.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # of a line that has not ended
        self._rest_bytes = 0
        self._data: list[bytes] = []  # lines of an event that has not ended
        self._data_bytes = 0
        self._begun = self._after_cr = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The events that end in this piece. Raises `TooLarge`."""
        found: list[bytes] = []
        if not piece:
            return found
        # The CR before has ended the line already: no event waits for its LF.
        lines = piece.removeprefix(b"\n").splitlines() if self._after_cr else piece.splitlines()
        self._after_cr = piece.endswith(b"\r")
        last = b"" if piece.endswith((b"\r", b"\n")) else lines.pop()
        for line in lines:
            if self._rest:
                line = b"".join((*self._rest, line))
                self._rest, self._rest_bytes = [], 0
            if not self._begun:
                line, self._begun = line.removeprefix(BYTE_ORDER_MARK), True
            self._take(line, found)
        if last:
            self._rest.append(last)
            self._rest_bytes += len(last)
        if self._rest_bytes + self._data_bytes > MOST_BYTES:
            raise TooLarge
        return found

    def _take(self, line: bytes, found: list[bytes]) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_bytes += len(line) + 1
            if self._data_bytes > MOST_BYTES:
                raise TooLarge
        elif not line and self._data:
            data = b"\n".join(self._data)
            if data.strip():
                found.append(data)
            self._data, self._data_bytes = [], 0
