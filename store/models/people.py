"""Who may sign in, and how."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Identity, Index
from sqlalchemy.orm import Mapped, mapped_column

from store.models.base import Base


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
