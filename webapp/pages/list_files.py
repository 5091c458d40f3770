"""What can be taken away from a list: its results as a file, its rejected lines."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from flask import Blueprint, Response, abort, render_template, request
from flask.typing import ResponseReturnValue
from werkzeug.http import dump_options_header

from store import rejects as rejected_lines
from store.export import written
from store.lists import ListSeen
from webapp.database import page_connection
from webapp.display import iso
from webapp.exports import FORMATS, TooManyRows
from webapp.pages.lists import ONE, found
from webapp.panels.polling import AS_OF

blueprint = Blueprint("list_files", __name__)

LONGEST_FILE_NAME = 100


@blueprint.get(ONE + "/export.<form>")
def export(list_id: int, form: str) -> ResponseReturnValue:
    """Every job with its values as of this moment; `?sources` says beside each value where it is from."""
    if form not in FORMATS:
        abort(404)
    one, _ = found(list_id)
    with page_connection() as conn:
        try:
            download = FORMATS[form].write(conn, one, "sources" in request.args)
        except TooManyRows as error:
            title = "The list does not fit on a worksheet."
            return render_template("errors/page.html", title=title, words=str(error)), 422
    answer = _attachment(download.chunks, FORMATS[form].media_type, file_name(one, form))
    answer.headers[AS_OF] = iso(download.as_of)
    return answer


@blueprint.get(ONE + "/rejects.csv")
def rejects(list_id: int) -> ResponseReturnValue:
    """The lines of the uploaded files that are no jobs, with reasons."""
    one, _ = found(list_id)
    with page_connection() as conn:
        lines = rejected_lines.see(conn, list_id)
    table = written(("line", "content", "reason"), ([str(r.line), r.content, r.reason] for r in lines))
    chunks = (text.encode() for text in table)
    return _attachment(chunks, "text/csv; charset=utf-8", file_name(one, "csv", " rejects"))


def file_name(one: ListSeen, suffix: str, what: str = "") -> str:
    """A name that every system takes, made of the list's name."""
    plain = unicodedata.normalize("NFC", one.name)
    plain = re.sub(r"[^\w.\- ]+", "_", plain).strip(" ._")[:LONGEST_FILE_NAME] or f"list {one.id}"
    return f"{plain}{what}.{suffix}"


def _attachment(chunks: Iterator[bytes], media_type: str, name: str) -> Response:
    answer = Response(chunks, content_type=media_type)
    answer.headers["Content-Disposition"] = dump_options_header("attachment", {"filename": name})
    return answer
