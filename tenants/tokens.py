"""Random words that are shown once and kept only as digests."""

from __future__ import annotations

import secrets
from hashlib import sha256


def new_token() -> str:
    return secrets.token_urlsafe(32)


def digest(token: str) -> str:
    """A plain hash is enough: the token itself is 256 bits of chance."""
    return sha256(token.encode()).hexdigest()
