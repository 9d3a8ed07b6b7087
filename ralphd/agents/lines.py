"""Where each line of an endless, hostile byte stream begins and ends."""

from __future__ import annotations

from dataclasses import dataclass, field

LIMIT_BYTES = 8 << 20  # the longest line seen of a CLI was 5 MB, a tool result with an image in it
OVERLONG = b"\0over-long line\0"  # stands in for a line past the limit; its byte range is right


@dataclass
class Lines:
    """Cuts chunks into lines in bounded memory and linear time.

    What comes out is ``(start, end, line)``: byte offsets in the whole stream, newline excluded, and the line without
    its line end. Empty lines are left out; one past ``limit_bytes`` comes as OVERLONG.
    """

    limit_bytes: int = LIMIT_BYTES
    offset: int = 0  # of the line that is being collected
    _length: int = 0
    _held: bytearray = field(default_factory=bytearray)

    def feed(self, chunk: bytes) -> list[tuple[int, int, bytes]]:
        """Take the next bytes, split anywhere, and return the lines that are complete now."""
        lines: list[tuple[int, int, bytes]] = []
        begin = 0
        while (cut := chunk.find(b"\n", begin)) >= 0:
            self._keep(chunk[begin:cut])
            lines += self._take(newline=1)
            begin = cut + 1
        self._keep(chunk[begin:] if begin else chunk)
        return lines

    def begun(self, limit_bytes: int) -> bytes:
        """Return the beginning of the line that is being collected."""
        return bytes(self._held[:limit_bytes])

    def close(self) -> list[tuple[int, int, bytes]]:
        """Return what stands after the last newline."""
        return self._take(newline=0)

    def _keep(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length <= self.limit_bytes:
            self._held += piece
        elif self._held:
            self._held = bytearray()  # gives the memory back; clear() would keep it

    def _take(self, newline: int) -> list[tuple[int, int, bytes]]:
        start, end = self.offset, self.offset + self._length
        line = OVERLONG if self._length > self.limit_bytes else bytes(self._held).removesuffix(b"\r")
        self.offset, self._length = end + newline, 0
        if self._held:
            self._held = bytearray()
        return [(start, end, line)] if line else []
