"""The tables as the ORM sees them, for forms and for the check that models equal migrations.

No job is moved through these classes: moves are statements in `store.jobs`, `store.claims` and
`store.workers`. CHECK constraints and storage settings live in the migrations alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    REAL,
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

IN_PROGRESS = text("status = 'in_progress'")


class Base(DeclarativeBase):
    type_annotation_map = {  # noqa: RUF012 - the name SQLAlchemy reads
        str: Text,
        datetime: TIMESTAMP(timezone=True),
        dict[str, Any]: JSONB,
        list[str]: ARRAY(Text),
        bytes: LargeBinary,
        float: Double,
    }


class Service(Base):
    __tablename__ = "service"
    name: Mapped[str] = mapped_column(primary_key=True)
    rest_until: Mapped[datetime]
    rest_cause: Mapped[str | None]
    failures: Mapped[int]
    failing_since: Mapped[datetime]
    opened_at: Mapped[datetime | None]
    pause_seconds: Mapped[float]
    probe_job: Mapped[int | None] = mapped_column(BigInteger)
    probe_claim_no: Mapped[int | None]


class Account(Base):
    __tablename__ = "account"
    __table_args__ = (UniqueConstraint("service", "name", name="account_name"),)
    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    service: Mapped[str] = mapped_column(ForeignKey("service.name"))
    name: Mapped[str]
    rest_until: Mapped[float]
    rest_cause: Mapped[str | None]
    load_until: Mapped[float]
    seen: Mapped[float]
    paced_until: Mapped[float]


class Allowance(Base):
    __tablename__ = "allowance"
    account_id: Mapped[int] = mapped_column(ForeignKey("account.id", ondelete="CASCADE"), primary_key=True)
    no: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    kind: Mapped[str]
    amount: Mapped[int]
    per_seconds: Mapped[float]
    guard_seconds: Mapped[float]
    grain_seconds: Mapped[float]
    until: Mapped[list[float]] = mapped_column(ARRAY(Double))
    used: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    spread: Mapped[bool]
    from_minute: Mapped[int | None] = mapped_column(SmallInteger)
    zone: Mapped[str | None]
    holder: Mapped[list[UUID]] = mapped_column(ARRAY(Uuid))


class Key(Base):
    __tablename__ = "key"
    __table_args__ = (
        UniqueConstraint("service", "label", name="key_label"),
        UniqueConstraint("service", "fingerprint", name="key_once"),
        Index("key_account", "account_id"),
    )
    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("account.id"))
    service: Mapped[str] = mapped_column(ForeignKey("service.name"))
    label: Mapped[str]
    key_set: Mapped[str | None]
    secret: Mapped[bytes]
    fingerprint: Mapped[str]
    state: Mapped[str]
    last_error: Mapped[str | None]
    used_at: Mapped[float]
    created_at: Mapped[datetime]


class List(Base):
    __tablename__ = "list"
    __table_args__ = (
        Index("list_open", "service", "priority", postgresql_where=text("state = 'active'")),
        Index("list_key", "key_id", unique=True, postgresql_where=text("key_id IS NOT NULL")),
    )
    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    service: Mapped[str] = mapped_column(ForeignKey("service.name"))
    options: Mapped[dict[str, Any]]
    fields: Mapped[list[str]]
    types: Mapped[dict[str, Any]]
    required: Mapped[list[str]]
    state: Mapped[str]
    priority: Mapped[int] = mapped_column(SmallInteger)
    start_at: Mapped[datetime]
    due_by: Mapped[datetime | None]
    max_attempts: Mapped[int] = mapped_column(SmallInteger)
    max_losses: Mapped[int] = mapped_column(SmallInteger)
    max_faults: Mapped[int] = mapped_column(SmallInteger)
    run_seconds: Mapped[int]
    reuse_seconds: Mapped[int]
    keep_days: Mapped[int]
    refresh_every: Mapped[str | None]
    refresh_at: Mapped[datetime | None]
    refresh_since: Mapped[datetime | None]
    created_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    key_id: Mapped[int | None] = mapped_column(ForeignKey("key.id", ondelete="CASCADE"))


class Reject(Base):
    __tablename__ = "reject"
    __table_args__ = (Index("reject_once", "list_id", "line", text("md5(content)"), unique=True),)
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    list_id: Mapped[int] = mapped_column(ForeignKey("list.id", ondelete="CASCADE"))
    line: Mapped[int]
    content: Mapped[str]
    reason: Mapped[str]


class Worker(Base):
    __tablename__ = "worker"
    __table_args__ = (
        Index("worker_alive", "lease_until", postgresql_where=text("state IN ('running', 'draining')")),
    )
    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    host: Mapped[str]
    pid: Mapped[int]
    version: Mapped[str]
    key_set: Mapped[str | None]
    services: Mapped[list[str]]
    slots: Mapped[int] = mapped_column(SmallInteger)
    state: Mapped[str]
    backend_pid: Mapped[int | None]
    backend_start: Mapped[datetime | None]
    started_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    lease_until: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    held: Mapped[int] = mapped_column(SmallInteger)
    settled: Mapped[int] = mapped_column(BigInteger)
    rows_per_minute: Mapped[float] = mapped_column(REAL)
    memory_bytes: Mapped[int] = mapped_column(BigInteger)
    keys_in_use: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    blocked: Mapped[int] = mapped_column(SmallInteger)
    lost_unsuspected: Mapped[bool]


class Job(Base):
    __tablename__ = "job"
    __table_args__ = (
        UniqueConstraint("list_id", "company", name="job_once"),
        Index("job_due", "list_id", "run_at", "id", postgresql_where=text("status = 'pending'")),
        Index("job_held", "worker", postgresql_where=IN_PROGRESS),
        Index(
            "job_suspect",
            "list_id",
            "run_at",
            "id",
            postgresql_where=text("status = 'pending' AND losses > 1"),
        ),
        Index("job_failed", "list_id", "cause", "id", postgresql_where=text("status = 'failed'")),
    )
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    list_id: Mapped[int] = mapped_column(ForeignKey("list.id", ondelete="CASCADE"))
    company: Mapped[str]
    name: Mapped[str | None]
    extra: Mapped[dict[str, Any]]
    line: Mapped[int | None]
    status: Mapped[str]
    outcome: Mapped[str | None]
    cause: Mapped[str | None]
    message: Mapped[str | None]
    run_at: Mapped[datetime]
    run_until: Mapped[datetime | None]
    worker: Mapped[UUID | None]
    claim_no: Mapped[int]
    attempts: Mapped[int] = mapped_column(SmallInteger)
    losses: Mapped[int] = mapped_column(SmallInteger)
    faults: Mapped[int] = mapped_column(SmallInteger)
    claimed_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    result: Mapped[dict[str, Any] | None]
    fresh_at: Mapped[datetime | None]


class Answer(Base):
    __tablename__ = "answer"
    __table_args__ = (
        Index("answer_question", "service", "fingerprint", "kept_at"),
        {"postgresql_partition_by": "RANGE (kept_at)"},
    )
    job_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    fingerprint: Mapped[bytes] = mapped_column(primary_key=True)
    occurrence: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    service: Mapped[str]
    request: Mapped[str]
    status: Mapped[int] = mapped_column(SmallInteger)
    headers: Mapped[dict[str, Any]]
    body: Mapped[bytes]
    body_bytes: Mapped[int]
    kept_at: Mapped[datetime] = mapped_column(primary_key=True)
    reused_from: Mapped[int | None] = mapped_column(BigInteger)


class Call(Base):
    __tablename__ = "call"
    __table_args__ = (
        Index("call_job", "job_id"),
        Index("call_key", "key_id", "sent_at"),
        {"postgresql_partition_by": "RANGE (sent_at)"},
    )
    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    job_id: Mapped[int] = mapped_column(BigInteger)
    claim_no: Mapped[int]
    worker: Mapped[UUID]
    key_id: Mapped[int | None]
    request: Mapped[str]
    verdict: Mapped[str]
    status: Mapped[int | None] = mapped_column(SmallInteger)
    message: Mapped[str | None]
    waited_ms: Mapped[int]
    took_ms: Mapped[int]
    late: Mapped[bool]
    body_bytes: Mapped[int]
    sent_at: Mapped[datetime] = mapped_column(primary_key=True)
    no: Mapped[int]


class AlertRule(Base):
    __tablename__ = "alert_rule"
    name: Mapped[str] = mapped_column(primary_key=True)
    meaning: Mapped[str]
    advice: Mapped[str]
    for_seconds: Mapped[int]
    clear_seconds: Mapped[int]


class Alert(Base):
    __tablename__ = "alert"
    __table_args__ = (
        Index("alert_open", "rule", "subject", unique=True, postgresql_where=text("resolved_at IS NULL")),
        Index("alert_history", "rule", "subject", "opened_at"),
        Index("alert_resolved_at", "resolved_at"),
    )
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    rule: Mapped[str]
    subject: Mapped[str]
    severity: Mapped[str]
    message: Mapped[str]
    link: Mapped[str]
    flaps: Mapped[int] = mapped_column(SmallInteger)
    seen: Mapped[int]
    seen_from: Mapped[datetime]
    last_seen_at: Mapped[datetime]
    clear_from: Mapped[datetime | None]
    opened_at: Mapped[datetime | None]
    told: Mapped[int] = mapped_column(SmallInteger)
    told_at: Mapped[datetime | None]
    acknowledged_at: Mapped[datetime | None]
    acknowledged_by: Mapped[str | None]
    muted_until: Mapped[datetime | None]
    mute_reason: Mapped[str | None]
    muted_by: Mapped[str | None]
    resolved_at: Mapped[datetime | None]


class Delivery(Base):
    __tablename__ = "delivery"
    __table_args__ = (
        UniqueConstraint("idempotency_key", name="delivery_once"),
        Index("delivery_pending", "channel", "id", postgresql_where=text("state = 'pending'")),
        Index("delivery_channel", "channel", "id"),
        Index("delivery_alert", "alert_id"),
    )
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    alert_id: Mapped[int | None] = mapped_column(BigInteger, ForeignKey("alert.id", ondelete="CASCADE"))
    channel: Mapped[str]
    kind: Mapped[str]
    state: Mapped[str]
    tries: Mapped[int]
    created_at: Mapped[datetime]
    next_try_at: Mapped[datetime]
    last_error: Mapped[str | None]
    sent_at: Mapped[datetime | None]
    idempotency_key: Mapped[UUID]


class Monitor(Base):
    __tablename__ = "monitor"
    only_row: Mapped[bool] = mapped_column(primary_key=True)
    leader: Mapped[UUID | None]
    name: Mapped[str | None]
    version: Mapped[str | None]
    lease_until: Mapped[datetime]
    looked_at: Mapped[datetime | None]
    channels: Mapped[list[str]]
    checked_at: Mapped[datetime | None]
    counts_off: Mapped[int] = mapped_column(BigInteger)


class Tally(Base):
    __tablename__ = "tally"
    list_id: Mapped[int] = mapped_column(ForeignKey("list.id", ondelete="CASCADE"), primary_key=True)
    status: Mapped[str] = mapped_column(primary_key=True)
    outcome: Mapped[str] = mapped_column(primary_key=True)
    cause: Mapped[str] = mapped_column(primary_key=True)
    n: Mapped[int] = mapped_column(BigInteger)


class TallyMinute(Base):
    __tablename__ = "tally_minute"
    __table_args__ = (Index("tally_minute_all", "minute"),)
    list_id: Mapped[int] = mapped_column(ForeignKey("list.id", ondelete="CASCADE"), primary_key=True)
    minute: Mapped[datetime] = mapped_column(primary_key=True)
    status: Mapped[str] = mapped_column(primary_key=True)
    outcome: Mapped[str] = mapped_column(primary_key=True)
    cause: Mapped[str] = mapped_column(primary_key=True)
    n: Mapped[int] = mapped_column(BigInteger)


class Person(Base):
    __tablename__ = "person"
    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    email: Mapped[str] = mapped_column(unique=True)
    role: Mapped[str]
    password: Mapped[str | None]
    session_no: Mapped[int]
    created_at: Mapped[datetime]
    seen_at: Mapped[datetime | None]


class OneTimeLink(Base):
    __tablename__ = "one_time_link"
    __table_args__ = (Index("one_time_link_person", "person_id"),)
    token: Mapped[bytes] = mapped_column(primary_key=True)
    person_id: Mapped[int] = mapped_column(ForeignKey("person.id", ondelete="CASCADE"))
    purpose: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    used_at: Mapped[datetime | None]


class SignInTry(Base):
    __tablename__ = "sign_in_try"
    subject: Mapped[str] = mapped_column(primary_key=True)
    failures: Mapped[int]
    last_at: Mapped[datetime]
    wait_until: Mapped[datetime]


# Rows are appended and folded, never looked up: no key, so a table and no class.
tally_delta = Table(
    "tally_delta",
    Base.metadata,
    Column("list_id", Integer, nullable=False),
    *(Column(name, Text, nullable=False) for name in ("status", "outcome", "cause")),
    Column("n", Integer, nullable=False),
    Column("at", TIMESTAMP(timezone=True), nullable=False),
)
