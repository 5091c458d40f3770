from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.registry import SERVICES
from webapp.key_lines import MOST_KEYS, BadLines, read

SERVICE = SERVICES["companies_house"]
SECRET = "5d2c8a41-not-to-be-seen-9f03"
WORDS = st.text("abcXYZ019-_/+=", min_size=1, max_size=20)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=9, unique_by=(lambda p: p[0], lambda p: p[1])))
def test_what_is_pasted_is_read_whatever_stands_between(pairs: list[tuple[str, str]]) -> None:
    for between in (",", "\t", " ; ", " , "):
        found = read("\n\n".join(f" {label}{between}{secret} " for label, secret in pairs), SERVICE)
        assert [(one.label, one.secret) for one in found] == pairs


@given(st.text(max_size=200))
def test_a_paste_is_keys_or_refused_in_words_that_do_not_hold_a_secret(text: str) -> None:
    secret = f"{SECRET}\x07"
    with pytest.raises(BadLines) as refused:
        read(f"{text}\nCH main, {secret}", SERVICE)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" \n\t\n", "Give a key per line"),
        (SECRET, "Line 1 has no comma or tab"),
        (f"\n, {SECRET}", "The label in line 2 is blank"),
        (f"a\x1bb, {SECRET}", "unprintable"),
        ("CH main,", "Line 1: The secret is empty."),
        (f"CH, {SECRET}\nCH, other", "Line 2 has the label of line 1."),
        (f"CH, {SECRET}\n\nother, {SECRET}", "Line 3 has the secret of line 1."),
        ("\n".join(f"{n}, secret{n}" for n in range(MOST_KEYS + 1)), "101 keys are too many"),
    ],
)
def test_a_line_that_is_no_key_is_named(text: str, words: str) -> None:
    with pytest.raises(BadLines, match=words) as refused:
        read(text, SERVICE)
    assert SECRET not in str(refused.value)


def test_a_secret_may_hold_what_stands_between_others() -> None:
    (one,) = read("us, Hale, Ltd data@example.com", SERVICES["sec_edgar"])
    assert one.secret == "Hale, Ltd data@example.com"
    assert "Hale" not in repr(one)
