"""The addresses of the pages of agents."""

from __future__ import annotations

from django.urls import path

from agents.pages import providers

urlpatterns = [
    path("settings/providers/", providers.providers, name="providers"),
    path("settings/providers/<str:name>/", providers.provider_save, name="provider_save"),
    path("settings/providers/<str:name>/test/", providers.provider_test, name="provider_test"),
    path(
        "settings/providers/<str:name>/remove/", providers.provider_remove, name="provider_remove"
    ),
]
