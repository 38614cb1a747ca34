"""Puts the acting identity on every request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest, HttpResponseBase
from django.utils.functional import SimpleLazyObject

from tenants.access import NOBODY, Principal, principal_of_user
from tenants.models import User

#: Where a person's choice of workspace is kept in their session.
CHOSEN = "workspace"


def person_behind(user: object, session: SessionBase) -> Principal:
    """The identity of a signed-in person in the workspace they chose."""
    if not isinstance(user, User) or not user.is_active:
        return NOBODY
    chosen = session.get(CHOSEN)
    try:
        workspace_id = UUID(str(chosen)) if chosen else None
    except ValueError:
        workspace_id = None
    person = principal_of_user(user, workspace_id)
    return replace(person, browser=session.session_key or "")


class PrincipalMiddleware:
    """Sets `request.principal`. Nothing is read from the database before somebody looks at it."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        principal = SimpleLazyObject(lambda: person_behind(request.user, request.session))
        request.principal = principal  # type: ignore[attr-defined]
        return self.get_response(request)
