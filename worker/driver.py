"""Drives an extractor: every call it yields is asked for it, every answer is handed back.

A single call that fails is thrown in at the `yield`; in a list the errors are elements, so that the paid
answers beside them are not lost. What ends the work itself (`Stopped`) is no `Exception`: an extractor
that catches everything cannot swallow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from services.extraction import Answer, CallFailed, Empty, Extraction, Failed, Fields, Get, Read, Result

MAX_CALLS = 200
MAX_BYTES = 100_000_000


class Stopped(BaseException):
    """The work must not go on here; see the subclasses in `worker.work`."""


class BadExtractor(Exception):
    """The extractor breaks the rules of `services.extraction`; the text says which."""


class TooMuch(Exception):
    """The extractor asks for more calls or bytes than one job may."""


Ask = Callable[[Get, int], Answer]
Open = Callable[[Read], bytes]
Reading = Callable[[Any], AbstractContextManager[Any]]


@dataclass(slots=True)
class Driver:
    """One run of one extractor. `ask(call, occurrence)` answers a call or raises `CallFailed`, `Stopped`.

    `read(file)` brings a file's bytes or raises `CallFailed`. `executor` runs the calls of a yielded list
    side by side; it must not be the one that drives. The extractor has what came in the body of `reading`.
    """

    ask: Ask
    read: Open
    executor: Executor
    reading: Reading = nullcontext
    _seen: dict[bytes, int] = field(default_factory=dict)
    _calls: int = 0
    _bytes: int = 0

    def run(self, extraction: Extraction) -> Result:
        """What the extractor returns. Raises what it raises, `BadExtractor`, `TooMuch` or `Stopped`."""
        if not hasattr(extraction, "send"):
            raise BadExtractor("extract() has no yield; it must be a generator")
        answer: Any = None
        try:
            while True:
                given, answer = answer, None
                try:
                    with self.reading(given):
                        asked = (
                            extraction.throw(given)
                            if isinstance(given, CallFailed)
                            else extraction.send(given)
                        )
                except StopIteration as end:
                    return _checked(end.value)
                del given  # a body of some MB is not kept until the next has come
                answer = self._answer(asked)
        except BaseException:
            with suppress(Exception):  # why it is to end here must not be hidden on its way out
                extraction.close()
            raise

    def _answer(self, asked: Any) -> Answer | CallFailed | bytes | list[Answer | CallFailed]:
        match asked:
            case Get():
                return self._single(asked)
            case Read():
                return self._file(asked)
            case list() | tuple():
                return self._side_by_side(asked)
            case _:
                raise BadExtractor(
                    f"extract() yielded {asked!r:.80}; it may yield calls, lists of them, files"
                )

    def _single(self, call: Get) -> Answer | CallFailed:
        try:
            answer = self.ask(call, self._occurrence(call))
        except CallFailed as error:
            return error
        self._count(len(answer.body))
        return answer

    def _file(self, file: Read) -> bytes | CallFailed:
        try:
            data = self.read(file)
        except CallFailed as error:
            return error
        self._count(len(data))
        return data

    def _side_by_side(self, calls: Sequence[Get]) -> list[Answer | CallFailed]:
        items = [(call, self._occurrence(call)) for call in calls]
        futures = [self.executor.submit(self.ask, *item) for item in items]
        wait(futures)  # all of them: a sibling's answer is paid for even when this one failed
        return list(self._collected(future.exception() or future.result() for future in futures))

    def _collected(self, answers: Iterator[Answer | BaseException]) -> Iterator[Answer | CallFailed]:
        for answer in answers:
            match answer:
                case Answer():
                    self._count(len(answer.body))
                    yield answer
                case CallFailed():
                    yield answer
                case _:
                    raise answer

    def _occurrence(self, call: Any) -> int:
        if not isinstance(call, Get):
            raise BadExtractor(f"extract() yielded {call!r:.80}; it may yield calls and lists of calls")
        if self._calls == MAX_CALLS:
            raise TooMuch(f"more than {MAX_CALLS} calls for one company")
        self._calls += 1
        occurrence = self._seen[call.fingerprint] = self._seen.get(call.fingerprint, 0) + 1
        return occurrence

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MAX_BYTES:
            raise TooMuch(f"answers of more than {MAX_BYTES // 1_000_000} MB for one company")


def _checked(result: object) -> Result:
    if isinstance(result, Fields | Empty | Failed):
        return result
    raise BadExtractor(f"extract() returned {result!r:.80}; it must return Fields, Empty or Failed")
