"""The stage of a run of chaos: a database that may crash, a proxy per worker, the sandbox, and lists."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg
import requests
from psycopg.conninfo import conninfo_to_dict

from bench.chaos.pooler import pooler
from bench.chaos.proxy import Proxy
from deploy import samples
from deploy.parts import Part, Parts, free_port, run_flask
from deploy.samples import SampleKey
from services.company_lists import read_companies
from services.registry import SERVICES
from store import database, jobs, lists
from store.embedded import Server
from store.jobs import NewJob
from store.lists import NewList
from store.settings import local_master_key
from store.vault import Vault

UK, US = "companies_house", "sec_edgar"
SLOTS = 4
LEASE_SECONDS = 4.0
POOL_SIZE = 12
# Bad luck of many kills in a row is not a cause of a job's own.
PATIENT = "UPDATE list SET max_faults = 1000"


@dataclass(frozen=True, slots=True)
class Size:
    """`companies`: a list each. `limit`: of each key. `seconds`: how long things go wrong, at most."""

    workers: int
    companies: Sequence[tuple[str, int]]
    limit: str
    seconds: float


@dataclass(slots=True)
class Actor:
    """A worker behind its own proxy. `is_stopped`: by SIGSTOP."""

    parts: Parts
    part: Part
    proxy: Proxy
    is_stopped: bool = False

    def signal(self, number: int) -> None:
        self.part.process.send_signal(number)


@dataclass(slots=True)
class Stage:
    """Everything a run works with. `conn` goes straight to the database, as its superuser."""

    server: Server
    url: str
    conn: psycopg.Connection
    actors: list[Actor] = field(default_factory=list)
    list_ids: list[int] = field(default_factory=list)
    faults: list[Mapping[str, object]] = field(default_factory=list)

    def crash(self) -> None:
        """Stop the database in immediate mode, which is what a power cut leaves, and start it again."""
        postmaster = int((self.server.home / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGQUIT)
        with suppress(psutil.NoSuchProcess):
            while psutil.Process(postmaster).status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.01)
        self.server.start()
        self.conn.close()
        self.conn = database.connect(_admin_url(self.server), "chaos")

    def close(self) -> None:
        """Let go of the database; its server stops with the `with` that it was started in."""
        self.conn.close()

    def add_fault(self, rule: Mapping[str, object]) -> bool:
        """Let the sandbox fail by this rule, everywhere unless it has a `match`. False: it does already."""
        is_new = rule not in self.faults
        if is_new:
            self.faults.append(rule)
            self._set_faults()
        return is_new

    def end_fault(self, rule: Mapping[str, object]) -> None:
        self.faults.remove(rule)
        self._set_faults()

    def _set_faults(self) -> None:
        rules = [{"match": ".*", **rule} for rule in self.faults]
        requests.delete(f"{self.url}/sandbox/faults", timeout=10).raise_for_status()
        requests.post(f"{self.url}/sandbox/faults", json=rules, timeout=10).raise_for_status()

    def watch(self) -> None:
        """Start workers again that have ended."""
        for actor in self.actors:
            actor.parts.watch()

    @property
    def jobs(self) -> int:
        """How many there are."""
        row = self.conn.execute("SELECT count(*) FROM job").fetchone()
        return int((row or (0,))[0])

    def jobs_left(self) -> int:
        row = self.conn.execute("SELECT count(*) FROM job WHERE status IN ('pending', 'in_progress')")
        return int((row.fetchone() or (0,))[0])


@contextmanager
def stage(folder: Path, seed: int, size: Size, pgbouncer: Sequence[str]) -> Iterator[Stage]:
    """Set it, with a list for each (service, how many companies), and clear it away in the end.

    `pgbouncer`: the command that runs it, to stand between the workers' proxies and the database; or none.
    """
    keys = _keys(size.limit)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with ExitStack() as running:
        server = running.enter_context(_server(folder))
        settings = {
            "SLUICE_MASTER_KEYS": local_master_key(folder),
            "LEASE_SECONDS": f"{LEASE_SECONDS:g}",
            "HEARTBEAT_SECONDS": "0.5",
            "FLASK_APP": "wsgi",
        }
        run_flask(settings | {"DATABASE_URL": server.url}, "db", "upgrade")
        settings["SLUICE_SERVICES_URL"] = running.enter_context(_sandbox(folder, seed, size.companies, keys))
        conn = database.connect(_admin_url(server), "chaos")
        set_up = Stage(server, settings["SLUICE_SERVICES_URL"], conn)
        running.callback(set_up.close)
        samples.add_keys(conn, Vault([settings["SLUICE_MASTER_KEYS"]]), keys)
        set_up.list_ids = list(_lists(conn, set_up.url, size.companies))
        conn.execute(PATIENT)
        url = server.url
        if pgbouncer:
            port = running.enter_context(pooler(pgbouncer, url, POOL_SIZE))
            url = url.replace(f":{conninfo_to_dict(url)['port']}/", f":{port}/")
        for number in range(1, size.workers + 1):
            set_up.actors.append(running.enter_context(_actor(folder, settings, url, number)))
        yield set_up


def _keys(limit: str) -> list[SampleKey]:
    """Windows are of ten seconds: on a busy machine the guard of shorter ones is less than its own jitter."""
    return [
        *(SampleKey(UK, f"UK {n}", f"{n:08}-cafe-4111-8111-111111111111", limit) for n in range(1, 6)),
        *(SampleKey(US, f"US {n}", f"Chaos {n} chaos{n}@firm.example", limit) for n in range(1, 4)),
    ]


@contextmanager
def _server(folder: Path) -> Iterator[Server]:
    """One of this run's own, which may be crashed."""
    with Server(folder / "var", is_throwaway=True) as server:
        home = server.home
        yield server
    shutil.rmtree(home)


