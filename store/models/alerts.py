"""What the monitor found, whom it told, and the monitor itself."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey, Identity, Index, SmallInteger, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from store.models.base import Base


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
