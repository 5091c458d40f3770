"""What all tables are declared on."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, Double, LargeBinary, Text
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP
from sqlalchemy.orm import DeclarativeBase


class Base(DeclarativeBase):
    type_annotation_map = {  # noqa: RUF012 - the name SQLAlchemy reads
        str: Text,
        datetime: TIMESTAMP(timezone=True),
        dict[str, Any]: JSONB,
        list[str]: ARRAY(Text),
        bytes: LargeBinary,
        float: Double,
    }
