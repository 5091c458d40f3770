"""What services were asked and what they answered, in partitions by time."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Identity, Index, SmallInteger
from sqlalchemy.orm import Mapped, mapped_column

from store.models.base import Base


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
