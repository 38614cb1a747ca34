"""Says who opens a WebSocket, before any consumer sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest, parse_cookie
from django.http.request import split_domain_port, validate_host
from django.utils.http import is_same_domain

from config.faults import TooManyRequests, Unauthenticated
from tenants.access import NOBODY, Principal
from tenants.authentication import key_in, principal_of_secret
from tenants.middleware import person_behind

#: The only subprotocol that a server accepts. A key in a subprotocol is never echoed.
SUBPROTOCOL = "switchyard.v1"
KEY_SUBPROTOCOL = "key."

Scope = dict[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]


class SocketIdentity:
    """Sets `scope["principal"]`: by key in a header or subprotocol, else by session cookie.

    A bad key is nobody, even beside a good cookie. A cookie counts only from pages of this server.
    """

    def __init__(self, inner: Application) -> None:
        self.inner = inner

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        principal = await database_sync_to_async(principal_of_scope)(scope)
        await self.inner({**scope, "principal": principal}, receive, send)


def principal_of_scope(scope: Scope) -> Principal:
    headers = {name.decode("latin1"): value.decode("latin1") for name, value in scope["headers"]}
    secret = key_in(headers)
    if secret is None:
        secret = key_in_subprotocols(scope.get("subprotocols", []))
    if secret is not None:
        client = (scope.get("client") or ["unknown"])[0]
        try:
            return principal_of_secret(secret, client=client)
        except (Unauthenticated, TooManyRequests):
            return NOBODY
    session_key = parse_cookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME)
    if not session_key or not is_own_page(headers.get("origin"), headers.get("host", "")):
        return NOBODY
    return principal_of_session(session_key)


def key_in_subprotocols(subprotocols: list[str]) -> str | None:
    """Browsers cannot set headers on a socket, but they can offer subprotocols."""
    for offered in subprotocols:
        if offered.startswith(KEY_SUBPROTOCOL):
            return offered.removeprefix(KEY_SUBPROTOCOL)
    return None


def is_own_page(origin: str | None, host: str) -> bool:
    """Whether a page of this server, or of an origin it trusts, opens the socket.

    Browsers send cookies with sockets that any site opens; only the Origin tells them apart.
    """
    if not origin:
        return False
    from_page = urlsplit(origin)
    if from_page.netloc.lower() == host.lower():
        allowed = settings.ALLOWED_HOSTS or ["localhost", "127.0.0.1", "[::1]"]
        return validate_host(split_domain_port(host)[0], allowed)
    for trusted in map(urlsplit, settings.CSRF_TRUSTED_ORIGINS):
        if trusted.scheme == from_page.scheme and is_same_domain(
            from_page.netloc.lower(), trusted.netloc.lstrip("*")
        ):
            return True
    return False


def principal_of_session(session_key: str) -> Principal:
    """The person of a browser session, with the checks that Django makes for a request."""
    request = HttpRequest()
    request.session = SessionStore(session_key)
    return person_behind(get_user(request), request.session)
