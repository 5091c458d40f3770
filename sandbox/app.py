"""What happens to a request: arrival, key, limit, fault, answer, delay, and the note of how it left."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sandbox import companies_house, control, edgar, storage
from sandbox.answers import Answer, json_answer
from sandbox.companies import Companies
from sandbox.companies_house import CompaniesHouse
from sandbox.control import Control
from sandbox.counts import Arrival, Counts, Standing
from sandbox.edgar import Edgar
from sandbox.faults import Fault, Faults, spoil
from sandbox.keys import Key, Keyring, Unauthorised
from sandbox.limits import Ruling
from sandbox.server import Request
from sandbox.storage import Storage

_COMPANIES_HOUSE_PATHS = ("/company/", "/document/")


@dataclass(frozen=True, slots=True)
class Settings:
    """How the sandbox behaves. `generated`: companies per service beyond the sample."""

    seed: int = 1
    generated: int = 0
    latency_seconds: float = 0.0
    jitter_seconds: float = 0.0
    document_ttl_seconds: float = 30.0
    sec_block_seconds: float = 600.0
    facts_bytes: int = 20_000


class Sandbox:
    """The application behind the server. Safe for threads; it waits without holding a lock."""

    def __init__(self, settings: Settings, keys: Sequence[Key]) -> None:
        self._settings = settings
        self._keyring = Keyring(keys)
        companies = Companies(settings.seed, settings.generated)
        self._counts = Counts(self._keyring.keys, settings.sec_block_seconds)
        self._faults = Faults(settings.seed, _planted(companies))
        self._control = Control(companies, self._counts, self._faults)
        self._edgar = Edgar(companies, settings.facts_bytes)
        self._companies_house = CompaniesHouse(companies, Storage(settings.document_ttl_seconds))
        self._dice = random.Random(settings.seed)  # noqa: S311 - a dice, not a secret

    def answer(self, request: Request) -> tuple[Answer, Arrival | None]:
        """The answer and the arrival that `left` has to close."""
        if request.path.startswith(control.PREFIX):
            return self._control.answer(request), None
        if request.path.startswith(storage.PREFIX):
            arrival = self._counts.arrive_at_storage()
            answer = self._faulty(request, arrival) or self._companies_house.stored(request)
        else:
            answer, arrival = self._serve(request)
        self._wait(request)
        return answer, arrival

    def left(self, answer: Answer, note: object, in_full: bool) -> None:
        """An answer has left the socket, in full or not."""
        if isinstance(note, Arrival):
            is_final = answer.is_final and in_full
            self._counts.answered(note, answer.status, is_rate_limit=answer.is_rate_limit, is_final=is_final)

    def _serve(self, request: Request) -> tuple[Answer, Arrival]:
        is_uk = request.path.startswith(_COMPANIES_HOUSE_PATHS)
        service = "companies_house" if is_uk else "sec_edgar"
        accept = request.headers.get("accept", "")
        try:
            key = self._keyring.find(service, request.headers)
        except Unauthorised as error:
            arrival = self._counts.arrive(request.moment, service, None, request.asked, accept)
            return _unauthorised(service, error.is_missing), arrival
        arrival = self._counts.arrive(request.moment, service, key, request.asked, accept)
        told = _rate_headers(request.path, arrival.standing) if is_uk else {}
        return self._ruled(request, arrival).with_headers(told), arrival

    def _ruled(self, request: Request, arrival: Arrival) -> Answer:
        if arrival.ruling is not Ruling.WITHIN:
            return _over_limit(arrival)
        if request.method != "GET":
            return json_answer(405, {"error": "method not allowed", "type": "ch:service"})
        return self._faulty(request, arrival) or self._content(request, arrival)

    def _content(self, request: Request, arrival: Arrival) -> Answer:
        match arrival.service:
            case "storage":
                return self._companies_house.stored(request)
            case "companies_house":
                return self._companies_house.answer(request)
        return self._edgar.answer(request.path)

    def _faulty(self, request: Request, arrival: Arrival) -> Answer | None:
        """The answer of the first fault that meets the request, if one does."""
        label = None if arrival.key is None else arrival.key.label
        fault = self._faults.pick(arrival.service, request.path, label)
        if fault is None:
            return None
        match fault.kind:
            case "status":
                return _failure(fault)
            case "rate_storm":
                return _over_limit(arrival)
            case "key_invalid":
                return _unauthorised(arrival.service, is_missing=False)
            case "key_exhausted":
                return _exhausted()
        return spoil(self._content(request, arrival), fault)

    def _wait(self, request: Request) -> None:
        """Until the answer is due, counted from the arrival: making it costs no extra time."""
        settings = self._settings
        latency = settings.latency_seconds + settings.jitter_seconds * self._dice.random()
        time.sleep(max(0.0, request.moment.at + latency - time.monotonic()) if latency else 0.0)


def _planted(companies: Companies) -> list[Fault]:
    """The sample's company whose register entry is out of order at first."""
    numbers = [c.number for c in companies.uk_sample.values() if c.trouble == "down_at_first"]
    return [
        Fault(re.compile(f"^/company/{number}(/|$)"), "status", service="companies_house", seconds=0, count=2)
        for number in numbers
    ]


def _failure(fault: Fault) -> Answer:
    headers = {"Retry-After": f"{fault.seconds:g}"} if fault.seconds else {}
    return Answer(
        fault.status, b"<html><body><h1>Service unavailable</h1></body></html>", "text/html", headers
    )


def _over_limit(arrival: Arrival) -> Answer:
    if arrival.service == "sec_edgar":
        status = 403 if arrival.ruling is Ruling.WHILE_BLOCKED else 429
        answer = edgar.rate_exceeded(status)
    else:
        answer = Answer(429)
    return Answer(answer.status, answer.body, answer.content_type, is_rate_limit=True)


def _unauthorised(service: str, is_missing: bool) -> Answer:
    if service == "companies_house":
        return companies_house.unauthorised(is_missing)
    return edgar.undeclared()


def _exhausted() -> Answer:
    error = {"message": "You exceeded your current quota.", "type": "insufficient_quota"}
    return json_answer(429, {"error": error | {"code": "insufficient_quota"}})


def _rate_headers(path: str, standing: Standing | None) -> Mapping[str, str]:
    """The register and its document host spell what is left differently."""
    if standing is None:
        return {}
    remain = "X-Ratelimit-Remaining" if path.startswith("/document/") else "X-Ratelimit-Remain"
    return {
        "X-Ratelimit-Limit": str(standing.amount),
        remain: str(standing.remaining),
        "X-Ratelimit-Reset": str(-int(-standing.resets_at // 1)),
        "X-Ratelimit-Window": standing.window,
    }
