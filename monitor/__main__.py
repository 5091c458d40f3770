"""`python -m monitor`: looks for trouble and tells people. Run two: the second waits for the first to die."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from types import FrameType

import psycopg

from monitor.channels import configured
from monitor.monitor import Monitor
from store.start import VAR, CannotStart, read_settings, ready_database

log = logging.getLogger("monitor")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the monitor; returns its exit code: 0 after an orderly end, 1 when it could not start or look."""
    asked = _parse(arguments)
    logging.basicConfig(
        format="%(asctime)s %(levelname)-7s %(message)s", level=logging.INFO, stream=sys.stderr
    )
    logging.getLogger("apscheduler").setLevel(logging.ERROR)  # a look that takes long is no news
    try:
        settings = read_settings()
        with ready_database(settings) as url:
            channels = configured(settings)
            monitor = Monitor(
                url,
                channels,
                every_seconds=settings.monitor_seconds,
                public_url=settings.public_url,
                disk=VAR if VAR.is_dir() else VAR.parent,
            )
            _greet([channel.name for channel in channels], settings.public_url)
            return _once(monitor) if asked.once else _run(monitor)
    except CannotStart as error:
        print(f"monitor: {error}", file=sys.stderr)
        return 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m monitor", description="Looks for trouble, tells people.")
    parser.add_argument("--once", action="store_true", help="look once, send what is due, and end")
    return parser.parse_args(arguments)


def _greet(channels: Sequence[str], public_url: str) -> None:
    if channels:
        log.info("alerts are told by %s, with links to %s", " and ".join(channels), public_url)
    else:
        log.warning("nobody is told: alerts are only shown (set SMTP_URL and so on, or ALERT_WEBHOOK_URL)")


def _once(monitor: Monitor) -> int:
    try:
        if not monitor.once():
            log.info("another monitor leads; nothing was done")
    except psycopg.Error as error:
        print(f"monitor: the look failed: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


def _run(monitor: Monitor) -> int:
    def told_to_stop(number: int, _frame: FrameType | None) -> None:
        log.info("%s: stopping", signal.Signals(number).name)
        monitor.stop()

    signal.signal(signal.SIGTERM, told_to_stop)
    signal.signal(signal.SIGINT, told_to_stop)
    monitor.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
