"""What an allowance has left, in SQL: the one place that knows windows, days, tokens and slots.

An allowance is one limit of an account with a log: `until` says when a permit counts no more, `used` how much
it counts. Of a limit of what runs at once it holds slots (`store.slots`).
"""

from __future__ import annotations

from store.slots import IS_HELD, NOW

# A permit is handed out at most so far ahead. What is further off was entered before the clock stepped back.
MOST_AHEAD_SECONDS = 2.0


def leaves(at: str, w: str) -> str:
    """When a permit of the time `at` counts no more in the allowance `w`.

    Of a day: when the next one has begun for certain; close to its end a permit counts in both.
    """
    day = f"interval '1 minute' * {w}.from_minute"
    local = f"to_timestamp({at} + {w}.guard_seconds) AT TIME ZONE {w}.zone"
    next_day = f"(date_trunc('day', {local} - {day}) + interval '1 day' + {day}) AT TIME ZONE {w}.zone"
    return f"""CASE
        WHEN {w}.zone IS NOT NULL THEN extract(epoch FROM {next_day})::float8 + {w}.guard_seconds
        WHEN {w}.grain_seconds > 0 THEN
            ceil({at} / {w}.grain_seconds) * {w}.grain_seconds + {w}.per_seconds + {w}.guard_seconds
        ELSE {at} + {w}.per_seconds + {w}.guard_seconds END"""


# Of an allowance `w`: what people are told is in use now.
IN_USE = f"""
    CASE w.kind WHEN 'at_once' THEN (
        SELECT coalesce(sum(h.used), 0) FROM unnest(w.holder, w.until, w.used) AS h(holder, until, used)
        WHERE {IS_HELD})
    ELSE (SELECT coalesce(sum(e.used), 0) FROM unnest(w.until, w.used) AS e(until, used)
          WHERE e.until - w.guard_seconds > {NOW}) END"""

# Of an allowance `w`: how many windows after one another end within `soon` seconds from `{{}}` on.
WINDOWS = "greatest(0, 1 + floor((%(soon)s - ({})) / (w.per_seconds + w.guard_seconds)))"

# Of an allowance `w` that is spread: the longest that one call keeps the next one waiting.
LONGEST_PACE = """
    (w.per_seconds + w.guard_seconds) / CASE w.kind WHEN 'tokens' THEN 1 ELSE w.amount END"""

# Of an allowance `w` of an account `a`, not of slots: how many calls it lets through within `soon` seconds.
# Each place in the window is free at once or when its entry leaves, and then again every window. What was
# entered before the clock stepped back is left out: whoever reserves next sets it right.
FREE_SOON = f"""
    (SELECT least(
        w.amount * {WINDOWS.format("0")} - coalesce(sum(
            e.used * ({WINDOWS.format("0")} - {WINDOWS.format("e.until - c.now")})), 0),
        CASE WHEN w.spread THEN greatest(0, 1 + floor((%(soon)s - CASE
                WHEN a.paced_until <= c.now + {MOST_AHEAD_SECONDS} + {LONGEST_PACE}
                THEN greatest(0, a.paced_until - c.now) ELSE 0 END)
            / (w.per_seconds + w.guard_seconds) * w.amount)) END)
    FROM (SELECT {NOW} AS now) c LEFT JOIN unnest(w.until, w.used) AS e(until, used)
        ON e.until > c.now AND e.until <= {leaves(f"(c.now + {MOST_AHEAD_SECONDS})", "w")}
    GROUP BY c.now)
    / CASE w.kind WHEN 'tokens' THEN greatest(%(tokens)s, 1) ELSE 1 END"""
