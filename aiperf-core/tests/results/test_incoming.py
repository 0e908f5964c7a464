"""A stream that is damaged, and a disk that cannot keep it: the one is refused for ever, the other may be tried again."""

import gzip
import io
import tarfile

import pytest

from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.results.incoming import unpack


def stream(*files, mode="w"):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for name, size in files:
            member = tarfile.TarInfo(name)
            member.size = size
            archive.addfile(member, io.BytesIO(bytes(size)))
    return file.getvalue()


def refused(data, staging, *, file=None):
    with pytest.raises(AiperfError) as caught:
        unpack(file or io.BytesIO(data), staging, len(data))
    return type(caught.value), str(caught.value)


def test_a_disk_that_is_full_is_no_fault_of_the_stream(tiny_disk, tmp_path):
    folder = tiny_disk(tmp_path / "disk", 1 << 16)
    data = stream(("targets/a.json", 1 << 15), ("targets/b.json", 1 << 16))
    assert refused(data, folder) == (AiperfError, "the bundle cannot be kept: No space left on device.")


def test_a_disk_that_cannot_be_read(tmp_path):
    class Broken(io.BytesIO):
        def read(self, size=-1):
            raise OSError(5, "Input/output error")

    assert refused(b"", tmp_path, file=Broken()) == (AiperfError, "the bundle cannot be kept: Input/output error.")


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (stream(("manifest.json", 10), ("manifest.json", 10)), "File exists"),
        (stream(("targets", 10), ("targets/a.json", 10)), "exists"),
        (stream(("targets/" + "a" * 300, 10)), "File name too long"),
        (stream(("manifest.json", 1 << 16))[:-(1 << 15)], "unexpected end of data"),
        (gzip.compress(b"no tar", mtime=0)[:-4] + b"abcd", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_stream(data, found, tmp_path):
    kind, message = refused(data, tmp_path)
    assert kind is UsageError
    assert message.startswith("the body is no whole tar stream: ")
    assert found in message
