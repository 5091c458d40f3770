"""Reads the files of lists that are folders: below one root, through archives, nothing unpacked to disk."""

from __future__ import annotations

import os
import stat
import threading
from collections import OrderedDict
from pathlib import Path

from services.archives import MEGABYTE, MEMBER_BYTES_ALLOWED, Archive, BadMember, is_archive
from services.extraction import CallFailed

ARCHIVES_OPEN = 4

_Identity = tuple[Path, int, int]


class Files:
    """What lies below `root` (SLUICE_FILINGS_ROOT); None: nothing may be read.

    Archives stay open from one read to the next: the directory of a monthly pack takes seconds to read.
    """

    def __init__(self, root: Path | None) -> None:
        self._root = root.resolve() if root else None
        self._open: OrderedDict[_Identity, Archive] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, folder: str, member: str) -> bytes:
        """The bytes of a member of the folder. Raises `CallFailed` with what is wrong with it."""
        try:
            path, about, rest = self._split(folder, member)
            return self._archive(path, about).read(rest) if rest else self._whole(path)
        except BadMember as error:
            raise CallFailed(error.cause, str(error)) from None
        except KeyError:
            raise CallFailed("not_available", f"{member} is not in the archive any more.") from None
        except OSError as error:
            raise CallFailed("not_available", f"{member} cannot be read: {error.strerror}.") from None

    def _split(self, folder: str, member: str) -> tuple[Path, os.stat_result, str]:
        """The file on disk, and the way on within it when it is an archive. Links stay below the root."""
        if self._root is None:
            raise CallFailed("not_available", "SLUICE_FILINGS_ROOT is not set for this worker.")
        path, parts = self._root / folder, member.split("/")
        for place, part in enumerate(parts, 1):
            path = path / part
            about = path.stat()
            if not stat.S_ISDIR(about.st_mode):
                if not path.resolve().is_relative_to(self._root):
                    raise CallFailed("not_available", f"{member} lies outside SLUICE_FILINGS_ROOT.")
                if not stat.S_ISREG(about.st_mode):
                    break
                return path, about, "/".join(parts[place:])
        raise CallFailed("not_available", f"{member} is no file.")

    def _whole(self, path: Path) -> bytes:
        with path.open("rb") as file:
            data = file.read(MEMBER_BYTES_ALLOWED + 1)
        if len(data) > MEMBER_BYTES_ALLOWED:
            raise BadMember("too_large", f"It exceeds the {MEMBER_BYTES_ALLOWED // MEGABYTE} MB allowed.")
        return data

    def _archive(self, path: Path, about: os.stat_result) -> Archive:
        identity = path, about.st_mtime_ns, about.st_size
        with self._lock:
            if identity not in self._open:
                self._open[identity] = _opened(path)
                if len(self._open) > ARCHIVES_OPEN:
                    self._open.popitem(last=False)  # closed when the last read of it is through
            self._open.move_to_end(identity)
            return self._open[identity]


def _opened(path: Path) -> Archive:
    with path.open("rb") as file:
        if not is_archive(file):
            raise BadMember("parse_error", f"{path.name} is no archive.")
    return Archive(path)
