"""A list may be refreshed by schedule: how often, when next, and since when a refresh is under way."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("""
        ALTER TABLE list ADD refresh_every text, ADD refresh_at timestamptz, ADD refresh_since timestamptz,
            ADD CONSTRAINT list_refresh_every
                CHECK (refresh_every IN ('day', 'week', 'month', 'quarter', 'year')),
            ADD CONSTRAINT list_refresh_at CHECK ((refresh_every IS NULL) = (refresh_at IS NULL))
    """)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(
        "ALTER TABLE list DROP COLUMN refresh_every, DROP COLUMN refresh_at, DROP COLUMN refresh_since"
    )
