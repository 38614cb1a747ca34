"""The paths of the pages of agents, environments and model providers."""

from __future__ import annotations

from django.urls import include, path

from agents.pages import agents, builder, canvas, environments, providers

build_urls = [
    path("", builder.agent_build, name="agent_build"),
    path("side/", builder.agent_build_side, name="agent_build_side"),
    path("save/", builder.agent_build_save, name="agent_build_save"),
    path("undo/", builder.agent_build_undo, name="agent_build_undo"),
    path("publish/", builder.agent_build_publish, name="agent_build_publish"),
    path("discard/", builder.agent_build_discard, name="agent_build_discard"),
    path("preview/", builder.agent_build_preview, name="agent_build_preview"),
]
environment_urls = [
    path("", environments.environments, name="environments"),
    path("new/", environments.environment_new, name="environment_new"),
    path("check/", environments.environments_check, name="environments_check"),
    path("<uuid:environment_id>/", environments.environment_edit, name="environment_edit"),
    path(
        "<uuid:environment_id>/delete/", environments.environment_delete, name="environment_delete"
    ),
]
provider_urls = [
    path("", providers.providers, name="providers"),
    path("<str:name>/", providers.provider_save, name="provider_save"),
    path("<str:name>/test/", providers.provider_test, name="provider_test"),
    path("<str:name>/use/", providers.provider_use, name="provider_use"),
    path("<str:name>/facts/", providers.provider_facts, name="provider_facts"),
    path("<str:name>/remove/", providers.provider_remove, name="provider_remove"),
]

urlpatterns = [
    path("agents/", agents.agents, name="agents"),
    path("agents/new/", agents.agent_new, name="agent_new"),
    path("agents/<uuid:agent_id>/build/", include(build_urls)),
    path("agents/<uuid:agent_id>/canvas/", canvas.agent_canvas, name="agent_canvas"),
    path("settings/environments/", include(environment_urls)),
    path("settings/providers/", include(provider_urls)),
]
