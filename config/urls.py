"""Where every path leads."""

from __future__ import annotations

from importlib.util import find_spec

from django.conf import settings
from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from config.error_views import staff_sign_in
from config.openapi import DocsView, SchemaView
from config.sockets import APPS
from orchestrator.api.health import HealthView
from orchestrator.metrics import metrics

handler400 = "config.error_views.bad_request"
handler403 = "config.error_views.permission_denied"
handler404 = "config.error_views.page_not_found"
handler500 = "config.error_views.server_error"


def routes_of(module: str, under: str) -> list[URLResolver]:
    """What each app brings in this module of its own, from left to right."""
    found = [f"{app}.{module}" for app in APPS if find_spec(app) and _exists(app, module)]
    return [path(under, include(name)) for name in found]


def _exists(app: str, module: str) -> bool:
    try:
        return find_spec(f"{app}.{module}") is not None
    except ModuleNotFoundError:
        return False


urlpatterns: list[URLPattern | URLResolver] = [
    # Staff sign in where everybody does, so that failures are counted in one place.
    path("admin/login/", staff_sign_in),
    path("admin/", admin.site.urls),
    path("metrics", metrics, name="metrics"),
    # Asked for by browsers on pages that name no icon, such as the staff pages.
    path("favicon.ico", RedirectView.as_view(url=f"{settings.STATIC_URL}favicon.svg")),
    path("api/schema/", SchemaView.as_view(), name="schema"),
    path("api/docs/", DocsView.as_view(), name="docs"),
    path("api/v1/health/", HealthView.as_view(), name="health"),
    *routes_of("api.urls", "api/v1/"),
    *routes_of("urls", ""),
    *routes_of("pages.urls", ""),
]
