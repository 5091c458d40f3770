from __future__ import annotations

import pytest

from store.alert_settings import EmailSettings
from store.settings import BadSetting, read

EMAIL = {"ALERT_EMAIL_TO": "a@example.com, b@example.com", "ALERT_EMAIL_FROM": "sluice@example.com"}
WEBHOOK = {"ALERT_WEBHOOK_URL": "https://hooks.example.com/T1/hidden"}
SECRET = "0123456789abcdef"


def email(url: str) -> EmailSettings:
    found = read({**EMAIL, "SMTP_URL": url}).email
    assert found is not None
    return found


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(BadSetting) as refused:
        read(environ)
    line = str(refused.value)
    assert "hidden" not in line
    assert "\n" not in line
    return line


@pytest.mark.parametrize(
    ("url", "port", "is_tls", "starttls"),
    [
        ("smtp://mail.example.com", 25, False, False),
        ("smtp://mail.example.com?starttls", 587, False, True),
        ("smtp://mail.example.com:2525/?starttls", 2525, False, True),
        ("smtps://mail.example.com", 465, True, False),
    ],
)
def test_the_smtp_url_says_how_to_connect(url: str, port: int, is_tls: bool, starttls: bool) -> None:
    found = email(url)
    assert (found.host, found.port, found.is_tls, found.starttls) == (
        "mail.example.com", port, is_tls, starttls,
    )  # fmt: skip
    assert found.to == ("a@example.com", "b@example.com")


def test_user_and_password_are_percent_decoded_and_never_shown() -> None:
    found = email("smtps://me%40x:hid%2Fden@mail.example.com")
    assert (found.user, found.password) == ("me@x", "hid/den")
    assert "hid/den" not in repr(found)


@pytest.mark.parametrize(
    "url",
    [
        "http://me:hidden@mail",
        "smtp://",
        "smtp://me:hidden@mail:99999",
        "smtp://me:hidden@mail?tls",
        "smtps://me:hidden@mail?starttls",
        "smtp://me:hidden@mail/path",
        "me:hidden@mail",
    ],
)
def test_an_smtp_url_that_is_none_is_refused_without_showing_its_password(url: str) -> None:
    assert refusal({**EMAIL, "SMTP_URL": url}).startswith("SMTP_URL cannot be read")


def test_a_password_in_the_clear_is_refused_but_to_this_host() -> None:
    assert "in the clear" in refusal({**EMAIL, "SMTP_URL": "smtp://me:hidden@mail.example.com"})
    assert email("smtp://me:pw@localhost").password == "pw"


@pytest.mark.parametrize("address", ["ops", "a@b\r\nBcc: c@d", "a b@c", "", "a@example.com,,", "<a@b>"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    environ = {**EMAIL, "SMTP_URL": "smtp://mail", "ALERT_EMAIL_TO": address}
    assert "ALERT_EMAIL_TO" in refusal(environ)


def test_settings_that_belong_together_are_set_together() -> None:
    assert refusal(EMAIL).startswith("SMTP_URL is not set")
    assert refusal(WEBHOOK).startswith("ALERT_WEBHOOK_SECRET is not set")
    assert read({}).email is None
    assert read({}).webhook is None


def test_a_webhook_needs_an_address_and_a_secret_worth_the_name() -> None:
    found = read({**WEBHOOK, "ALERT_WEBHOOK_SECRET": SECRET}).webhook
    assert found is not None
    assert "hidden" not in repr(found)
    assert "at least 16" in refusal({**WEBHOOK, "ALERT_WEBHOOK_SECRET": "short"})
    for url in ("ftp://x/hidden", "hidden", "http://[hidden"):
        line = refusal({"ALERT_WEBHOOK_URL": url, "ALERT_WEBHOOK_SECRET": SECRET})
        assert line.startswith("ALERT_WEBHOOK_URL cannot be read")


def test_links_begin_with_the_public_url() -> None:
    assert read({"PUBLIC_URL": "https://sluice.example.com/"}).public_url == "https://sluice.example.com"
    assert read({"PORT": "8001"}).public_url == "http://127.0.0.1:8001"
    assert "PUBLIC_URL" in refusal({"PUBLIC_URL": "sluice.example.com"})


def test_a_monitor_that_never_rests_is_refused() -> None:
    assert read({}).monitor_seconds == 3.0
    assert "MONITOR_SECONDS" in refusal({"MONITOR_SECONDS": "0"})
