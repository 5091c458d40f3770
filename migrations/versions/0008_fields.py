"""A list states the type and unit of its fields where they differ from its service's."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("""
        ALTER TABLE list ADD types jsonb NOT NULL DEFAULT '{}',
            ADD CONSTRAINT list_types CHECK (jsonb_typeof(types) = 'object')
    """)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE list DROP COLUMN types")
