"""What a run is about, in a few words: the command, the question, or whose canvas it is."""

from __future__ import annotations

from typing import Any

from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import JSONObject, Left

from orchestrator.canvas.running import CANVAS
from orchestrator.engine.definition import registry
from orchestrator.models import Workflow

#: Characters of a param that are read, and of a subject that are shown.
READ, SHOWN = 400, 120


def about() -> JSONObject:
    """The beginnings of the params that tell, read without the rest, which may weigh much."""
    names = sorted({name for made in registry.values() for name in made.about})
    return JSONObject(**{name: Left(KeyTextTransform(name, "params"), READ) for name in names})


def subject_of(workflow: Workflow, told: dict[str, Any]) -> str:
    """On one line; nothing when the params say nothing of the kind."""
    if workflow.name == CANVAS:
        return f"Canvas of {workflow.agent}" if workflow.agent else ""
    made = registry.get((workflow.name, workflow.version))
    found = next((told[name] for name in made.about if told.get(name)), "") if made else ""
    words = " ".join(str(found)[:READ].split())
    return words if len(words) <= SHOWN else f"{words[: SHOWN - 1]}…"
