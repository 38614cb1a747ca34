"""What may be said about a key to a model provider."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from agents.inputs import Input


def _printable(text: str) -> str:
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise ValueError("A key is made of plain letters, digits and signs, without spaces.")
    return text


def _web_address(url: str) -> str:
    """An address that can be shown to everyone in the workspace."""
    if not url:
        return url
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("The address must begin with http:// or https:// and name a host.")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("The address cannot hold a name, a password, a query or a fragment.")
    return url


class KeyInput(Input):
    """A provider's key and address. An empty address is the vendor's own."""

    api_key: Annotated[
        str,
        StringConstraints(strip_whitespace=True, max_length=4_096),
        AfterValidator(_printable),
        Field(repr=False),
    ] = ""
    base_url: Annotated[
        str,
        StringConstraints(strip_whitespace=True, max_length=200),
        AfterValidator(_web_address),
        AfterValidator(_printable),
    ] = ""
