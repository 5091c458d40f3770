"""An answer before it is written to the socket, and the error bodies of the real services."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from xml.sax.saxutils import escape

_NOT_LASTING = {401, 403, 408, 425, 429}
_SERVER_ERRORS = 500


@dataclass(frozen=True, slots=True)
class Answer:
    """`refuses`: a 403 or so that is about this very path and will not change.

    `is_spoiled`: a fault made it unusable. `drip_seconds`: the body takes that long. `is_cut`: the
    connection ends half way through the declared body.
    """

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    refuses: bool = False
    is_spoiled: bool = False
    is_rate_limit: bool = False
    drip_seconds: float = 0.0
    is_cut: bool = False

    @property
    def is_final(self) -> bool:
        """Once it has arrived in full, asking again can bring nothing new."""
        lasting = self.status < _SERVER_ERRORS and self.status not in _NOT_LASTING
        return (lasting or self.refuses) and not self.is_spoiled

    def with_headers(self, headers: Mapping[str, str]) -> Answer:
        return replace(self, headers={**self.headers, **headers})


def json_answer(status: int, content: object, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, json.dumps(content, separators=(",", ":")).encode(), headers=headers or {})


def s3_error(status: int, code: str, message: str, key: str = "") -> Answer:
    """An error of the file store behind both services. It is about the path, so it lasts."""
    named = f"<Key>{escape(key)}</Key>" if key else ""
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>{escape(message)}</Message>{named}"
        "<RequestId>SANDBOX0000000000</RequestId><HostId>sandbox</HostId></Error>"
    )
    return Answer(status, body.encode(), "application/xml", refuses=True)


def sec_page(status: int, title: str, heading: str, text: str) -> Answer:
    """A notice of sec.gov, which comes as a page where data was asked for."""
    body = (
        f"<!DOCTYPE html><html><head><title>SEC.gov | {html.escape(title)}</title></head><body>"
        f'<div id="header">U.S. Securities and Exchange Commission</div><div id="content">'
        f"<h1>{html.escape(heading)}</h1><p>{html.escape(text)}</p>"
        "<p>Reference ID: 0.sandbox.0</p></div></body></html>"
    )
    return Answer(status, body.encode(), "text/html")
