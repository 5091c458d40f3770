"""From a folder or a bulk archive on disk to a list: each document in it is a job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg

from services.archives import Refusal, may_be_filing, names
from services.companies import BadNumber
from services.filings_folder import FOLDER, member
from store import jobs, lists, rejects
from store.jobs import NewJob
from store.lists import NewList
from store.rejects import Rejected
from webapp.uploads import NotUsable, Stored

REJECTS_KEPT = 10_000


@dataclass(slots=True)
class Walk:
    """The documents at `target`, as members of `folder`. `left_out`: files that lie beside filings."""

    folder: Path
    target: Path
    found: int = 0
    left_out: int = 0
    rejected: int = 0
    rejects: list[Rejected] = field(default_factory=list)

    def jobs(self) -> Iterator[NewJob]:
        """A job for each document, in the order of names; archives are looked into and not unpacked."""
        for path in self._files():
            name = path.relative_to(self.folder).as_posix()
            if may_be_filing(name):
                yield from self._jobs_of(name, path)
            else:
                self.left_out += 1

    def _jobs_of(self, name: str, path: Path) -> Iterator[NewJob]:
        with path.open("rb") as file:
            for found in names(name, file):
                if isinstance(found, Refusal):
                    self._reject(found.name, found.message)
                elif reason := _wrong(found):
                    self._reject(found, reason)
                else:
                    self.found += 1
                    yield NewJob(found, line=self.found)

    def _files(self) -> Iterator[Path]:
        if self.target.is_file():
            yield self.target
            return
        for path in sorted(self.target.rglob("*")):
            if path.is_file() and not any(
                part.startswith(".") for part in path.relative_to(self.target).parts
            ):
                yield path

    def _reject(self, name: str, reason: str) -> None:
        self.rejected += 1
        if len(self.rejects) < REJECTS_KEPT:
            self.rejects.append(Rejected(self.rejected, name, reason))


def walk(root: Path | None, target: Path) -> Walk:
    """What a list of this folder or file would hold. Raises `NotUsable`: it is not below the root."""
    if root is None:
        raise NotUsable(
            "SLUICE_FILINGS_ROOT is not set: it names the folder below which filings may be read, "
            "for this command and for every worker."
        )
    path = target.resolve(strict=True)
    if not path.is_relative_to(root.resolve()):
        raise NotUsable(f"{target} lies outside SLUICE_FILINGS_ROOT, which is {root}: move it there.")
    return Walk(path if path.is_dir() else path.parent, path)


def store(conn: psycopg.Connection, new: NewList, root: Path, of: Walk) -> Stored:
    """List, jobs and rejects in one transaction. What is there already stays as it is.

    Raises `NotUsable`: there is no document, or the list is one of another folder.
    """
    place = of.folder.relative_to(root.resolve()).as_posix()
    new = replace(new, options={**new.options, FOLDER: place})
    with conn.transaction():
        there = lists.see(conn, new.name)
        if there and there[0].options.get(FOLDER) != place:
            raise NotUsable(f"“{new.name}” is a list of another folder. Choose another name.")
        list_id = lists.create(conn, new)
        added = jobs.enqueue(conn, list_id, of.jobs())
        if not of.found:
            why = f": {of.rejects[0].content}: {of.rejects[0].reason}" if of.rejects else "."
            raise NotUsable(f"{of.target} holds no filing{why} Nothing was stored.")
        rejects.keep(conn, list_id, of.rejects)
        return Stored(added, not there, lists.see(conn, new.name)[0])


def _wrong(name: str) -> str | None:
    try:
        member(name)
    except BadNumber as error:
        return str(error)
    return None
