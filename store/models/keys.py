"""Services, and the keys and accounts they are asked with."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    SmallInteger,
    UniqueConstraint,
    Uuid,
)
from sqlalchemy.orm import Mapped, mapped_column

from store.models.base import Base


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
