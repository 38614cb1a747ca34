"""URLs of the pages of workflows and terminals."""

from __future__ import annotations

from django.urls import path

from orchestrator.pages import terminals, triggers, workflow, workflows

urlpatterns = [
    path("workflows/", workflows.workflows, name="workflows"),
    path("workflows/new/", workflows.workflow_new, name="workflow_new"),
    path("workflows/triggers/new/", triggers.trigger_new, name="trigger_new"),
    path("workflows/triggers/<uuid:trigger_id>/", triggers.trigger, name="trigger"),
    path(
        "workflows/triggers/<uuid:trigger_id>/pause/", triggers.trigger_pause, name="trigger_pause"
    ),
    path(
        "workflows/triggers/<uuid:trigger_id>/resume/",
        triggers.trigger_resume,
        name="trigger_resume",
    ),
    path(
        "workflows/triggers/<uuid:trigger_id>/rotate/",
        triggers.trigger_rotate,
        name="trigger_rotate",
    ),
    path(
        "workflows/triggers/<uuid:trigger_id>/remove/",
        triggers.trigger_remove,
        name="trigger_remove",
    ),
    path("workflows/<uuid:workflow_id>/", workflow.workflow, name="workflow"),
    path("workflows/<uuid:workflow_id>/<str:act>/", workflow.workflow_act, name="workflow_act"),
    path("terminals/open/", terminals.terminal_open, name="terminal_open"),
    path("terminals/<uuid:terminal_id>/", terminals.terminal, name="terminal"),
    path("terminals/<uuid:terminal_id>/close/", terminals.terminal_close, name="terminal_close"),
    path("settings/terminals/", terminals.terminals, name="terminals"),
]
