"""The names of trace files: ``(model, configuration, worker, attempt)`` <-> one portable file name.

A capture is named by who and what, never by when. The qualified name is::

    name    = "torch-profiler-sb-" field "__cfg=" field "__node=" field "-" rank [".a" attempt] ".json"
    field   = plain | [head] "~" digest
    plain   = 1*( a-z | 0-9 | "." | "_" | "-" )        the text itself
    head    = *( a-z | 0-9 | "." | "_" | "-" )         a readable, cleaned form of the text, possibly shortened
    digest  = 16( a-z | 2-7 )                          80 bits of SHA-256 over the exact text, base 32
    rank    = "0" | 1-9 *digit                         the global rank
    attempt = 2, 3, ...                                present when the name was already taken

Why no two captures can meet: ``=`` and ``~`` occur in no plain text, so a name has exactly two ``=`` and each field
begins and ends at one place only; a plain field *is* its text, any other carries a digest of its exact text. All
characters are lower-case ASCII, so a file system that folds case or normalises Unicode changes nothing, and none is
refused by NTFS, SMB or exFAT. A name that would be too long keeps its tail, from ``__node=`` on, whole, and shortens
the heads of configuration and model.

The legacy name is what older consumers read, ``torch-profiler-sb-<model>-<local_rank>.json``, and is never changed.

This module computes names. It must not look at the disk, except for the limit of a folder.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gputrace.errors import NamingError

if TYPE_CHECKING:
    from pytest_gputrace.model import WorkerId

__all__ = [
    "DEFAULT_LIMIT",
    "Field",
    "ParsedName",
    "encode_field",
    "is_capture_name",
    "is_legacy_name",
    "legacy_name",
    "name_limit",
    "parse_name",
    "qualified_name",
]

DEFAULT_LIMIT = 255
"""Bytes a file name may have where the file system does not say (every common one: ext4, XFS, NTFS, APFS, NFS)."""

_PREFIX = "torch-profiler-sb-"
_SUFFIX = ".json"
_PLAIN = re.compile(r"[a-z0-9._-]+")
_FIELD = r"([a-z0-9._-]+|[a-z0-9._-]*~[a-z2-7]{16})"
_NAME = re.compile(rf"{_PREFIX}{_FIELD}__cfg={_FIELD}__node={_FIELD}-(0|[1-9][0-9]*)(?:\.a([2-9]|[1-9][0-9]+))?\.json")
_LEGACY = re.compile(r"torch-profiler-sb-(.*)-(0|[1-9][0-9]*)\.json", re.DOTALL)
# A node label may be as long as a host name of 64 bytes with our hash, and more; beyond this (an FQDN has up to 253) it
# is shortened like any field, so that model and configuration keep readable heads.
_NODE_MAX = 128


@dataclass(frozen=True)
class Field:
    """What a name carries of one text: the text itself (``digest`` is None), or a readable head and its digest."""

    text: str
    digest: str | None = None

    def matches(self, text: str) -> bool:
        """Whether this field was made from ``text``."""
        return text == self.text if self.digest is None else _digest(text) == self.digest

    def __str__(self) -> str:
        return self.text if self.digest is None else f"{self.text}~{self.digest}"


@dataclass(frozen=True)
class ParsedName:
    """A qualified name taken apart."""

    model: Field
    configuration: Field
    node: Field
    rank: int
    attempt: int = 1


def legacy_name(model: str, local_rank: int) -> str:
    """The name older consumers read, unchanged: several nodes and configurations share it."""
    return f"{_PREFIX}{model}-{local_rank}{_SUFFIX}"


def is_legacy_name(name: str) -> bool:
    """Whether ``name`` has the legacy form and is not a qualified one."""
    return _LEGACY.fullmatch(name) is not None and _NAME.fullmatch(name) is None


def qualified_name(
    *, model: str, configuration: str, worker: WorkerId, attempt: int = 1, limit: int = DEFAULT_LIMIT
) -> str:
    """The name of one capture, by the grammar of the module docstring.

    Args:
        model: any text.
        configuration: the full configuration, any text, ``/`` and ``:`` included.
        worker: gives ``node`` and the global ``rank``.
        attempt: 1 for the first file of a capture; 2, 3, ... when earlier ones are already there.
        limit: bytes the name may have, see `name_limit`.

    Returns:
        An ASCII name of at most ``limit`` bytes, the same for the same arguments on every machine.

    Raises:
        NamingError: ``limit`` has no room for three digests, or ``attempt`` is not positive.
    """
    if attempt < 1:
        raise NamingError(f"attempt must be 1 or more, not {attempt}")
    end = f"-{worker.rank}.a{attempt}{_SUFFIX}" if attempt > 1 else f"-{worker.rank}{_SUFFIX}"
    # What is left for the three texts. The node is placed first: the tail stays whole, whatever the others need.
    room = limit - len(f"{_PREFIX}__cfg=__node={end}")
    if room < 3 * _DIGEST_LENGTH:
        raise NamingError(
            f"a name of {limit} bytes has no room for the capture of rank {worker.rank}; the shortest one needs "
            f"{limit - room + 3 * _DIGEST_LENGTH}; write to a file system with longer names"
        )
    node = encode_field(worker.node, limit=min(_NODE_MAX, room - 2 * _DIGEST_LENGTH))
    tail = f"__node={node}{end}"
    room -= len(node)
    # Both whole if they fit. Else the shorter one may stay whole and the longer one takes what is left, so that a
    # short model keeps its full name beside a very long configuration.
    model_max = max(room - len(encode_field(configuration)), room // 2)
    model_field = encode_field(model, limit=model_max)
    configuration_field = encode_field(configuration, limit=room - len(model_field))
    return f"{_PREFIX}{model_field}__cfg={configuration_field}{tail}"


def is_capture_name(name: str) -> bool:
    """Whether a file system may take ``name`` for a qualified one: as it is, case folded, or in any Unicode form."""
    forms = (unicodedata.normalize("NFKC", form) for form in (name, name.casefold()))
    return any(_NAME.fullmatch(form.casefold()) is not None for form in (name, *forms))


def parse_name(name: str) -> ParsedName:
    """Take a qualified name apart.

    Raises:
        NamingError: ``name`` is not a qualified name (a legacy name is not one either).
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise NamingError(
            f"{name!r} is not a qualified trace name; expected "
            f"{_PREFIX}<model>__cfg=<configuration>__node=<node>-<rank>[.aN]{_SUFFIX}"
        )
    model, configuration, node, rank, attempt = match.groups()
    return ParsedName(
        _parse_field(model), _parse_field(configuration), _parse_field(node), int(rank), int(attempt or "1")
    )


