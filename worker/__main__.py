"""`python -m worker`: wires the parts of a worker together and runs it until it is told to stop."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType
from uuid import uuid4

from services.registry import SERVICES
from services.service import Service
from store import __version__, database
from store.notify import STOPPING, notify
from store.settings import BadSetting, Settings
from store.start import CannotStart, read_settings, ready_database
from store.vault import Vault
from store.workers import Identity
from worker import connections
from worker.calling import Caller
from worker.heartbeat import Heartbeat, named
from worker.http import Http
from worker.memory import give_back_large_blocks
from worker.permits import Permits
from worker.reading import Files
from worker.upkeep import Upkeep
from worker.worker import Worker
from worker.writer import Writer

log = logging.getLogger("worker")

POOL_SIZE = 4
JOIN_SECONDS = 5.0
# A thread whose answer has come waits so long for one that computes: claims, permits and beats do not
# wait 5 ms, as is usual, at each step.
SWITCH_SECONDS = 0.001


def main(arguments: Sequence[str] | None = None, services: Mapping[str, Service] = SERVICES) -> int:
    """Run a worker; returns its exit code: 0 after an orderly stop, 1 when it could not start or broke."""
    asked = _parse(arguments, services)
    give_back_large_blocks()
    logging.basicConfig(
        format="%(asctime)s %(levelname)-7s %(message)s", level=logging.INFO, stream=sys.stderr
    )
    try:
        settings = read_settings()
        vault = Vault(settings.master_keys())
        with ready_database(settings) as url:
            return _Process(settings, url, vault, asked, services).run()
    except (CannotStart, BadSetting) as error:
        print(f"worker: {error}", file=sys.stderr)
        return 1


def _parse(arguments: Sequence[str] | None, services: Mapping[str, Service]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m worker", description="Runs the jobs of all active lists."
    )
    parser.add_argument("--slots", type=int, default=8, help="jobs at a time (default 8)")
    parser.add_argument("--key-set", help="use only the keys of this set (default: all keys)")
    parser.add_argument(
        "--services", nargs="+", choices=sorted(services), default=sorted(services), help="default: all"
    )
    asked = parser.parse_args(arguments)
    if not 1 <= asked.slots <= 256:  # noqa: PLR2004 - said in the message
        parser.error(f"--slots is {asked.slots}; it must be from 1 to 256")
    return asked


class _Process:
    """The parts of one worker process and the order in which they start and stop."""

    def __init__(
        self,
        settings: Settings,
        url: str,
        vault: Vault,
        asked: argparse.Namespace,
        services: Mapping[str, Service],
    ) -> None:
        self.broken = False
        self.told_to_stop = False
        self.pool = database.pool(url, "sluice worker", POOL_SIZE)
        borrowed = connections.of_pool(self.pool)
        http, files = Http(threads=asked.slots * 3), Files(settings.filings_root)
        self.writer = Writer(borrowed)
        self.upkeep = Upkeep(borrowed)
        self.permits = {name: Permits(name, asked.key_set, borrowed, vault) for name in asked.services}
        callers = {
            name: Caller(services[name], settings.services_url, http, permits, self.writer, borrowed, files)
            for name, permits in self.permits.items()
        }
        self.worker = Worker(callers, borrowed, slots=asked.slots, key_set=asked.key_set)
        self.heartbeat = Heartbeat(
            url,
            _identity(asked),
            lease_seconds=settings.lease_seconds,
            interval_seconds=settings.heartbeat_seconds,
            vitals=self.worker.vitals,
            heard=self.worker.heard,
            woken=self.worker.woken,
            lost=self.worker.lost,
        )

    def run(self) -> int:
        """The heartbeat starts first and stops last; what is held is settled before the writer stops."""
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.collect()
        gc.freeze()  # what is imported stays, and is not to be walked again with every collection
        signal.signal(signal.SIGTERM, self._told_to_stop)
        signal.signal(signal.SIGINT, self._told_to_stop)
        with (
            self.pool,
            self._thread("heartbeat", self.heartbeat.run, self.heartbeat.stop),
            self._thread("writer", lambda: self.writer.run(self.worker.gone), self.writer.stop),
            self._thread("upkeep", self.upkeep.run, self.upkeep.stop),
            ExitStack() as askers,
        ):
            for name, permits in self.permits.items():
                askers.enter_context(self._thread(f"permits {name}", permits.run, permits.stop))
            log.info("%s started", self.heartbeat.identity.name)
            identity, is_believed = lambda: self.heartbeat.identity.id, self.heartbeat.is_believed
            if not self.worker.run(identity, is_believed, self.writer):
                self.broken = True
                self.writer.abandon()
        log.info("%s stopped", self.heartbeat.identity.name)
        return 1 if self.broken else 0

    def _told_to_stop(self, number: int, _frame: FrameType | None) -> None:
        """First signal: finish what runs. Second: put it back at its next call."""
        stop = self.worker.halt if self.told_to_stop else self.worker.drain
        self.told_to_stop = True
        threading.Thread(target=stop, daemon=True).start()  # not here: the lock may be ours
        notify(STOPPING)
        log.info("%s: no new jobs; a second signal puts running jobs back", signal.Signals(number).name)

    @contextmanager
    def _thread(self, name: str, run: Callable[[], None], stop: Callable[[], None]) -> Iterator[None]:
        """A side thread for as long as the body runs; one that dies takes the worker with it, in order."""

        def guarded() -> None:
            try:
                run()
            except BaseException:
                log.exception("the thread %s died; the worker stops", name)
                self.broken = True
                self.worker.halt()

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop()
            thread.join(JOIN_SECONDS)
            if thread.is_alive():
                log.error("the thread %s does not end; it is left behind", name)
                self.broken = True


def _identity(asked: argparse.Namespace) -> Identity:
    host, new_id = socket.gethostname(), uuid4()
    return Identity(
        new_id,
        named(host, new_id.hex),
        host,
        os.getpid(),
        __version__,
        asked.key_set,
        asked.services,
        asked.slots,
    )


if __name__ == "__main__":
    code = main()
    if code:  # a thread may hang, and must not keep the process
        logging.shutdown()
        os._exit(code)
