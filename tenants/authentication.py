"""Identifies the sender of a request, and applies permissions and rate limits to REST views.

An API key in a header comes first, then the browser session of a user.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import structlog
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest, HttpResponseBase, parse_cookie
from django.utils.functional import LazyObject, SimpleLazyObject
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from core.db import work_for
from core.exceptions import CHALLENGE, CsrfFailed, Unauthenticated, WorkspaceBusy
from core.fair_slots import FairSlots
from core.middleware import SyncMiddleware
from core.throttling import (
    MOST_REQUESTS,
    Allowance,
    buckets,
    client_address,
    spend_anonymous,
    spend_guess,
)
from tenants.access import (
    ANONYMOUS,
    Principal,
    Verb,
    authorise,
    principal_of_key,
    principal_of_user,
)
from tenants.keys import recent_key
from tenants.models import ApiKey, User

if TYPE_CHECKING:
    # The REST framework imports this module while it defines that class.
    from rest_framework.views import APIView

BAD_KEY = "This API key is wrong, expired or revoked."
KEY_HEADERS = {"x-api-key": "HTTP_X_API_KEY", "authorization": "HTTP_AUTHORIZATION"}
#: The session entry that holds the user's chosen workspace.
CHOSEN = "workspace"


def key_in_headers(headers: Mapping[str, str]) -> str | None:
    """Return the secret of the API key in either header, or None when there is no such header.

    An empty `x-api-key` is ignored beside a bearer token, and is a wrong key without one.
    """
    plain = headers.get("x-api-key")
    if plain and plain.strip():
        return plain.strip()
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return secret.strip()
    return None if plain is None else ""


def principal_of_secret(secret: str, *, client: str) -> Principal:
    """Return the principal of a key. A wrong key counts against the client's rate limit."""
    key = recent_key(secret)
    if key is None:
        spend_guess(client)
        raise Unauthenticated(BAD_KEY)
    return principal_of_key(key)


def principal_from_key(request: HttpRequest) -> Principal | None:
    """Return the principal of the key in this request, or None when it carries no key.

    The key is looked up once per request.
    """
    if hasattr(request, "_key_principal"):
        cached: Principal | None = request._key_principal
        return cached
    # Not `request.headers`, which reads all of them.
    secret = key_in_headers(
        {n: request.META[m] for n, m in KEY_HEADERS.items() if m in request.META}
    )
    principal = None
    if secret is not None:
        principal = principal_of_secret(secret, client=client_address(request))
        take_share(request, principal)
        request.principal = principal  # type: ignore[attr-defined]
        structlog.contextvars.bind_contextvars(key=principal.key.prefix if principal.key else None)
    request._key_principal = principal  # type: ignore[attr-defined]
    return principal


def principal_from_session(user: object, session: SessionBase) -> Principal:
    """Return the principal of a signed-in user in the workspace that they chose."""
    if not isinstance(user, User) or not user.is_active:
        return ANONYMOUS
    chosen = session.get(CHOSEN)
    try:
        workspace_id = UUID(str(chosen)) if chosen else None
    except ValueError:
        workspace_id = None
    return replace(principal_of_user(user, workspace_id), session_key=session.session_key or "")


def principal_from_session_key(session_key: str) -> Principal:
    """Return the principal of a browser session, checked as Django does for a request."""
    request = HttpRequest()
    request.session = SessionStore(session_key)
    user = get_user(request)
    return principal_from_session(user, request.session)


def require_identity(headers: Mapping[str, str], client: str) -> None:
    """Raise Unauthenticated unless the headers of a request carry a valid key or session."""
    secret = key_in_headers(headers)
    if secret is not None:
        principal_of_secret(secret, client=client)
        return
    session_key = parse_cookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME)
    if not session_key or not principal_from_session_key(session_key).is_authenticated:
        raise Unauthenticated


def choose_workspace(request: HttpRequest, workspace_id: UUID) -> None:
    """Make the user act in this workspace from the next request on."""
    request.session[CHOSEN] = str(workspace_id)


