"""The run: its parts, and the blows that the plan deals them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil
import psycopg
import requests

from services.company_lists import Listed, read_companies
from services.registry import SERVICES
from store import jobs, lists
from store.embedded import Server
from store.jobs import NewJob
from store.lists import NewList
from tests.system.chaos.plan import UK, US, Blow, Kind
from tests.system.chaos.proxy import Proxy
from tests.system.conftest import Process, Scene

KEYS = (
    *((UK, f"uk{n}", "30/5s", "24/5s") for n in range(1, 7)),
    *((US, f"us{n}", "12/2s", "10/2s") for n in range(1, 3)),
)
SLOTS = 4
LEASE_SECONDS = 3.0
SESSIONS = """
SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'sluice worker%' ORDER BY random() LIMIT 3
"""


class Run:
    """Workers behind a proxy, on a server of their own that may be crashed."""

    def __init__(self, scene: Scene, server: Server, workers: int) -> None:
        self.scene = scene
        self.blows: Counter[Kind] = Counter()
        self._server = server
        self.lists: list[int] = []
        port = int(server.url.rpartition("/")[0].rpartition(":")[2])
        self._proxy = Proxy(port)
        self._settings = {
            "DATABASE_URL": server.url.replace(f":{port}/", f":{self._proxy.port}/"),
            "LEASE_SECONDS": str(LEASE_SECONDS),
            "HEARTBEAT_SECONDS": "0.5",
        }
        self._count = workers
        self._workers: list[Process] = []

    def prepare(self, size: int) -> None:
        """The sandbox, the keys, and `size` jobs in two lists of UK and one of US companies."""
        share = size // 3
        self.scene.sandbox(
            [(service, label, limit) for service, label, limit, _ in KEYS],
            *("--companies", str(size), "--latency", "100ms", "--jitter", "50ms", "--sec-block", "2s"),
        )
        for service, label, _, limit in KEYS:
            self.scene.add_key(service, label, limit)
        uk = self._companies(UK)
        self.lists = [
            self._list("first", UK, uk[:share]),
            self._list("second", UK, uk[share : 2 * share]),
            self._list("third", US, self._companies(US)[: size - 2 * share]),
        ]

    def start(self) -> None:
        self._workers = [self._worker() for _ in range(self._count)]

    def deal(self, blows: Sequence[Blow], say: Callable[[str], None]) -> None:
        """Deal the blows at their times; each is mended before the next one comes."""
        began = time.monotonic()
        for blow in blows:
            time.sleep(max(began + blow.at - time.monotonic(), 0.0))
            say(str(blow))
            self.blows[blow.kind] += 1
            self._deal(blow)

    def settle(self, seconds: float) -> bool:
        """Let everything be well again; whether every job ended in time."""
        self.scene.faults()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._revive()
            with suppress(psycopg.OperationalError):
                if self.scene.ended():
                    return True
            time.sleep(0.3)
        return False

    def stop(self) -> None:
        """In order, so that every call is logged."""
        for worker in self._workers:
            if worker.runs():
                worker.signal(signal.SIGTERM)
        for worker in self._workers:
            with suppress(subprocess.TimeoutExpired):
                worker.ended(30.0)
        self._proxy.close()

    def _deal(self, blow: Blow) -> None:
        worker = self._workers[blow.target]
        match blow.kind:
            case Kind.KILL:
                worker.kill()
                self._workers[blow.target] = self._worker()
            case Kind.STOP:
                if worker.runs():
                    worker.signal(signal.SIGSTOP)
                    time.sleep(blow.seconds)
                    worker.signal(signal.SIGCONT)
            case Kind.RESTART:
                self._restart()
            case Kind.TERMINATE:
                for (pid,) in self.scene.db.execute(SESSIONS).fetchall():
                    self.scene.db.execute("SELECT pg_terminate_backend(%s)", (pid,))
            case Kind.CUT | Kind.DEAF:
                (self._proxy.cut if blow.kind is Kind.CUT else self._proxy.go_deaf)()
                time.sleep(blow.seconds)
                self._proxy.mend()
            case Kind.FAULT | Kind.INVALID | Kind.EXHAUSTED:
                self.scene.faults({"match": ".*", **(blow.fault or {})})
        self._revive()

    def _revive(self) -> None:
        """A worker that ended by itself is started again, as systemd would."""
        for place, worker in enumerate(self._workers):
            if not worker.runs():
                self._workers[place] = self._worker()

    def _restart(self) -> None:
        postmaster = int((self._server.home / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGQUIT)
        with suppress(psutil.NoSuchProcess):
            while psutil.Process(postmaster).status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.01)
        self._server.start()
        self.scene.reconnect()

    def _companies(self, service: str) -> list[Listed]:
        address = f"{self.scene.url}/sandbox/companies.csv?service={service}"
        content = requests.get(address, timeout=60).content
        return read_companies(content, "list.csv", SERVICES[service].identify).companies

    def _list(self, name: str, service: str, companies: Sequence[Listed]) -> int:
        """Its jobs may meet as many faults of the service as there are: none of them is the company's."""
        of = SERVICES[service]
        fields = [field.name for field in of.fields]
        required = [field.name for field in of.fields if field.required]
        list_id = lists.create(self.scene.db, NewList(name, service, fields, required))
        self.scene.db.execute("UPDATE list SET max_faults = 1000 WHERE id = %s", (list_id,))
        with self.scene.db.transaction():
            jobs.enqueue(self.scene.db, list_id, (NewJob(c.number, c.name, line=c.line) for c in companies))
        return list_id

    def _worker(self) -> Process:
        return self.scene.worker("--slots", str(SLOTS), **self._settings)
