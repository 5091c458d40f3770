"""`python bench/reading.py READER SECONDS FILE…`: how many filings READER reads in a CPU second.

Imports nothing of ours but for our own reader: the peers run in an environment of theirs.
"""

from __future__ import annotations

import gzip
import io
import sys
import time
from collections.abc import Callable
from pathlib import Path

Reader = Callable[[str, bytes], object]


def ours() -> Reader:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from services.ixbrl import read
    from services.uk_accounts import latest, normalise

    return lambda _name, data: latest(normalise(read(data)))


def stream_read_xbrl() -> Reader:
    """The step that its public functions take for each member of an archive, without unpacking."""
    from stream_read_xbrl import _xbrl_to_rows  # type: ignore[import-not-found]

    return lambda name, data: list(_xbrl_to_rows((name, data)))


def ixbrlparse() -> Reader:
    from ixbrlparse import IXBRL  # type: ignore[import-not-found]

    return lambda _name, data: IXBRL(
        io.StringIO(data.decode("utf-8", "replace")), raise_on_error=False
    ).to_table()


READERS = {"ours": ours, "stream_read_xbrl": stream_read_xbrl, "ixbrlparse": ixbrlparse}


def main() -> None:
    name, seconds, *files = sys.argv[1:]
    read = READERS[name]()
    # One name for all: stream-read-xbrl skips what is not called as in the bulk archives.
    filings = [(f"Prod223_0001_{n:08}_20201231.html", _data(Path(file))) for n, file in enumerate(files)]
    for filing in filings[:2]:
        read(*filing)
    began, count = time.process_time(), 0
    while count == 0 or time.process_time() - began < float(seconds):
        for filing in filings:
            read(*filing)
        count += len(filings)
    print(count / (time.process_time() - began))


def _data(file: Path) -> bytes:
    return gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()


if __name__ == "__main__":
    main()
