"""The URLs of every app."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from core.openapi import DocsView, SchemaView
from core.problems import staff_sign_in
from orchestrator.api.health import HealthView, metrics
from orchestrator.api.urls import unversioned_urlpatterns
from sessions_app.api.ag_ui import AgUiView
from tenants import plugin_routes

handler400 = "core.problems.bad_request"
handler403 = "core.problems.permission_denied"
handler404 = "core.problems.page_not_found"
handler500 = "core.problems.server_error"

urlpatterns: list[URLPattern | URLResolver] = [
    # Staff sign in on the same page as everyone else, so that failures are counted in one place.
    path("admin/login/", staff_sign_in),
    path("admin/", admin.site.urls),
    path("metrics", metrics, name="metrics"),
    # Browsers request it for pages that name no icon, such as the staff pages.
    path("favicon.ico", RedirectView.as_view(url=f"{settings.STATIC_URL}favicon.svg")),
    path("api/schema/", SchemaView.as_view(), name="schema"),
    path("api/docs/", DocsView.as_view(), name="docs"),
    path("api/v1/health/", HealthView.as_view(), name="health"),
    # First of the API, as programs mostly talk to sessions: every list tried before costs time.
    path("api/v1/", include("sessions_app.api.urls")),
    path("api/v1/", include("tenants.api.urls")),
    path("api/v1/", include("agents.api.urls")),
    path("api/v1/", include("tools_app.api.urls")),
    path("api/v1/", include("memory.api.urls")),
    path("api/v1/", include("orchestrator.api.urls")),
    *unversioned_urlpatterns,
    path("v1/", include("sessions_app.api.openai.urls")),
    path("ag-ui/<str:agent>/", AgUiView.as_view(), name="ag-ui"),
    path("", include("tenants.pages.urls")),
    path("", include("agents.pages.urls")),
    path("", include("tools_app.pages.urls")),
    path("", include("memory.pages.urls")),
    path("", include("sessions_app.pages.urls")),
    path("", include("orchestrator.pages.urls")),
    *plugin_routes.patterns(),
]