#: A workspace may use two thirds of the threads that answer requests.
requests_under_way = FairSlots(each=lambda: MOST_REQUESTS * 2 // 3)


def take_share(request: HttpRequest, principal: Principal) -> None:
    """Count a request, and the connections that it borrows, for the workspace of its principal."""
    workspace_id = principal.workspace_id
    if workspace_id is None or hasattr(request, "_share"):
        return
    request._share = None  # type: ignore[attr-defined] # the page of the refusal asks again
    if not requests_under_way.take(workspace_id):
        raise WorkspaceBusy
    request._share = workspace_id  # type: ignore[attr-defined]
    work_for(workspace_id)


def return_share(request: HttpRequest) -> None:
    workspace_id: UUID | None = getattr(request, "_share", None)
    request._share = None  # type: ignore[attr-defined]
    if workspace_id is not None:
        requests_under_way.give_back(workspace_id)
        work_for(None)


class PrincipalMiddleware(SyncMiddleware):
    """Sets `request.principal` lazily: the database is only read when a view asks for it."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request.principal = SimpleLazyObject(lambda: self._find(request))  # type: ignore[attr-defined]
        try:
            return self.get_response(request)
        finally:
            return_share(request)

    def _find(self, request: HttpRequest) -> Principal:
        principal = principal_from_session(request.user, request.session)
        take_share(request, principal)
        return principal


def principal_of(request: HttpRequest | Request) -> Principal:
    """Return who acts in this request. Every view and REST endpoint asks here."""
    plain = request._request if isinstance(request, Request) else request
    principal: Any = getattr(plain, "principal", ANONYMOUS)
    if isinstance(principal, LazyObject):
        # Unwrapped, because callers may keep it and use it where no query is possible.
        principal = copy(principal) if bool(principal) else ANONYMOUS  # bool() evaluates it
        plain.principal = principal  # type: ignore[attr-defined]
    return cast(Principal, principal)


def authorised(request: HttpRequest | Request, verb: Verb) -> tuple[Principal, UUID]:
    """Return who acts in this request and in which workspace, or raise if they lack the right."""
    principal = principal_of(request)
    return principal, authorise(principal, verb)


class KeyAuthentication(BaseAuthentication):
    """Accepts `x-api-key: KEY` and `Authorization: Bearer KEY`.

    A wrong key fails the request even when its session cookie is valid.
    """

    def authenticate(
        self, request: Request
    ) -> tuple[AbstractBaseUser | AnonymousUser, ApiKey | None] | None:
        principal = principal_from_key(request._request)
        if principal is None:
            return None
        return principal.user or AnonymousUser(), principal.key

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


class BrowserAuthentication(SessionAuthentication):
    """Accepts Django's session with its CSRF check. `PrincipalMiddleware` sets the principal."""

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except PermissionDenied as refusal:
            raise CsrfFailed(str(refusal.detail)) from None


def required_verb(request: Request, view: APIView) -> Verb:
    """Return the right that this request needs.

    A view may declare `verbs = {"create": "build"}`, by viewset action or by HTTP method. By default
    reading needs `read` and everything else needs `run`.
    """
    verbs: dict[str, Verb] = getattr(view, "verbs", {})
    method = request.method or "GET"
    for name in (getattr(view, "action", None), method, method.lower()):
        if name and name in verbs:
            return verbs[name]
    return "read" if method in SAFE_METHODS else "run"


class HasWorkspace(BasePermission):
    """Requires a workspace, the right that the view needs, and an object of that workspace."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        authorise(principal_of(request), required_verb(request, view))
        return True

    def has_object_permission(self, request: Request, view: APIView, obj: Any) -> bool:
        authorise(principal_of(request), required_verb(request, view), obj)
        return True


class PrincipalThrottle(BaseThrottle):
    """Limits requests per key, user or anonymous address, and reports what is left in headers."""

    def __init__(self) -> None:
        self._wait = 0.0

    def allow_request(self, request: Request, view: APIView) -> bool:
        principal = principal_of(request)
        if principal.is_authenticated:
            allowance = spend_as(principal)
        else:
            allowance = spend_anonymous(client_address(request._request))
        self._wait = allowance.wait
        # The REST framework copies the headers of the view to the response.
        view.headers |= {
            "X-RateLimit-Limit": str(allowance.limit),
            "X-RateLimit-Remaining": str(allowance.remaining),
            "X-RateLimit-Reset": str(math.ceil(allowance.reset)),
        }
        return not allowance.wait

    def wait(self) -> float:
        return self._wait


def spend_as(principal: Principal) -> Allowance:
    """Count one request of an authenticated principal."""
    known = principal.key or principal.user
    return buckets.spend(
        f"{type(known).__name__} {known and known.pk}", per_minute=settings.REQUESTS_PER_MINUTE
    )
