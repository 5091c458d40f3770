"""The words an extractor speaks: what it is given, what it may yield, what it may return.

An extractor is a generator function `extract(company, options)`. It yields calls and receives answers;
it returns `Fields`, `Empty` or `Failed`. It never sees a key, a clock or a socket, so it is tested by
feeding it recorded answers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any, TypeAlias

from services import json_limits

Scalar: TypeAlias = Decimal | int | str | bool | date | None


@dataclass(frozen=True, slots=True)
class Company:
    """One company of a list. `number` is as the service wants it (`services.companies` makes it so)."""

    number: str
    name: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Options:
    """What the list asks for: the fields wanted, in column order, and the service's own settings."""

    fields: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Get:
    """One request to a service. `host` is a name in the service's `hosts`, not an address.

    The fingerprint covers what is asked and never who asks: the same question under another key is the
    same question, and its kept answer is used again. `tokens`: what the answer is thought to cost at most,
    for services that count tokens; it is no part of the question.

    `shared_seconds`: how long an answer serves every company alike, so that a worker asks once for all its
    jobs (a list of tickers). 0: the answer is of this company only.
    """

    path: str
    params: tuple[tuple[str, str], ...] = ()
    host: str = "api"
    accept: str = "application/json"
    shared_seconds: float = field(default=0.0, compare=False)
    tokens: int = 0

    @property
    def fingerprint(self) -> bytes:
        """32 bytes, equal for equal questions whatever the order of the parameters."""
        asked = [self.host, self.path, sorted(self.params), self.accept]
        return hashlib.sha256(json.dumps(asked, separators=(",", ":")).encode()).digest()


@dataclass(frozen=True, slots=True)
class Read:
    """A file to read: `member` of the list's folder, with `/` between folders, archives and their members.

    The answer is its bytes. It costs no call and is not kept: the file is still there.
    """

    member: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, after redirects. Header names are lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        """The body as JSON: `services.json_limits.loads`. Raises `ValueError`, and nothing else."""
        return json_limits.loads(self.body)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value is from. Only what applies is set.

    `document` names the filing or the request; `position` is the place in it: `page 4`, or of a tagged fact
    the fragment `#f17` that a browser jumps to, else `fact 17` as `flask filings read --facts` counts them.
    """

    tag: str | None = None
    context: str | None = None
    unit: str | None = None
    period_start: date | None = None
    period_end: date | None = None
    document: str | None = None
    filed: date | None = None
    form: str | None = None
    position: str | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """One value with its source. `flags` are short codes such as `derived` or `candidates_differ`."""

    value: Scalar
    source: Source | None = None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fields:
    """The service had something. A name that is absent, or whose value is None, is a missing field."""

    values: Mapping[str, Value]
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Empty:
    """The service has nothing for this company, and asking again will not help."""

    cause: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """This company could not be read. Whether a retry may help is written beside the cause."""

    cause: str
    message: str = ""


Result: TypeAlias = Fields | Empty | Failed


class CallFailed(Exception):
    """One call could not be made. Thrown in at the `yield`; an element when a list was yielded."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(f"{cause}: {message}")
        self.cause = cause
        self.message = message


Asked: TypeAlias = Get | Sequence[Get] | Read
Extraction: TypeAlias = Generator[Asked, Any, Result]
