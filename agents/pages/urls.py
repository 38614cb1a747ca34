"""The paths of the pages of agents, environments and model providers."""

from __future__ import annotations

from django.urls import path

from agents.pages import agents, builder, environments, providers

urlpatterns = [
    path("agents/", agents.agents, name="agents"),
    path("agents/new/", agents.agent_new, name="agent_new"),
    path("agents/<uuid:agent_id>/build/", builder.agent_build, name="agent_build"),
    path("agents/<uuid:agent_id>/build/side/", builder.agent_build_side, name="agent_build_side"),
    path("agents/<uuid:agent_id>/build/save/", builder.agent_build_save, name="agent_build_save"),
    path("agents/<uuid:agent_id>/build/undo/", builder.agent_build_undo, name="agent_build_undo"),
    path(
        "agents/<uuid:agent_id>/build/publish/",
        builder.agent_build_publish,
        name="agent_build_publish",
    ),
    path(
        "agents/<uuid:agent_id>/build/discard/",
        builder.agent_build_discard,
        name="agent_build_discard",
    ),
    path(
        "agents/<uuid:agent_id>/build/preview/",
        builder.agent_build_preview,
        name="agent_build_preview",
    ),
    path("settings/environments/", environments.environments, name="environments"),
    path("settings/environments/new/", environments.environment_new, name="environment_new"),
    path(
        "settings/environments/check/", environments.environments_check, name="environments_check"
    ),
    path(
        "settings/environments/<uuid:environment_id>/",
        environments.environment_edit,
        name="environment_edit",
    ),
    path(
        "settings/environments/<uuid:environment_id>/delete/",
        environments.environment_delete,
        name="environment_delete",
    ),
    path("settings/providers/", providers.providers, name="providers"),
    path("settings/providers/<str:name>/", providers.provider_save, name="provider_save"),
    path("settings/providers/<str:name>/test/", providers.provider_test, name="provider_test"),
    path(
        "settings/providers/<str:name>/remove/", providers.provider_remove, name="provider_remove"
    ),
]
