"""A test of a key is a list of one job that only this key may serve."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE list ADD key_id int REFERENCES key ON DELETE CASCADE")
    op.execute("CREATE UNIQUE INDEX list_key ON list (key_id) WHERE key_id IS NOT NULL")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("DELETE FROM list WHERE key_id IS NOT NULL")
    op.execute("ALTER TABLE list DROP COLUMN key_id")
