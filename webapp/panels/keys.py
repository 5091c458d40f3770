"""The panels of keys: all of them, one with its limits, its calls. A secret is in none of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from werkzeug.exceptions import NotFound

from store import calls
from store.key_use import KeyUse
from webapp.panels.panel import Args
from webapp.questions import Look

MOST_CALLS = 20


def all_keys(look: Look, _args: Args) -> Mapping[str, Any]:
    """Which keys are there, and does one need somebody?"""
    in_use = sum(one.is_usable for one in look.keys)
    return {
        "keys": look.keys,
        "services": look.held_services,
        "calls": look.calls,
        "in_use": in_use,
        "tests": look.key_tests,
    }


def key(look: Look, args: Args) -> Mapping[str, Any]:
    """How does it stand, and what is left of its limits?"""
    one = _key(look, args)
    if one is None:
        raise NotFound
    sharing = [
        other.label
        for other in look.keys
        if (other.service, other.account) == (one.service, one.account) and other.id != one.id
    ]
    return {
        "key": one,
        "sharing": sharing,
        "said": look.calls.get(one.id),
        "test": look.key_tests.get(one.id),
    }


def key_calls(look: Look, args: Args) -> Mapping[str, Any]:
    """What was it used for, and what went wrong?"""
    one = _key(look, args)
    if one is None:
        raise NotFound
    errors = args.get("calls") == "errors"
    found = calls.of_key(look.conn, one.id, MOST_CALLS, errors=errors)
    return {"key": one, "calls": found, "errors": errors, "most": MOST_CALLS, "among": calls.AMONG}


def _key(look: Look, args: Args) -> KeyUse | None:
    for one in look.keys:
        if str(one.id) == args.get("key"):
            return one
    return None
