"""What every answer says to the browser: what may run, how long files hold, how the session is kept."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from flask import Flask, Response, current_app, request
from flask.sessions import SecureCookieSessionInterface

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
A_YEAR = "public, max-age=31536000, immutable"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Sessions(SecureCookieSessionInterface):
    """A cookie that is sent over HTTPS alone, unless browser and console are on one machine.

    `__Host-` ties it to this host and this path; a cookie of that name without Secure is refused.
    """

    def get_cookie_secure(self, _app: Flask) -> bool:
        return not is_loopback()

    def get_cookie_name(self, _app: Flask) -> str:
        return "sluice" if is_loopback() else "__Host-sluice"


def is_loopback() -> bool:
    """Whether the browser asked for this machine by a name that only this machine answers to."""
    host = request.host
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return name.lower() in LOOPBACK


def register(app: Flask) -> None:
    app.session_interface = Sessions()
    app.after_request(_say)
    app.url_defaults(_with_sum)
    app.extensions["sums"] = {}


def _say(answer: Response) -> Response:
    for name, content in HEADERS.items():
        answer.headers.setdefault(name, content)
    if request.endpoint == "static":
        is_named_by_sum = answer.status_code in (200, 304) and request.args.get("v")
        answer.headers["Cache-Control"] = A_YEAR if is_named_by_sum else "no-cache"
    elif "Cache-Control" not in answer.headers:
        answer.headers["Cache-Control"] = "no-store"
    return answer


def _with_sum(endpoint: str, values: dict[str, Any]) -> None:
    """The URL of a static file holds its sum: a changed file is another URL, so each holds for a year."""
    if endpoint == "static" and "filename" in values and "v" not in values:
        sums: dict[tuple[str, int], str] = current_app.extensions["sums"]
        file = Path(current_app.static_folder or "") / values["filename"]
        if file.is_file():
            key = (values["filename"], file.stat().st_mtime_ns)
            if key not in sums:
                sums[key] = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
            values["v"] = sums[key]
