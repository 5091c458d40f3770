"""Answers that another list's job got may be used again, and what was asked anew says since when."""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

TEST_KEEP_DAYS = 7


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE answer ADD reused_from bigint")
    op.execute("ALTER TABLE job ADD fresh_at timestamptz")
    op.execute("ALTER TABLE call ADD no int NOT NULL DEFAULT 0, ALTER key_id DROP NOT NULL")
    op.execute("ALTER TABLE call ADD CONSTRAINT call_reused CHECK ((verdict = 'reused') = (key_id IS NULL))")
    # A partition stays as long as the list in it that keeps longest; tests of keys are looked at once.
    op.execute(f"UPDATE list SET keep_days = {TEST_KEEP_DAYS} WHERE key_id IS NOT NULL")


def downgrade() -> None:
    """Partitions that were made meanwhile stay: the older program reads and writes them too."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE call DROP CONSTRAINT call_reused")
    op.execute("DELETE FROM call WHERE verdict = 'reused'")
    op.execute("ALTER TABLE call DROP COLUMN no, ALTER key_id SET NOT NULL")
    op.execute("ALTER TABLE job DROP COLUMN fresh_at")
    op.execute("ALTER TABLE answer DROP COLUMN reused_from")
