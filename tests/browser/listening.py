"""Collects a browser's errors: CSP violations and script errors."""

from __future__ import annotations

from collections.abc import Sequence

from playwright.sync_api import BrowserContext, ConsoleMessage


def listen(context: BrowserContext, complaints: list[str], expected: Sequence[str]) -> None:
    """Add every error of this context to `complaints`, except the expected ones."""

    def record(message: ConsoleMessage) -> None:
        if message.type == "error" and not any(words in message.text for words in expected):
            complaints.append(f"{message.text} ({message.location['url']})")

    context.on("console", record)
    context.on("weberror", lambda error: complaints.append(str(error.error)))
