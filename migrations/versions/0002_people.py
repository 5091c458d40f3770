"""People who sign in, their one-time links, and how often somebody failed to be one of them."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE person (
    id         int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email      text NOT NULL UNIQUE CHECK (email = lower(email) AND email LIKE '%_@_%'),
    role       text NOT NULL CHECK (role IN ('viewer', 'operator', 'administrator')),
    password   text CHECK (password LIKE '$argon2id$%'),
    session_no int NOT NULL DEFAULT 1 CHECK (session_no > 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    seen_at    timestamptz
);

CREATE TABLE one_time_link (
    token      bytea PRIMARY KEY CHECK (length(token) = 32),
    person_id  int NOT NULL REFERENCES person ON DELETE CASCADE,
    purpose    text NOT NULL DEFAULT 'password' CHECK (purpose IN ('password')),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz
);
CREATE INDEX one_time_link_person ON one_time_link (person_id);

CREATE TABLE sign_in_try (
    subject  text PRIMARY KEY,
    failures int NOT NULL CHECK (failures > 0),
    last_at  timestamptz NOT NULL,
    wait_until timestamptz NOT NULL
);
"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(TABLES)


def downgrade() -> None:
    op.execute("DROP TABLE sign_in_try, one_time_link, person")
