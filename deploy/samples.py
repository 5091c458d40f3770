"""What `make run` and `make demo` try Sluice with: keys and lists of the sandbox, and the sandbox itself.

The keys are of a set of their own, and the workers that ask the sandbox use that set alone: a key of
somebody's own is never sent there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
import requests

from deploy.parts import PartFailed, Parts, free_port, run_flask
from store import keys, limits
from store.keys import KeySeen, KeyTaken
from store.lists import ListSeen
from store.vault import Vault

KEY_SET = "sample"
READY_SECONDS = 30.0
COMPANIES_IN_A_SAMPLE_LIST = 300


@dataclass(frozen=True, slots=True)
class SampleKey:
    service: str
    label: str
    secret: str
    limit: str


@dataclass(frozen=True, slots=True)
class SampleList:
    """`path`: where the sandbox has its file."""

    name: str
    service: str
    path: str


KEYS = (
    SampleKey("sec_edgar", "sample US 1", "Sluice Sample One sample1@example.com", "5/10s"),
    SampleKey("sec_edgar", "sample US 2", "Sluice Sample Two sample2@example.com", "5/10s"),
    SampleKey("companies_house", "sample UK 1", "11111111-samp-4111-8111-111111111111", "9/10s"),
    SampleKey("companies_house", "sample UK 2", "22222222-samp-4222-8222-222222222222", "9/10s"),
    SampleKey("companies_house", "sample UK 3", "33333333-samp-4333-8333-333333333333", "9/10s"),
)
DEMO_LISTS = (
    SampleList("Demo: US companies", "sec_edgar", "/sandbox/sample.csv"),
    SampleList("Demo: UK companies", "companies_house", "/sandbox/sample.csv"),
)
# Longer ones, to watch: some minutes each under the keys above.
RUN_LISTS = (
    SampleList("Sample: UK companies", "companies_house", "/sandbox/companies.csv"),
    SampleList("Sample: US companies", "sec_edgar", "/sandbox/companies.csv"),
)


def is_sample_key(key: KeySeen) -> bool:
    """Whether it is one of `KEYS`."""
    return key.key_set == KEY_SET and any((key.service, key.label) == (k.service, k.label) for k in KEYS)


def is_sample_list(one: ListSeen) -> bool:
    """Whether it is one of those above."""
    return any(one.name == sample.name for sample in DEMO_LISTS + RUN_LISTS)


class Sandbox:
    """The stand-in for the services at a free port, as one of the parts."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def start(
        self, parts: Parts, folder: Path, companies: int = 0, accepting: Sequence[SampleKey] = KEYS
    ) -> None:
        """Start it with these keys and so many generated companies; back when it answers."""
        accepted = [
            {"service": k.service, "label": k.label, "secret": k.secret, "limits": [k.limit]}
            for k in accepting
        ]
        file = folder / "sandbox-keys.json"
        file.write_text(json.dumps(accepted), encoding="utf-8")
        options = {"port": self.port, "latency": "200ms", "companies": companies, "keys": file}
        words = (word for name, value in options.items() for word in (f"--{name}", str(value)))
        parts.start("sandbox", "-m", "sandbox", *words)
        wait_for(f"{self.url}/sandbox/stats", parts, "sandbox")

    def ask(self, path: str) -> bytes:
        """One of its own addresses."""
        answer = requests.get(self.url + path, timeout=10)
        answer.raise_for_status()
        return answer.content


def wait_for(url: str, parts: Parts, name: str) -> None:
    """Back when the part answers 200 at this address. Raises `PartFailed` when it does not within 30 s."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            status = requests.get(url, timeout=5).status_code
        except (requests.ConnectionError, requests.Timeout):
            status = 0
        if status == requests.codes.ok:
            return
        parts.watch()
        if time.monotonic() > deadline:
            said = f"answers {status}" if status else "does not answer"
            raise PartFailed(f"The {name} {said}. Its log ends:\n{parts.log_end(name)}")
        time.sleep(0.05)


def add_keys(conn: psycopg.Connection, vault: Vault, those: Sequence[SampleKey] = KEYS) -> None:
    """Have these keys in the database; those that are there stay as they are."""
    for key in those:
        with suppress(KeyTaken), conn.transaction():
            keys.add(
                conn,
                vault,
                service=key.service,
                label=key.label,
                secret=key.secret,
                limits=[limits.parse(key.limit)],
                key_set=KEY_SET,
            )


def import_list(environment: Mapping[str, str], sandbox: Sandbox, one: SampleList, folder: Path) -> str:
    """Make the list of the companies that the sandbox names; returns what the command said."""
    file = folder / f"{one.service}.csv"
    file.write_bytes(sandbox.ask(f"{one.path}?service={one.service}"))
    return run_flask(environment, "lists", "import", str(file), "--name", one.name, "--service", one.service)
