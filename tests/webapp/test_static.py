from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from store import settings
from webapp import create_app, display
from webapp.headers import CONTENT_SECURITY_POLICY
from webapp.panels import PANELS

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "static"
TEMPLATES = ROOT / "webapp" / "templates"
MANIFEST = json.loads((STATIC / "vendor" / "manifest.json").read_text())
SYMBOLS = set(re.findall(r'<symbol id="([^"]+)"', (STATIC / "icons.svg").read_text()))


# What is vendored.


@pytest.mark.parametrize("one", MANIFEST, ids=[one["file"] for one in MANIFEST])
def test_a_vendored_file_is_as_it_was_fetched(one: dict[str, str]) -> None:
    assert hashlib.sha256((STATIC / one["file"]).read_bytes()).hexdigest() == one["sha256"]
    assert one["licence"] in ("MIT", "0BSD")


def test_every_vendored_file_is_in_the_manifest_and_each_package_brings_its_licence() -> None:
    listed = {one["file"] for one in MANIFEST}
    there = {f"vendor/{path.name}" for path in (STATIC / "vendor").iterdir()} - {"vendor/manifest.json"}
    assert listed == there | {"icons.svg"}
    for package in {one["package"] for one in MANIFEST}:
        assert [one for one in MANIFEST if one["package"] == package and one["file"].endswith(".LICENSE")]


def test_every_icon_that_is_used_is_in_the_sprite() -> None:
    used = {icon for icon, _, _ in display.LOOKS.values()}
    for template in TEMPLATES.rglob("*.html"):
        text = template.read_text()
        used |= set(re.findall(r'icon\("([a-z-]+)"\)', text))
        for choice in re.findall(r"icon\(([({].*?[)}])\[", text):
            used |= {name for name in re.findall(r'"([a-z-]+)"', choice) if name not in ("ok", "warn", "bad")}
    assert used <= SYMBOLS
    assert len(used) > 15


# What a browser may do.


def answers(
    viewer: FlaskClient, web_app: Flask, a_list: Callable[..., int]
) -> Iterator[tuple[str, str, str]]:
    """Path, policy and text of every kind of answer that holds HTML."""
    a_list(30, done=22, failed={"parse_error": 2}, name="<script>alert(1)</script>")
    paths = [
        "/",
        "/account",
        "/panels?page=dashboard",
        "/panels?page=dashboard.empty",
        "/nothing",
        "/healthz",
    ]
    for path in [*paths, *(f"/panels/{name}" for name in PANELS)]:
        answer = viewer.get(path)
        yield path, answer.headers["Content-Security-Policy"], answer.text
    nobody = web_app.test_client()
    for path in ("/", "/sign-in", "/link/x", "/panels", "/static/app.css", "/static/nothing"):
        answer = nobody.get(path, buffered=True)
        yield path, answer.headers["Content-Security-Policy"], answer.text
    yield "post", nobody.post("/sign-in").headers["Content-Security-Policy"], nobody.post("/sign-in").text


def test_no_answer_holds_script_or_style_of_its_own(
    viewer: FlaskClient, web_app: Flask, a_list: Callable[..., int]
) -> None:
    expected = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    assert expected == CONTENT_SECURITY_POLICY
    for path, policy, text in answers(viewer, web_app, a_list):
        assert policy == expected, path
        if path.startswith("/static"):
            continue
        assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|javascript:", text), path
        assert not re.search(r"hx-on|hx-vals=.js:|hx-trigger=\"[^\"]*\[", text), path  # these need eval
        assert not re.search(r'(?:src|href)="(?:https?:)?//', text), path


def test_other_headers_are_on_every_answer(viewer: FlaskClient) -> None:
    for path in ("/", "/panels/counts", "/nothing", "/static/app.css"):
        headers = viewer.get(path, buffered=True).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["X-Frame-Options"] == "DENY"


def test_our_scripts_need_no_eval() -> None:
    for script in STATIC.glob("*.js"):
        assert not re.search(
            r"\beval\(|new Function|innerHTML|document\.write|setTimeout\(['\"]", script.read_text()
        )


# How long it holds.


def test_what_a_person_sees_is_kept_nowhere_and_files_are_kept_for_a_year_by_their_sum(
    viewer: FlaskClient,
) -> None:
    page = viewer.get("/")
    assert page.headers["Cache-Control"] == "no-store"
    files = re.findall(r'(?:src|href)="(/static/[^"#]+)', page.text)
    assert len(files) > 10
    for url in files:
        path, sum_ = re.fullmatch(r"/static/(.+)\?v=([0-9a-f]{12})", url).groups()  # type: ignore[union-attr]
        assert hashlib.sha256((STATIC / path).read_bytes()).hexdigest().startswith(sum_)
        answer = viewer.get(url, buffered=True)
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert "Set-Cookie" not in answer.headers
    assert viewer.get("/static/app.css", buffered=True).headers["Cache-Control"] == "no-cache"
    assert viewer.get("/static/nothing.css?v=000000000000").headers["Cache-Control"] == "no-cache"


def test_static_files_need_neither_secret_nor_database() -> None:
    app = create_app(
        settings.read({"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x", "SLUICE_SECRET_KEY": "s" * 32})
    )
    assert app.test_client().get("/static/app.css", buffered=True).status_code == 200


# Colours.

STATES = ("pending", "in_progress", "complete", "partial", "empty", "failed", "cancelled")


def tokens(theme: str) -> dict[str, str]:
    block = re.findall(
        rf"\[data-bs-theme={theme}\] \{{(.*?)\}}", (STATIC / "app.css").read_text(), re.DOTALL
    )[0]
    return dict(re.findall(r"--s-([a-z_-]+): (#[0-9A-F]{6})", block))


def contrast(one: str, other: str) -> float:
    """The ratio of two colours. Source: WCAG 2.2, relative luminance and contrast ratio."""

    def luminance(colour: str) -> float:
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everything_can_be_read_in_both_themes(theme: str) -> None:
    colours = tokens(theme)
    for state in STATES:
        text, badge, fill = (colours[f"{state}{part}"] for part in ("", "-bg", "-fill"))
        assert contrast(text, badge) >= 4.5, state
        assert contrast(text, colours["card"]) >= 4.5, state
        assert contrast(text, colours["hover"]) >= 4.5, state
        assert contrast(fill, colours["card"]) >= 3, state
        if state != "pending":  # what is pending is the track itself
            assert contrast(fill, colours["track"]) >= 3, state
    for text in ("text", "mute", "link"):
        for ground in ("bg", "card", "hover"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


def test_every_state_has_a_word_an_icon_and_colours() -> None:
    for state, (icon, words, colours) in display.LOOKS.items():
        assert icon in SYMBOLS, state
        assert words, state
        assert colours in STATES, state
