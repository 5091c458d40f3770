"""What commands print stays on its line and steers no terminal, whatever the text."""

from __future__ import annotations

import click
import psycopg
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from webapp.commands.console import counted, name_of, one_line, refusing_in_one_line, shown, table


@given(st.text())
def test_text_from_anywhere_is_shown_on_one_line_without_what_steers_a_terminal(text: str) -> None:
    assert one_line(text).isprintable()
    assert len(shown(text, 20)) <= 20
    one_line(text).encode()


@given(st.lists(st.tuples(st.text(), st.integers()), min_size=1))
def test_a_table_has_a_line_for_each_row(rows: list[tuple[str, int]]) -> None:
    @click.command()
    def command() -> None:
        table(("Name", "Jobs"), rows)

    assert len(CliRunner().invoke(command).output.splitlines()) == len(rows) + 1


def test_columns_line_up_also_beside_wide_letters_and_joined_accents(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table(("Name", "Jobs"), [("日本", 1_234), ("Cafe\u0301", 5)])
    assert capsys.readouterr().out.splitlines() == ["Name   Jobs", "日本  1,234", "Cafe\u0301      5"]


def test_numbers_are_grouped_and_agree_with_their_noun() -> None:
    assert counted(12_480, "company", "companies") == "12,480 companies"
    assert counted(1, "company", "companies") == "1 company"
    assert counted(0, "job") == "0 jobs"


def test_a_refusal_is_one_line() -> None:
    with pytest.raises(click.ClickException, match=r"^no such thing: � here$"), refusing_in_one_line():
        raise click.ClickException("no such\n\n thing: \x1b here")


@pytest.mark.parametrize("bad", ["", "  ", "a\x1b[31mb", "a\nb", "\ud800", "x" * 201])
def test_a_name_that_cannot_be_printed_or_typed_again_is_refused(bad: str) -> None:
    context = click.Context(click.Command("x"))
    with pytest.raises(click.ClickException, match="list's name"):
        name_of("list's name")(context, click.Argument(["name"]), bad)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (psycopg.OperationalError("server closed"), "connection to the database was lost"),
        (psycopg.errors.AdminShutdown("terminating"), "connection to the database was lost"),
        (psycopg.errors.DiskFull("no space left"), "database refused: no space left"),
        (psycopg.errors.DeadlockDetected("deadlock detected"), "database refused: deadlock detected"),
    ],
    ids=["cut", "shutdown", "disk", "deadlock"],
)
def test_what_the_server_says_is_not_called_a_lost_connection(error: psycopg.Error, says: str) -> None:
    with pytest.raises(click.ClickException, match=says), refusing_in_one_line():
        raise error
