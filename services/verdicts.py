"""What an answer means for the key, the service and the job: a value, found by a pure function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Usable:
    """Kept and handed to the extractor: data, or a lasting no such as 404."""


@dataclass(frozen=True, slots=True)
class KeyRests:
    """The key's account is over a limit. `seconds` is what the service asked for, a floor."""

    seconds: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class KeyInvalid:
    """The service does not accept this key, now or later."""

    message: str = ""


@dataclass(frozen=True, slots=True)
class KeyExhausted:
    """The key's quota or money is used up; waiting does not bring it back soon."""

    message: str = ""


@dataclass(frozen=True, slots=True)
class ServiceRests:
    """The service asks everybody to stop, whatever the key."""

    seconds: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class ServiceFailed:
    """The service failed this call. `cause` is one of `services.causes` with the fault `SERVICE`."""

    cause: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The service will not answer this very request, under any key."""

    message: str = ""


Verdict: TypeAlias = Usable | KeyRests | KeyInvalid | KeyExhausted | ServiceRests | ServiceFailed | Refused


class Judge(Protocol):
    """`now` is the time in epoch seconds, for headers that name a moment. Header names are lower case."""

    def __call__(self, status: int, headers: Mapping[str, str], body: bytes, now: float) -> Verdict: ...
