"""Limits of tokens, of a day from a stated time, spread evenly, and of what runs at once.

The log of an allowance holds when each permit counts no more, not when it was handed out: what that depends
on is then known in one place. Of a limit of what runs at once it holds who has how many slots.
"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE allowance RENAME COLUMN at TO until")
    op.execute("""
        UPDATE allowance SET until = ARRAY(
            SELECT given + per_seconds + guard_seconds
            FROM unnest(until) WITH ORDINALITY AS e(given, no) ORDER BY no)
    """)
    op.execute("""
        ALTER TABLE allowance
            ADD spread boolean NOT NULL DEFAULT false,
            ADD from_minute smallint,
            ADD zone text,
            ADD holder uuid[] NOT NULL DEFAULT '{}',
            DROP CONSTRAINT allowance_kind_check,
            DROP CONSTRAINT allowance_per_seconds_check,
            ADD CONSTRAINT allowance_kind_check CHECK (kind IN ('calls', 'tokens', 'at_once')),
            ADD CONSTRAINT allowance_per_seconds_check CHECK (
                CASE kind WHEN 'at_once' THEN per_seconds = 0 ELSE per_seconds > 0 END),
            ADD CONSTRAINT allowance_spread CHECK (NOT spread OR kind <> 'at_once'),
            ADD CONSTRAINT allowance_holder CHECK (
                cardinality(holder) = CASE kind WHEN 'at_once' THEN cardinality(used) ELSE 0 END),
            ADD CONSTRAINT allowance_day CHECK (zone IS NULL OR per_seconds = 86400),
            ADD CONSTRAINT allowance_day_from CHECK ((from_minute IS NULL) = (zone IS NULL)),
            ADD CONSTRAINT allowance_from_minute CHECK (from_minute BETWEEN 0 AND 1439)
    """)
    op.execute("ALTER TABLE account ADD paced_until double precision NOT NULL DEFAULT 0")


def downgrade() -> None:
    """Slots are dropped, which the older program does not know; an account without other limits rests."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE account DROP COLUMN paced_until")
    op.execute("DELETE FROM allowance WHERE kind = 'at_once'")
    op.execute("""
        UPDATE allowance SET until = ARRAY(
            SELECT gone - per_seconds - guard_seconds
            FROM unnest(until) WITH ORDINALITY AS e(gone, no) ORDER BY no)
    """)
    op.execute("""
        ALTER TABLE allowance
            DROP COLUMN spread, DROP COLUMN from_minute, DROP COLUMN zone, DROP COLUMN holder,
            DROP CONSTRAINT allowance_kind_check,
            DROP CONSTRAINT IF EXISTS allowance_per_seconds_check,
            ADD CONSTRAINT allowance_kind_check CHECK (kind IN ('calls', 'tokens')),
            ADD CONSTRAINT allowance_per_seconds_check CHECK (per_seconds > 0)
    """)
    op.execute("ALTER TABLE allowance RENAME COLUMN until TO at")
