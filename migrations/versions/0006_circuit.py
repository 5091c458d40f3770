"""A service's circuit, workers that were lost without a suspect, slots that never came back."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("""
        ALTER TABLE service
            ADD failures int NOT NULL DEFAULT 0 CHECK (failures >= 0),
            ADD failing_since timestamptz NOT NULL DEFAULT 'epoch',
            ADD opened_at timestamptz,
            ADD pause_seconds double precision NOT NULL DEFAULT 0 CHECK (pause_seconds >= 0),
            ADD probe_job bigint,
            ADD probe_claim_no int,
            ADD CONSTRAINT service_probe CHECK (
                (probe_job IS NULL) = (probe_claim_no IS NULL)
                AND (probe_job IS NULL OR opened_at IS NOT NULL))""")
    op.execute("""
        ALTER TABLE worker
            ADD blocked smallint NOT NULL DEFAULT 0 CHECK (blocked >= 0),
            ADD lost_unsuspected boolean NOT NULL DEFAULT false""")
    op.execute("""
        CREATE INDEX job_suspect ON job (list_id, run_at, id) WHERE status = 'pending' AND losses > 1""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("DROP INDEX job_suspect")
    op.execute("ALTER TABLE worker DROP blocked, DROP lost_unsuspected")
    op.execute("""
        ALTER TABLE service DROP failures, DROP failing_since, DROP opened_at, DROP pause_seconds,
            DROP probe_job, DROP probe_claim_no""")
