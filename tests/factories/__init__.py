"""Creates one row of any model, for tests that iterate over all models.

A new model needs one line in `FACTORIES`; those tests fail until it has one.
"""

from __future__ import annotations

from django.apps import apps
from django.db.models import Model

from config.settings.base import APPS
from tenants.models import Workspace
from tests.factories.agents import FACTORIES as AGENTS
from tests.factories.agents import agent
from tests.factories.base import Factory, numbers, user
from tests.factories.memory import FACTORIES as MEMORY
from tests.factories.memory import memory
from tests.factories.orchestrator import FACTORIES as ORCHESTRATOR
from tests.factories.orchestrator import step, trigger, workflow
from tests.factories.sessions_app import FACTORIES as SESSIONS_APP
from tests.factories.sessions_app import approval, event, execution, run, schedule, session
from tests.factories.tenants import FACTORIES as TENANTS
from tests.factories.tenants import delivery, inbox_item, webhook
from tests.factories.tools_app import FACTORIES as TOOLS_APP

__all__ = [
    "Factory",
    "agent",
    "approval",
    "delivery",
    "event",
    "execution",
    "inbox_item",
    "make",
    "memory",
    "numbers",
    "our_models",
    "run",
    "schedule",
    "session",
    "step",
    "trigger",
    "user",
    "webhook",
    "workflow",
]

FACTORIES = TENANTS | AGENTS | TOOLS_APP | MEMORY | SESSIONS_APP | ORCHESTRATOR


def our_models() -> list[type[Model]]:
    """Return every model of our apps except the history models."""
    return [
        model
        for app in APPS
        for model in apps.get_app_config(app).get_models()
        if not hasattr(model, "instance_type")
    ]


def make(model: type[Model], workspace: Workspace) -> Model:
    """Create a row, in this workspace if the model has one."""
    label = model._meta.label
    if label not in FACTORIES:
        raise AssertionError(f"{label} has no factory: add one line to FACTORIES in {__name__}.")
    return FACTORIES[label](workspace)
