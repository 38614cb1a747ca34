"""Hears what a browser complains of: faults of the content security policy and of scripts."""

from __future__ import annotations

from collections.abc import Sequence

from playwright.sync_api import BrowserContext, ConsoleMessage


def listen(context: BrowserContext, complaints: list[str], expected: Sequence[str]) -> None:
    """Add every complaint of this window, but those that a test rightly causes."""

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error" and not any(words in message.text for words in expected):
            complaints.append(f"{message.text} ({message.location['url']})")

    context.on("console", hear)
    context.on("weberror", lambda error: complaints.append(str(error.error)))