@contextmanager
def _actor(folder: Path, settings: dict[str, str], url: str, number: int) -> Iterator[Actor]:
    port = int(str(conninfo_to_dict(url)["port"]))
    with Proxy(port) as proxy:
        proxied = url.replace(f":{port}/", f":{proxy.port}/")
        with Parts(folder / "logs", settings | {"DATABASE_URL": proxied}, stop_seconds=15.0) as parts:
            part = parts.start(f"worker-{number}", "-m", "worker", "--slots", str(SLOTS))
            actor = Actor(parts, part, proxy)
            try:
                yield actor
            finally:
                proxy.heal()
                actor.signal(signal.SIGCONT)


@contextmanager
def _sandbox(
    folder: Path, seed: int, companies: Sequence[tuple[str, int]], keys: Sequence[SampleKey]
) -> Iterator[str]:
    port = free_port()
    accepted = [
        {"service": key.service, "label": key.label, "secret": key.secret, "limits": [key.limit]}
        for key in keys
    ]
    file = folder / "sandbox-keys.json"
    file.write_text(json.dumps(accepted), encoding="utf-8")
    options = {
        "port": port,
        "keys": file,
        "seed": seed,
        "companies": sum(count for _, count in companies),
        "latency": "80ms",
        "jitter": "60ms",
        "sec-block": "0s",  # a late call of a stopped worker must not close the service for all
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    with Parts(folder / "logs", {}) as parts:
        parts.start("sandbox", "-m", "sandbox", *words)
        samples.wait_for(f"http://127.0.0.1:{port}/sandbox/stats", parts, "sandbox")
        yield f"http://127.0.0.1:{port}"


def _lists(conn: psycopg.Connection, url: str, companies: Sequence[tuple[str, int]]) -> Iterator[int]:
    """Lists that share no company: a call is then of one job alone."""
    taken = {service: 0 for service, _ in companies}
    for number, (service, count) in enumerate(companies, 1):
        of = SERVICES[service]
        content = requests.get(f"{url}/sandbox/companies.csv?service={service}", timeout=30).content
        found = read_companies(content, "companies.csv", of.identify).companies[taken[service] :][:count]
        taken[service] += count
        fields = [one.name for one in of.fields]
        required = [one.name for one in of.fields if one.required]
        list_id = lists.create(conn, NewList(f"Chaos {number}", service, fields, required))
        with conn.transaction():
            jobs.enqueue(conn, list_id, (NewJob(c.number, c.name, dict(c.extra), c.line) for c in found))
        yield list_id


def _admin_url(server: Server) -> str:
    return f"{server.admin_url.rpartition('/')[0]}/sluice"
