"""All channels. A new one is a file and a line here; without its line and file the rest goes on."""

from __future__ import annotations

from collections.abc import Callable

from monitor.channels import email, webhook
from monitor.channels.notice import Channel
from store.settings import Settings

CHANNELS: dict[str, Callable[[Settings], Channel | None]] = {
    "email": email.from_settings,
    "webhook": webhook.from_settings,
}


def configured(settings: Settings) -> list[Channel]:
    """The channels that the settings set up."""
    made = (from_settings(settings) for from_settings in CHANNELS.values())
    return [channel for channel in made if channel is not None]
