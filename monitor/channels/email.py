"""Alerts by email, one message per delivery through an SMTP server."""

from __future__ import annotations

import smtplib
import ssl
from contextlib import closing, suppress
from email.message import EmailMessage
from email.utils import formatdate

from monitor.channels.notice import Channel, Notice, NotSent
from monitor.words import one_line
from store.alert_settings import EmailSettings
from store.settings import Settings

STEP_SECONDS = 10.0
LONGEST_REASON = 200


class Email:
    """`send` returns when the server has accepted the message for one address at least.

    Sending it again for the one that was refused would tell the others again and again.
    """

    name = "email"

    def __init__(self, settings: EmailSettings) -> None:
        self._settings = settings

    def send(self, notice: Notice) -> str | None:
        try:
            server = self._connect()
            with closing(server):
                refused = server.send_message(message(notice, self._settings))
                with suppress(OSError, smtplib.SMTPException):  # it is accepted, whatever comes now
                    server.quit()
        except (OSError, smtplib.SMTPException) as error:
            raise NotSent(self._reason(error)) from None
        return self._hidden(f"refused for {', '.join(sorted(refused))}") if refused else None

    def _connect(self) -> smtplib.SMTP:
        s = self._settings
        if s.is_tls:
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                s.host, s.port, timeout=STEP_SECONDS, context=ssl.create_default_context()
            )
        else:
            server = smtplib.SMTP(s.host, s.port, timeout=STEP_SECONDS)
        try:
            if s.starttls:
                server.starttls(context=ssl.create_default_context())
            if s.user:
                server.login(s.user, s.password or "")
        except BaseException:
            server.close()
            raise
        return server

    def _reason(self, error: OSError | smtplib.SMTPException) -> str:
        match error:
            case smtplib.SMTPRecipientsRefused():
                return self._hidden(f"refused for {', '.join(sorted(error.recipients))}")
            case smtplib.SMTPResponseException():
                said = error.smtp_error
                text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
                return self._hidden(f"the mail server said {error.smtp_code} {text}")
            case TimeoutError():
                return f"the mail server did not answer within {STEP_SECONDS:g} s"
            case _:
                return self._hidden(f"no mail could be handed over: {error}")

    def _hidden(self, text: str) -> str:
        """Without the password, which some servers repeat."""
        password = self._settings.password
        return one_line(text.replace(password, "•••") if password else text, LONGEST_REASON)


def message(notice: Notice, settings: EmailSettings) -> EmailMessage:
    """The email of a notice. Its Message-ID is the delivery's key: a second try is the same message."""
    mail = EmailMessage()
    mail["From"] = settings.sender
    mail["To"] = ", ".join(settings.to)
    mail["Subject"] = f"[Sluice{f' {notice.severity}' if notice.severity else ''}] {notice.summary}"
    mail["Date"] = formatdate()
    mail["Message-ID"] = f"<{notice.key}@{settings.sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("\n\n".join(notice.lines()) + "\n")
    return mail


def from_settings(settings: Settings) -> Channel | None:
    """None: no email is set up."""
    return Email(settings.email) if settings.email else None
