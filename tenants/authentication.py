"""Who sends this request: a key in a header first, then a person's browser session."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, cast

import structlog
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils.functional import LazyObject
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request

from config.faults import CsrfFailed, Unauthenticated
from config.problem_kinds import CHALLENGE
from tenants.access import NOBODY, Principal, principal_of_key
from tenants.buckets import spend_guess
from tenants.clients import client_address
from tenants.keys import find_key, touch
from tenants.models import ApiKey

BAD_KEY = "This API key is wrong, expired or revoked."


def key_in(headers: Mapping[str, str]) -> str | None:
    """The secret of a key, when one was sent by either header. An empty `x-api-key` says nothing
    beside a bearer, and is a wrong key alone."""
    plain = headers.get("x-api-key")
    if plain and plain.strip():
        return plain.strip()
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return secret.strip()
    return None if plain is None else ""


def principal_of_secret(secret: str, *, client: str) -> Principal:
    """The key's identity. A wrong key costs the client, so that guessing cannot load the database."""
    key = find_key(secret)
    if key is None:
        spend_guess(client)
        raise Unauthenticated(BAD_KEY)
    touch(key)
    return principal_of_key(key)


def principal_by_key(request: HttpRequest) -> Principal | None:
    """The identity of the key that this request carries; None when it carries none.

    Looked up once per request, however many ask.
    """
    if hasattr(request, "_key_principal"):
        found: Principal | None = request._key_principal
        return found
    secret = key_in(request.headers)
    found = None
    if secret is not None:
        found = principal_of_secret(secret, client=client_address(request))
        request.principal = found  # type: ignore[attr-defined]
        structlog.contextvars.bind_contextvars(key=found.key.prefix if found.key else None)
    request._key_principal = found  # type: ignore[attr-defined]
    return found


def principal_of(request: HttpRequest | Request) -> Principal:
    """Who acts in this request. The one question that every HTTP door asks."""
    plain = request._request if isinstance(request, Request) else request
    found: Any = getattr(plain, "principal", NOBODY)
    if isinstance(found, LazyObject):
        # The thing itself, as it may be kept, copied and used where nothing can be looked up.
        found = copy(found) if bool(found) else NOBODY  # bool() looks it up
        plain.principal = found  # type: ignore[attr-defined]
    return cast(Principal, found)


class KeyAuthentication(BaseAuthentication):
    """`x-api-key: KEY` or `Authorization: Bearer KEY`. A bad key fails even beside a good cookie."""

    def authenticate(
        self, request: Request
    ) -> tuple[AbstractBaseUser | AnonymousUser, ApiKey | None] | None:
        principal = principal_by_key(request._request)
        if principal is None:
            return None
        return principal.user or AnonymousUser(), principal.key

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


class BrowserAuthentication(SessionAuthentication):
    """Django's session, with its CSRF check. `PrincipalMiddleware` has set the principal."""

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except PermissionDenied as refusal:
            raise CsrfFailed(str(refusal.detail)) from None
