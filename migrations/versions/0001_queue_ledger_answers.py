"""The queue, the key ledger, kept answers, calls, workers and rollups."""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# A consumed queue leaves dead rows at the head of its index; these settings keep vacuum ahead of it.
BUSY = "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0"

TABLES = f"""
CREATE TABLE service (
    name       text PRIMARY KEY,
    rest_until timestamptz NOT NULL DEFAULT 'epoch',
    rest_cause text
);

CREATE TABLE account (
    id         int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    service    text NOT NULL REFERENCES service,
    name       text NOT NULL,
    rest_until double precision NOT NULL DEFAULT 0,
    rest_cause text,
    load_until double precision NOT NULL DEFAULT 0,
    seen       double precision NOT NULL DEFAULT 0,
    CONSTRAINT account_name UNIQUE (service, name)
) WITH (fillfactor = 10);

CREATE TABLE allowance (
    account_id  int NOT NULL REFERENCES account ON DELETE CASCADE,
    no          smallint NOT NULL,
    kind        text NOT NULL DEFAULT 'calls' CHECK (kind IN ('calls', 'tokens')),
    amount      int NOT NULL CHECK (amount > 0),
    per_seconds double precision NOT NULL CHECK (per_seconds > 0),
    guard_seconds double precision NOT NULL CHECK (guard_seconds >= 0),
    grain_seconds double precision NOT NULL DEFAULT 0 CHECK (grain_seconds >= 0),
    at          double precision[] NOT NULL DEFAULT '{{}}',
    used        int[] NOT NULL DEFAULT '{{}}',
    PRIMARY KEY (account_id, no),
    CONSTRAINT allowance_log CHECK (cardinality(at) = cardinality(used))
) WITH (fillfactor = 10);

CREATE TABLE key (
    id          int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id  int NOT NULL REFERENCES account,
    service     text NOT NULL REFERENCES service,
    label       text NOT NULL CHECK (label <> ''),
    key_set     text,
    secret      bytea NOT NULL,
    fingerprint text NOT NULL,
    state       text NOT NULL DEFAULT 'active'
                CHECK (state IN ('active', 'invalid', 'exhausted', 'disabled')),
    last_error  text,
    used_at     double precision NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT key_label UNIQUE (service, label),
    CONSTRAINT key_once UNIQUE (service, fingerprint)
) WITH (fillfactor = 50);
CREATE INDEX key_account ON key (account_id);

CREATE TABLE list (
    id           int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text NOT NULL UNIQUE CHECK (name <> ''),
    service      text NOT NULL REFERENCES service,
    options      jsonb NOT NULL DEFAULT '{{}}' CHECK (jsonb_typeof(options) = 'object'),
    fields       text[] NOT NULL CHECK (cardinality(fields) > 0),
    required     text[] NOT NULL DEFAULT '{{}}' CHECK (required <@ fields),
    state        text NOT NULL DEFAULT 'active'
                 CHECK (state IN ('active', 'paused', 'finished', 'cancelled')),
    priority     smallint NOT NULL DEFAULT 0,
    start_at     timestamptz NOT NULL DEFAULT now(),
    due_by       timestamptz,
    max_attempts smallint NOT NULL DEFAULT 5 CHECK (max_attempts > 0),
    max_losses   smallint NOT NULL DEFAULT 5 CHECK (max_losses > 0),
    max_faults   smallint NOT NULL DEFAULT 20 CHECK (max_faults > 0),
    run_seconds  int NOT NULL DEFAULT 600 CHECK (run_seconds > 0),
    reuse_seconds int NOT NULL DEFAULT 0 CHECK (reuse_seconds >= 0),
    keep_days    int NOT NULL DEFAULT 365 CHECK (keep_days > 0),
    created_at   timestamptz NOT NULL DEFAULT now(),
    finished_at  timestamptz,
    CONSTRAINT list_finished CHECK ((state IN ('finished', 'cancelled')) = (finished_at IS NOT NULL))
);
CREATE INDEX list_open ON list (service, priority) WHERE state = 'active';

CREATE TABLE reject (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    list_id int NOT NULL REFERENCES list ON DELETE CASCADE,
    line    int NOT NULL,
    content text NOT NULL,
    reason  text NOT NULL
);
-- The same line of the same file is kept once; another file of the list may have other text there.
CREATE UNIQUE INDEX reject_once ON reject (list_id, line, md5(content));

CREATE TABLE worker (
    id              uuid PRIMARY KEY,
    name            text NOT NULL,
    host            text NOT NULL,
    pid             int NOT NULL,
    version         text NOT NULL,
    key_set         text,
    services        text[] NOT NULL,
    slots           smallint NOT NULL CHECK (slots > 0),
    state           text NOT NULL DEFAULT 'running'
                    CHECK (state IN ('running', 'draining', 'stopped', 'lost')),
    backend_pid     int,
    backend_start   timestamptz,
    started_at      timestamptz NOT NULL DEFAULT now(),
    seen_at         timestamptz NOT NULL DEFAULT now(),
    lease_until     timestamptz NOT NULL,
    ended_at        timestamptz,
    held            smallint NOT NULL DEFAULT 0,
    settled         bigint NOT NULL DEFAULT 0,
    rows_per_minute real NOT NULL DEFAULT 0,
    memory_bytes    bigint NOT NULL DEFAULT 0,
    keys_in_use     int[] NOT NULL DEFAULT '{{}}',
    CONSTRAINT worker_ended CHECK ((state IN ('stopped', 'lost')) = (ended_at IS NOT NULL)),
    CONSTRAINT worker_session CHECK ((backend_pid IS NULL) = (backend_start IS NULL))
) WITH (fillfactor = 30);
CREATE INDEX worker_alive ON worker (lease_until) WHERE state IN ('running', 'draining');

CREATE TABLE job (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    list_id    int NOT NULL REFERENCES list ON DELETE CASCADE,
    company    text NOT NULL CHECK (company <> ''),
    name       text,
    extra      jsonb NOT NULL DEFAULT '{{}}',
    line       int,
    status     text NOT NULL DEFAULT 'pending'
               CHECK (status IN ('pending', 'in_progress', 'done', 'failed', 'cancelled')),
    outcome    text CHECK (outcome IN ('complete', 'partial', 'empty')),
    cause      text CHECK (cause <> ''),
    message    text,
    run_at     timestamptz NOT NULL DEFAULT now(),
    run_until  timestamptz,
    worker     uuid,
    claim_no   int NOT NULL DEFAULT 0 CHECK (claim_no >= 0),
    attempts   smallint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    losses     smallint NOT NULL DEFAULT 0 CHECK (losses >= 0),
    faults     smallint NOT NULL DEFAULT 0 CHECK (faults >= 0),
    claimed_at timestamptz,
    ended_at   timestamptz,
    result     jsonb,
    CONSTRAINT job_once UNIQUE (list_id, company),
    CONSTRAINT job_holder CHECK ((status = 'in_progress') = (worker IS NOT NULL)),
    CONSTRAINT job_running CHECK (status <> 'in_progress' OR (run_until IS NOT NULL AND claim_no > 0)),
    CONSTRAINT job_result CHECK ((status = 'done') = (result IS NOT NULL)),
    CONSTRAINT job_outcome CHECK ((status = 'done') = (outcome IS NOT NULL)),
    CONSTRAINT job_cause CHECK (status <> 'failed' OR cause IS NOT NULL),
    CONSTRAINT job_ended CHECK ((status IN ('done', 'failed', 'cancelled')) = (ended_at IS NOT NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 20000, {BUSY});
CREATE INDEX job_due ON job (list_id, run_at, id) WHERE status = 'pending';
CREATE INDEX job_held ON job (worker) WHERE status = 'in_progress';
CREATE INDEX job_failed ON job (list_id, cause, id) WHERE status = 'failed';

CREATE TABLE answer (
    job_id      bigint NOT NULL,
    fingerprint bytea NOT NULL,
    occurrence  smallint NOT NULL CHECK (occurrence > 0),
    service     text NOT NULL,
    request     text NOT NULL,
    status      smallint NOT NULL,
    headers     jsonb NOT NULL DEFAULT '{{}}',
    body        bytea NOT NULL,
    body_bytes  int NOT NULL CHECK (body_bytes >= 0),
    kept_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, fingerprint, occurrence, kept_at)
) PARTITION BY RANGE (kept_at);
ALTER TABLE answer ALTER body SET STORAGE EXTERNAL;
CREATE INDEX answer_question ON answer (service, fingerprint, kept_at);
CREATE TABLE answer_rest PARTITION OF answer DEFAULT;

CREATE TABLE call (
    id        bigint GENERATED BY DEFAULT AS IDENTITY,
    job_id    bigint NOT NULL,
    claim_no  int NOT NULL,
    worker    uuid NOT NULL,
    key_id    int NOT NULL,
    request   text NOT NULL,
    verdict   text NOT NULL,
    status    smallint,
    message   text,
    waited_ms int NOT NULL,
    took_ms   int NOT NULL,
    late      boolean NOT NULL DEFAULT false,
    body_bytes int NOT NULL,
    sent_at   timestamptz NOT NULL,
    PRIMARY KEY (id, sent_at)
) PARTITION BY RANGE (sent_at);
CREATE INDEX call_job ON call (job_id);
CREATE INDEX call_key ON call (key_id, sent_at);
CREATE TABLE call_rest PARTITION OF call DEFAULT;

CREATE TABLE tally (
    list_id int NOT NULL REFERENCES list ON DELETE CASCADE,
    status  text NOT NULL,
    outcome text NOT NULL,
    cause   text NOT NULL,
    n       bigint NOT NULL,
    PRIMARY KEY (list_id, status, outcome, cause)
) WITH (fillfactor = 50);

CREATE TABLE tally_minute (
    list_id int NOT NULL REFERENCES list ON DELETE CASCADE,
    minute  timestamptz NOT NULL,
    status  text NOT NULL,
    outcome text NOT NULL,
    cause   text NOT NULL,
    n       bigint NOT NULL,
    PRIMARY KEY (list_id, minute, status, outcome, cause)
) WITH (fillfactor = 50);
CREATE INDEX tally_minute_all ON tally_minute (minute);

CREATE TABLE tally_delta (
    list_id int NOT NULL,
    status  text NOT NULL,
    outcome text NOT NULL,
    cause   text NOT NULL,
    n       int NOT NULL,
    at      timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_threshold = 2000, {BUSY});
"""


def upgrade() -> None:
    # Waits for the longest honest statement, then gives up instead of queueing every worker behind itself.
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(TABLES)


def downgrade() -> None:
    op.execute(
        "DROP TABLE tally_delta, tally_minute, tally, call, answer, job, worker, reject, list,"
        " key, allowance, account, service"
    )
