"""`make demo`: the main job on sample lists, from upload to CSV, with every part a real process.

A stand-in for the services (`python -m sandbox`) counts the calls; three workers with five keys whose
limits are small run two lists to the end. Kill any worker meanwhile: the result is the same.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import psycopg

from deploy.parts import ROOT, PartFailed, Parts, free_port
from store import database, lists
from store.settings import local_master_key
from store.start import VAR, CannotStart, reachable_database, read_settings

WORKERS = 3
LONGEST_SECONDS = 240.0
READY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class DemoKey:
    service: str
    label: str
    secret: str
    limit: str


@dataclass(frozen=True, slots=True)
class DemoList:
    name: str
    service: str


KEYS = (
    DemoKey("sec_edgar", "demo US 1", "Sluice Demo One demo1@example.com", "5/10s"),
    DemoKey("sec_edgar", "demo US 2", "Sluice Demo Two demo2@example.com", "5/10s"),
    DemoKey("companies_house", "demo UK 1", "11111111-demo-4111-8111-111111111111", "9/10s"),
    DemoKey("companies_house", "demo UK 2", "22222222-demo-4222-8222-222222222222", "9/10s"),
    DemoKey("companies_house", "demo UK 3", "33333333-demo-4333-8333-333333333333", "9/10s"),
)
LISTS = (DemoList("Demo: US companies", "sec_edgar"), DemoList("Demo: UK companies", "companies_house"))


class DemoFailed(RuntimeError):
    """The demo did not come to its end; the text says why."""


def main() -> int:
    """Run the demo; returns its exit code."""
    try:
        settings = read_settings()
        with reachable_database(settings) as url:
            return _Demo(url).run()
    except (CannotStart, DemoFailed, PartFailed) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: stopped", file=sys.stderr)
        return 130


class _Demo:
    """One run of the demo on the database at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sandbox_url = f"http://127.0.0.1:{free_port()}"
        self.folder = VAR / "demo"
        self.environment = {
            "DATABASE_URL": url,
            "SLUICE_MASTER_KEYS": local_master_key(VAR),
            "SLUICE_SERVICES_URL": self.sandbox_url,
            "FLASK_APP": "wsgi",
        }

    def run(self) -> int:
        self.folder.mkdir(parents=True, exist_ok=True)
        with Parts(self.folder / "log", self.environment) as parts:
            self._start_sandbox(parts)
            self._prepare()
            started = time.monotonic()
            workers = [parts.start(f"worker-{n}", "-m", "worker", "--slots", "4") for n in range(1, WORKERS + 1)]
            self._wait(parts)
            seconds = time.monotonic() - started
            parts.stop(workers)
            summary = self._summary(seconds)
            self._export()
        (VAR / "demo.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        self._print(summary)
        return 0 if summary["over_limit"] == summary["repeated"] == 0 else 1

    def _start_sandbox(self, parts: Parts) -> None:
        keys = [
            {"service": k.service, "label": k.label, "secret": k.secret, "limits": [k.limit]} for k in KEYS
        ]
        file = self.folder / "sandbox-keys.json"
        file.write_text(json.dumps(keys), encoding="utf-8")
        port = self.sandbox_url.rpartition(":")[2]
        parts.start("sandbox", "-m", "sandbox", "--port", port, "--latency", "200ms", "--keys", str(file))
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                self._ask("/sandbox/stats")
            except OSError:
                parts.watch()
                if time.monotonic() > deadline:
                    raise DemoFailed(f"The sandbox does not answer:\n{parts.log_end('sandbox')}") from None
                time.sleep(0.05)
            else:
                return

    def _prepare(self) -> None:
        self._flask("db", "upgrade")
        self._refuse_other_work()
        for key in KEYS:
            self._flask(
                "keys", "add", key.service, "--label", key.label, "--account", key.label, "--limit", key.limit,
                secret=key.secret, may_fail="taken",
            )  # fmt: skip
        for one in LISTS:
            file = self.folder / f"{one.service}.csv"
            file.write_bytes(self._ask(f"/sandbox/sample.csv?service={one.service}"))
            click.echo(self._flask("lists", "import", str(file), "--name", one.name, "--service", one.service))
