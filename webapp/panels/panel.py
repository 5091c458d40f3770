"""What a panel is: one question, one fragment, one URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from webapp.questions import Look

Args = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Panel:
    """`question` returns the variables of `template`, which renders one element with `id="panel-NAME"`.

    `args`: the query parameters that it depends on; no other reaches it. It changes at most every
    `least_seconds`. What it shows depends on the viewer's role alone, so viewers of one role share it.
    """

    question: Callable[[Look, Args], Mapping[str, Any]]
    template: str
    args: tuple[str, ...] = ()
    least_seconds: float = 1.0


def id_of(text: str) -> int | None:
    """The id that a query parameter names; None when it can be none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None  # noqa: PLR2004
