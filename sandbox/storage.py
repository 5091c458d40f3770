"""The file store that documents are fetched from: signed addresses that expire, and no other credential.

An address is good for a while for whoever has it; a request that also carries an Authorization header
is refused, as Amazon S3 does (https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from urllib.parse import quote

from sandbox.answers import Answer, s3_error
from sandbox.server import Request

PREFIX = "/storage/"


class Storage:
    """Signs addresses and checks them. `ttl_seconds`: how long an address is good."""

    def __init__(self, ttl_seconds: float) -> None:
        self._ttl_seconds = ttl_seconds
        self._secret = os.urandom(32)

    def address(self, document: str, content_type: str, asked_host: str) -> str:
        """An address on another host name than the one asked, so that the hop really leaves the host."""
        name, _, port = asked_host.partition(":")
        other = "127.0.0.1" if name == "localhost" else "localhost"
        expires = f"{time.time() + self._ttl_seconds:.3f}"
        signature = self._sign(document, content_type, expires)
        query = f"type={quote(content_type, safe='')}&Expires={expires}&Signature={signature}"
        return f"http://{other}:{port}{PREFIX}{document}?{query}"

    def refusal(self, request: Request) -> Answer | None:
        """Why the store does not hand out what is asked for; None when it does."""
        if "authorization" in request.headers:
            return s3_error(400, "InvalidArgument", "Only one auth mechanism allowed; only the signature is.")
        document = request.path.removeprefix(PREFIX)
        expires = request.param("Expires") or ""
        right = self._sign(document, request.param("type") or "", expires)
        if not hmac.compare_digest(right, request.param("Signature") or ""):
            return s3_error(403, "SignatureDoesNotMatch", "The signature does not match the request.")
        if float(expires) < time.time():
            return s3_error(403, "AccessDenied", "Request has expired")
        return None

    def _sign(self, document: str, content_type: str, expires: str) -> str:
        signed = f"{document}\n{content_type}\n{expires}".encode()
        return hmac.new(self._secret, signed, hashlib.sha256).hexdigest()
