"""Tries to sign in, counted in the database so that guessing is slow whichever process is asked."""

from __future__ import annotations

import psycopg

# Tries that cost nothing, by what they have in common. Each further one doubles the wait.
FREE_OF_BOTH = 5
FREE_OF_ADDRESS = 30
FREE_OF_EMAIL = 60
FIRST_WAIT_SECONDS = 5
LONGEST_WAIT_SECONDS = 900
FORGET_HOURS = 1

# Counts the try before the password is looked at: many at once are as many tries. Nothing is counted while
# the subject must wait. Rows are locked in one order.
TRY = """
WITH given AS (
    SELECT * FROM unnest(%(subjects)s::text[], %(free)s::int[]) AS g(subject, free)),
counted AS (
    INSERT INTO sign_in_try AS t (subject, failures, last_at, wait_until)
    SELECT subject, 1, clock_timestamp(), clock_timestamp() FROM given ORDER BY subject
    ON CONFLICT (subject) DO UPDATE SET last_at = clock_timestamp(),
        failures = CASE WHEN t.last_at < clock_timestamp() - %(forget)s * interval '1 hour'
                        THEN 1 ELSE t.failures + 1 END,
        wait_until = clock_timestamp() + interval '1 second' * CASE
            WHEN t.last_at < clock_timestamp() - %(forget)s * interval '1 hour' THEN 0
            WHEN t.failures + 1 < (SELECT free FROM given g WHERE g.subject = t.subject) THEN 0
            ELSE least(%(longest)s, %(first)s * 2.0 ^ least(
                30, t.failures + 1 - (SELECT free FROM given g WHERE g.subject = t.subject))) END
    WHERE t.wait_until <= clock_timestamp()
    RETURNING subject)
SELECT coalesce(max(extract(epoch FROM t.wait_until - clock_timestamp())), 0)::float8
FROM sign_in_try t JOIN given USING (subject)
WHERE subject NOT IN (SELECT subject FROM counted)
"""

# A right try is taken back from the address and the email: many who sign in at one place guess nothing.
SUCCEEDED = """
WITH taken_back AS (
    UPDATE sign_in_try SET failures = failures - 1
    WHERE subject = ANY (%(shared)s) AND failures > 1)
DELETE FROM sign_in_try
WHERE subject = %(both)s
   OR subject = ANY (%(shared)s) AND failures = 1
   OR subject <> ALL (%(shared)s) AND last_at < clock_timestamp() - interval '1 day'
"""


def attempt(conn: psycopg.Connection, email: str, address: str) -> float:
    """Count a try; returns the seconds to wait before the password may be looked at. 0: look at it now."""
    free = dict(zip(_subjects(email, address), (FREE_OF_BOTH, FREE_OF_ADDRESS, FREE_OF_EMAIL), strict=True))
    row = conn.execute(
        TRY,
        {
            "subjects": list(free),
            "free": list(free.values()),
            "forget": FORGET_HOURS,
            "first": FIRST_WAIT_SECONDS,
            "longest": LONGEST_WAIT_SECONDS,
        },
    ).fetchone()
    return max(float(row[0]), 0.0) if row else 0.0


def succeeded(conn: psycopg.Connection, email: str, address: str) -> None:
    """The try was right: it is no longer counted, and this person starts anew from this address."""
    both, *shared = _subjects(email, address)
    conn.execute(SUCCEEDED, {"both": both, "shared": shared})


def _subjects(email: str, address: str) -> tuple[str, str, str]:
    return f"{email} from {address}", f"address {address}", f"email {email}"
