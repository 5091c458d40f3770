"""Our reader of UK filings against the public ones: the same files, one process each, in turns."""

from __future__ import annotations

import gzip
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import place
from bench.figure import Absent, Measured

STREAM_READ_XBRL = ("stream-read-xbrl==0.1.5", "boto3==1.44.8", "mypy-boto3-s3==1.43.106")
IXBRLPARSE = ("ixbrlparse==0.12.0",)
LARGE_BYTES = 300_000
RUNS = 3
SECONDS = 2.0
SCRIPT = Path(__file__).resolve().parent / "reading.py"


def small_vs_stream_read_xbrl() -> Measured:
    """Our filings per second over its own, on filings under 300 KB."""
    return _against("stream_read_xbrl", STREAM_READ_XBRL, _filings()[0])


def large_vs_stream_read_xbrl() -> Measured:
    """The same on larger filings."""
    return _against("stream_read_xbrl", STREAM_READ_XBRL, _filings()[1])


def vs_ixbrlparse() -> Measured:
    """Our filings per second over its own: the worse of small and large filings."""
    small, large = (_against("ixbrlparse", IXBRLPARSE, files) for files in _filings())
    worse = min(small, large, key=lambda one: one.value)
    return Measured(worse.runs, worse.value, (*small.notes, *large.notes))


def _filings() -> tuple[list[Path], list[Path]]:
    """The real UK filings, small and large. Raises `Absent` without the corpus."""
    files = sorted(place.corpus().glob("uk_ixbrl/*"))
    sizes = {
        file: len(gzip.decompress(file.read_bytes())) if file.suffix == ".gz" else file.stat().st_size
        for file in files
    }
    small = [file for file in files if sizes[file] < LARGE_BYTES]
    return small, [file for file in files if file not in small]


def _against(peer: str, requirements: Sequence[str], files: Sequence[Path]) -> Measured:
    python = place.python_of_peers(*requirements)
    rates = [(_rate(Path(sys.executable), "ours", files), _rate(python, peer, files)) for _ in range(RUNS)]
    ours, theirs = (statistics.median(column) for column in zip(*rates, strict=True))
    note = f"{len(files)} filings: {ours:.3g} a second, {peer} {theirs:.3g}"
    return Measured.median([mine / other for mine, other in rates], note)


def _rate(python: Path, reader: str, files: Sequence[Path]) -> float:
    """Filings per CPU second."""
    asked = [str(python), str(SCRIPT), reader, str(SECONDS), *map(str, files)]
    ran = subprocess.run(asked, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise Absent(f"{reader} does not run here: {ran.stderr.strip().splitlines()[-1]}")
    return float(ran.stdout.split()[-1])
