"""Asks `authorise` on behalf of every REST view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from tenants.access import Verb, authorise
from tenants.authentication import principal_of

if TYPE_CHECKING:
    # The REST framework imports this module while it makes that one.
    from rest_framework.views import APIView


def verb_of(request: Request, view: APIView) -> Verb:
    """The right that this request needs: what the view says, else by HTTP method.

    A view may say `verbs = {"create": "build"}`, by viewset action or by HTTP method.
    """
    verbs: dict[str, Verb] = getattr(view, "verbs", {})
    method = request.method or "GET"
    for name in (getattr(view, "action", None), method, method.lower()):
        if name and name in verbs:
            return verbs[name]
    return "read" if method in SAFE_METHODS else "run"


class HasWorkspace(BasePermission):
    """The identity acts in a workspace, has the right, and the object is of that workspace."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        authorise(principal_of(request), verb_of(request, view))
        return True

    def has_object_permission(self, request: Request, view: APIView, obj: Any) -> bool:
        authorise(principal_of(request), verb_of(request, view), obj)
        return True
