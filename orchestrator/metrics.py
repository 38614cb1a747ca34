"""Serves the figures for Prometheus to those who may see them."""

from __future__ import annotations

from secrets import compare_digest

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django_prometheus.exports import ExportToDjangoView

from tenants.clients import is_local


def metrics(request: HttpRequest) -> HttpResponse:
    if not may_see(request):
        raise PermissionDenied
    return ExportToDjangoView(request)


def may_see(request: HttpRequest) -> bool:
    """This machine itself, the bearer of the token, and staff."""
    if is_local(request):
        return True
    token: str = settings.METRICS_TOKEN
    given = request.headers.get("Authorization", "")
    if token and compare_digest(given.encode(), f"Bearer {token}".encode()):
        return True
    return request.user.is_active and request.user.is_staff
