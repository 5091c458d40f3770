"""Alerts, their deliveries, what their rules mean, and the monitor's pulse."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE alert_rule (
    name          text PRIMARY KEY,
    meaning       text NOT NULL,
    advice        text NOT NULL,
    for_seconds   int NOT NULL CHECK (for_seconds >= 0),
    clear_seconds int NOT NULL CHECK (clear_seconds >= 0)
);

CREATE TABLE alert (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    rule            text NOT NULL CHECK (rule <> ''),
    subject         text NOT NULL CHECK (subject <> ''),
    severity        text NOT NULL CHECK (severity IN ('info', 'warning', 'critical')),
    message         text NOT NULL,
    link            text NOT NULL CHECK (link LIKE '/%'),
    flaps           smallint NOT NULL CHECK (flaps >= 0),
    seen            int NOT NULL DEFAULT 0 CHECK (seen >= 0),
    seen_from       timestamptz NOT NULL,
    last_seen_at    timestamptz NOT NULL,
    clear_from      timestamptz,
    opened_at       timestamptz,
    told            smallint NOT NULL DEFAULT 0 CHECK (told >= 0),
    told_at         timestamptz,
    acknowledged_at timestamptz,
    acknowledged_by text,
    muted_until     timestamptz,
    mute_reason     text CHECK (mute_reason <> ''),
    muted_by        text,
    resolved_at     timestamptz,
    CONSTRAINT alert_told CHECK ((told = 0) = (told_at IS NULL)),
    CONSTRAINT alert_told_open CHECK (told = 0 OR opened_at IS NOT NULL),
    CONSTRAINT alert_resolved CHECK (resolved_at IS NULL OR opened_at IS NOT NULL),
    CONSTRAINT alert_acknowledged CHECK ((acknowledged_at IS NULL) = (acknowledged_by IS NULL)),
    CONSTRAINT alert_muted CHECK ((muted_until IS NULL) = (mute_reason IS NULL)
                                  AND (muted_until IS NULL) = (muted_by IS NULL))
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX alert_open ON alert (rule, subject) WHERE resolved_at IS NULL;
CREATE INDEX alert_history ON alert (rule, subject, opened_at);
CREATE INDEX alert_resolved_at ON alert (resolved_at);

CREATE TABLE delivery (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    alert_id        bigint REFERENCES alert ON DELETE CASCADE,
    channel         text NOT NULL CHECK (channel <> ''),
    kind            text NOT NULL CHECK (kind IN ('opened', 'reminder', 'resolved', 'test')),
    state           text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'failed')),
    tries           int NOT NULL DEFAULT 0 CHECK (tries >= 0),
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_try_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error      text,
    sent_at         timestamptz,
    idempotency_key uuid NOT NULL DEFAULT gen_random_uuid(),
    CONSTRAINT delivery_once UNIQUE (idempotency_key),
    CONSTRAINT delivery_sent CHECK ((state = 'sent') = (sent_at IS NOT NULL)),
    CONSTRAINT delivery_test CHECK ((kind = 'test') = (alert_id IS NULL))
) WITH (fillfactor = 50);
CREATE INDEX delivery_pending ON delivery (channel, id) WHERE state = 'pending';
CREATE INDEX delivery_channel ON delivery (channel, id);
CREATE INDEX delivery_alert ON delivery (alert_id);

CREATE TABLE monitor (
    only_row    boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    leader      uuid,
    name        text,
    version     text,
    lease_until timestamptz NOT NULL DEFAULT 'epoch',
    looked_at   timestamptz,
    channels    text[] NOT NULL DEFAULT '{}',
    checked_at  timestamptz,
    counts_off  bigint NOT NULL DEFAULT 0 CHECK (counts_off >= 0),
    CONSTRAINT monitor_leader CHECK ((leader IS NULL) = (name IS NULL)
                                     AND (leader IS NULL) = (version IS NULL))
) WITH (fillfactor = 10);
INSERT INTO monitor DEFAULT VALUES;
"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(TABLES)


def downgrade() -> None:
    op.execute("DROP TABLE monitor, delivery, alert, alert_rule")
