"""`python -m sandbox`: starts the stand-in for SEC EDGAR and Companies House on 127.0.0.1."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from sandbox import uk_generated, us_generated
from sandbox.app import Sandbox, Settings
from sandbox.keys import BadKeys, Key, parse_key, read_keys
from sandbox.server import Server

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
MOST = min(uk_generated.MOST, us_generated.MOST)
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


def main(arguments: list[str] | None = None) -> int:
    """Serves until SIGTERM or SIGINT, which end it at once with exit 0. 1: it could not start."""
    options = _parser().parse_args(arguments)
    settings = Settings(
        seed=options.seed,
        generated=options.companies,
        latency_seconds=options.latency,
        jitter_seconds=options.jitter,
        document_ttl_seconds=options.document_ttl,
        sec_block_seconds=options.sec_block,
        facts_bytes=options.facts_bytes,
    )
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    try:
        server = Server(options.port, Sandbox(settings, _keys(options)))
    except BadKeys as error:
        print(f"sandbox: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"sandbox: port {options.port} cannot be used: {error.strerror}", file=sys.stderr)
        return 1
    with server:
        print(f"Sandbox ready on http://127.0.0.1:{server.port}", flush=True)
        server.serve_forever()
    return 0


def seconds(text: str) -> float:
    """`200ms`, `1.5s`, `10m`, in seconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write it as 200ms, 30s, 10m or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def _up_to(most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) > most:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to {most}")
        return int(text)

    return number


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def _keys(options: argparse.Namespace) -> list[Key]:
    named = [] if options.keys is None else read_keys(options.keys)
    return named + [parse_key(text, len(named) + place) for place, text in enumerate(options.key, 1)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sandbox", description=__doc__)
    parser.add_argument("--port", type=_up_to(65_535), required=True, help="0: any free port")
    parser.add_argument("--latency", type=seconds, default=0.0, metavar="200ms", help="time of each answer")
    parser.add_argument("--jitter", type=seconds, default=0.0, metavar="50ms", help="at most so much more")
    parser.add_argument("--seed", type=int, default=1, help="of generated companies and of faults")
    parser.add_argument(
        "--companies", type=_up_to(MOST), default=0, metavar="N", help="generated ones per service"
    )
    parser.add_argument(
        "--facts-bytes", type=int, default=20_000, metavar="N", help="added to each companyfacts"
    )
    parser.add_argument("--document-ttl", type=seconds, default=30.0, metavar="30s", help="of an address")
    parser.add_argument("--sec-block", type=seconds, default=600.0, metavar="10m", help="after a burst")
    parser.add_argument(
        "--keys", type=Path, metavar="FILE", help="JSON: service, secret, limits, account, label"
    )
    parser.add_argument(
        "--key", action="append", default=[], metavar="SERVICE:SECRET[@ACCOUNT]:LIMIT[,LIMIT]"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
