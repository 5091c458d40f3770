"""Words of a service without the key, which some services echo."""

from __future__ import annotations

from services.service import Service
from store.cleaning import text
from worker.told import LONGEST_MESSAGE

TELLTALE_CHARACTERS = 6


def without_key(message: str, secret: str, service: Service) -> str:
    """The message, cut to 300 characters, without the key as it is or as it was sent."""
    sent = service.headers(secret)
    values = [value for name, value in sent.items() if not name.lower().startswith("accept")]
    shown = {secret, *values, *(value.rpartition(" ")[2] for value in values)}
    for one in sorted(shown, key=len, reverse=True):
        message = _hidden(message, one)
    return text(message, LONGEST_MESSAGE)


def _hidden(message: str, secret: str) -> str:
    """The message without the secret, and without the part of it that a cut message may end with."""
    message = message.replace(secret, "[key]")
    for length in range(len(secret) - 1, TELLTALE_CHARACTERS - 1, -1):
        if message.endswith(secret[:length]):
            return message[:-length] + "[key]"
    return message