def encode_field(text: str, *, limit: int = DEFAULT_LIMIT) -> str:
    """One field of a name: ``text`` itself where it is plain and fits, else a readable head, ``~`` and a digest.

    Any text has an encoding, the empty one and one with lone surrogates (undecodable file names) included. ``limit``
    is in bytes; below the length of a digest it is raised to that.
    """
    if len(text) <= limit and _PLAIN.fullmatch(text):
        return text
    head = _clean(text)[: max(0, limit - _DIGEST_LENGTH)]
    return f"{head}~{_digest(text)}"


def name_limit(folder: str | os.PathLike[str]) -> int:
    """Bytes a file name in ``folder`` may have, asked of its file system; `DEFAULT_LIMIT` where it does not say."""
    try:
        limit = os.pathconf(folder, "PC_NAME_MAX")
    except (OSError, ValueError, AttributeError):  # no such folder yet, no such key, no pathconf (Windows)
        return DEFAULT_LIMIT
    # Some FUSE and network file systems answer 0 or -1, meaning "no limit known"; others thousands, which tools that
    # copy the files elsewhere would not survive.
    return limit if 0 < limit <= DEFAULT_LIMIT else DEFAULT_LIMIT


def _parse_field(encoded: str) -> Field:
    head, tilde, digest = encoded.partition("~")
    return Field(head, digest if tilde else None)


def _digest(text: str) -> str:
    # surrogatepass: a name that the system could not decode is still a name, and still distinct.
    whole = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(whole[:10]).decode("ascii").lower()


_DIGEST_LENGTH = len("~") + len(_digest(""))


def _clean(text: str) -> str:
    """Readable ASCII for a person; carries no meaning, the digest does."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii").lower()
    return re.sub(r"[^a-z0-9._-]+", "-", ascii_text).strip("-")
