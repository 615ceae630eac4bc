"""Recognises content that cannot be read as text: archives, and the encodings UTF-16 and UTF-32."""

from __future__ import annotations

import codecs
from typing import Final

from fencepost.api.errors import DataError

UTF_8: Final = "utf-8"

HEAD_BYTES: Final = 512
"""The number of bytes at the start of a file that are checked."""

_ARCHIVES: Final = {
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a\x07": "a RAR archive",
    b"\x1f\x9d": "compressed by compress (.Z)",
    b"\xff\x06\x00\x00sNaPpY": "compressed by snappy",
    b"\x02\x21\x4c\x18": "in lz4's legacy format",
    b"LZIP\x01": "compressed by lzip",
    b"\x89LZO\x00\r\n\x1a\n": "compressed by lzop",
}
_NO_UTF_8: Final = {b"\x5d\x00\x00": "in the old format of lzma", b"\x78\x9c": "compressed by zlib"}
"""First bytes that are valid text only in encodings other than UTF-8."""

# UTF-32 comes first: its byte order mark begins with the byte order mark of UTF-16.
_MARKS: Final = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_TAR_MAGIC: Final = b"ustar"
_TAR_MAGIC_AT: Final = 257


def check_text(path: str, head: bytes, encoding: str) -> None:
    """Raise DataError, with advice, if content that begins with `head` is certainly not text in the encoding."""
    known_magics = _ARCHIVES | (_NO_UTF_8 if encoding == UTF_8 else {})
    archive = next((name for magic, name in known_magics.items() if head.startswith(magic)), None)
    if head[_TAR_MAGIC_AT:].startswith(_TAR_MAGIC):
        archive = "a tar archive"
    if archive is not None:
        raise DataError(
            f"The content of the file {path} is {archive}, which FileSource does not read. Unpack it, and compress the files "
            "in it with gzip, zstd, bzip2, xz or lz4 if they are to be compressed"
        )
    mark = next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
    if encoding == UTF_8 and mark is not None:
        raise DataError(
            f"The content of the file {path} begins with the byte order mark of {mark}, so it is not in UTF-8: set the property "
            f"encoding={mark}"
        )


def may_become_foreign(head: bytes) -> bool:
    """Return whether `check_text` may raise DataError once more bytes follow."""
    return any(magic.startswith(head) for magic in (*_ARCHIVES, *_NO_UTF_8, *_MARKS))
