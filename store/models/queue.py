"""Lists with their jobs, who works on them, and the counts of both."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    REAL,
    BigInteger,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import TIMESTAMP
from sqlalchemy.orm import Mapped, mapped_column

from store.models.base import Base

IN_PROGRESS = text("status = 'in_progress'")


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


# Rows are appended and folded, never looked up: no key, so a table and no class.
tally_delta = Table(
    "tally_delta",
    Base.metadata,
    Column("list_id", Integer, nullable=False),
    *(Column(name, Text, nullable=False) for name in ("status", "outcome", "cause")),
    Column("n", Integer, nullable=False),
    Column("at", TIMESTAMP(timezone=True), nullable=False),
)
