"""People who may sign in: their roles, passwords, one-time links and sessions."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import psycopg
from psycopg.rows import class_row

from store import passwords

LINK_HOURS = 24
SEEN_EVERY = timedelta(minutes=5)
LONGEST_EMAIL = 254
SHAPE = re.compile(r"[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+")

COLUMNS = "id, email, role, password IS NOT NULL AS has_password, session_no, created_at, seen_at"

ADD = f"""
INSERT INTO person (email, role) VALUES (%(email)s, %(role)s) ON CONFLICT (email) DO NOTHING
RETURNING {COLUMNS}
"""

SEE = f"SELECT {COLUMNS} FROM person ORDER BY email"

FIND = f"SELECT {COLUMNS} FROM person WHERE email = %s"

OF_SESSION = f"SELECT {COLUMNS} FROM person WHERE id = %s AND session_no = %s"

# A new link makes the person's earlier ones void.
LINK = """
WITH void AS (DELETE FROM one_time_link WHERE person_id = %(person_id)s AND used_at IS NULL)
INSERT INTO one_time_link (token, person_id, expires_at)
SELECT %(token)s, id, clock_timestamp() + %(hours)s * interval '1 hour' FROM person WHERE id = %(person_id)s
"""

OF_LINK = f"""
SELECT {COLUMNS} FROM person WHERE id = (
    SELECT person_id FROM one_time_link
    WHERE token = %s AND used_at IS NULL AND expires_at > clock_timestamp())
"""

# Whoever knew the old password is signed out by the new one.
USE_LINK = f"""
WITH used AS (
    UPDATE one_time_link SET used_at = clock_timestamp()
    WHERE token = %(token)s AND used_at IS NULL AND expires_at > clock_timestamp() RETURNING person_id)
UPDATE person SET password = %(password)s, session_no = session_no + 1, seen_at = clock_timestamp()
FROM used WHERE person.id = used.person_id RETURNING {COLUMNS}
"""


class Role(StrEnum):
    """What a person may do; each may what those before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"

    def allows(self, needed: Role) -> bool:
        """Whether who has this role may do what needs that one."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


class BadEmail(ValueError):
    """This is no email address."""


class EmailTaken(ValueError):
    """There is a person of this email already."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who may sign in. A session is good while its number is `session_no`."""

    id: int
    email: str
    role: Role
    has_password: bool
    session_no: int
    created_at: datetime
    seen_at: datetime | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", Role(self.role))


def normal_email(text: str) -> str:
    """The address as it is kept and looked for. Raises `BadEmail`."""
    email = text.strip().lower()
    if len(email) > LONGEST_EMAIL or not SHAPE.fullmatch(email):
        raise BadEmail(f"“{text.strip()[:80]}” is no email address.")
    return email


def add(conn: psycopg.Connection, email: str, role: Role) -> Person:
    """A new person, who sets a password by a one-time link. Raises `BadEmail`, `EmailTaken`."""
    added = _one(conn, ADD, {"email": normal_email(email), "role": role})
    if added is None:
        raise EmailTaken(f"There is a person “{normal_email(email)}” already. Make a new link instead.")
    return added


def see(conn: psycopg.Connection) -> list[Person]:
    """Everybody, by email."""
    with conn.cursor(row_factory=class_row(Person)) as cursor:
        return cursor.execute(SEE).fetchall()


def find(conn: psycopg.Connection, email: str) -> Person | None:
    """The person of this email. Raises `BadEmail`."""
    return _one(conn, FIND, (normal_email(email),))


def of_session(conn: psycopg.Connection, person_id: int, session_no: int) -> Person | None:
    """Whose session it is, noted as seen every few minutes; None when it was ended everywhere."""
    person = _one(conn, OF_SESSION, (person_id, session_no))
    if person and (person.seen_at is None or person.seen_at < datetime.now(UTC) - SEEN_EVERY):
        conn.execute("UPDATE person SET seen_at = clock_timestamp() WHERE id = %s", (person_id,))
    return person


def with_password(conn: psycopg.Connection, email: str, password: str) -> Person | None:
    """The person of this email and password; None, as late, when one of both is not right.

    Raises `BadEmail`, at once.
    """
    row = conn.execute("SELECT password FROM person WHERE email = %s", (normal_email(email),)).fetchone()
    return find(conn, email) if passwords.matches(row[0] if row else None, password) else None


def set_role(conn: psycopg.Connection, person_id: int, role: Role) -> bool:
    """False: there is no such person."""
    return conn.execute("UPDATE person SET role = %s WHERE id = %s", (role, person_id)).rowcount == 1


def sign_out_everywhere(conn: psycopg.Connection, person_id: int) -> bool:
    """End every session of the person. False: there is no such person."""
    statement = "UPDATE person SET session_no = session_no + 1 WHERE id = %s"
    return conn.execute(statement, (person_id,)).rowcount == 1


def remove(conn: psycopg.Connection, person_id: int) -> bool:
    """Remove the person, and with them their sessions and links. False: there is no such person."""
    return conn.execute("DELETE FROM person WHERE id = %s", (person_id,)).rowcount == 1


def make_link(conn: psycopg.Connection, person_id: int) -> str:
    """The token of a new link by which the person sets a password, once, within a day."""
    token = secrets.token_urlsafe(32)
    conn.execute(LINK, {"person_id": person_id, "token": _kept(token), "hours": LINK_HOURS})
    return token


def of_link(conn: psycopg.Connection, token: str) -> Person | None:
    """Whose link it is; None when it was used, is too old or never was."""
    return _one(conn, OF_LINK, (_kept(token),))


def use_link(conn: psycopg.Connection, token: str, password: str) -> Person | None:
    """Set the password, use the link up, end all sessions. None as in `of_link`. Raises `WeakPassword`."""
    person = of_link(conn, token)
    if person is None:
        return None
    kept = passwords.hashed(password, person.email)
    return _one(conn, USE_LINK, {"token": _kept(token), "password": kept})


def _kept(token: str) -> bytes:
    """A token is as good as a password: only its sum is kept."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _one(
    conn: psycopg.Connection, statement: str, params: Sequence[Any] | Mapping[str, Any]
) -> Person | None:
    with conn.cursor(row_factory=class_row(Person)) as cursor:
        return cursor.execute(statement, params).fetchone()
