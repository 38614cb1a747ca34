"""Text from a server, made fit to be shown."""

from __future__ import annotations

import re

#: Control characters, and marks that reorder or hide text.
UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")


def unmasked(text: str) -> str:
    """For text that can hold no secret."""
    return text


def plain(text: str, longest: int = 500) -> str:
    """One line without control characters, not too long."""
    cut = UNFIT.sub(" ", text[: longest * 2]).strip()
    return cut if len(cut) <= longest else f"{cut[: longest - 1]}…"
