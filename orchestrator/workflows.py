"""Workflows that every workspace can try at once; they also work with the demo provider."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from core.validation import STORABLE, Input
from memory.documents import write_entry
from memory.models import MemoryEntry
from memory.ownership import Owner, person
from orchestrator.canvas import run as canvas  # noqa: F401 - registers the workflow of canvases
from orchestrator.engine.definition import Event, Workflow, workflow
from orchestrator.engine.steps import Steps
from orchestrator.tasks.execute import CreateSession, ExecuteTask
from orchestrator.transfers import (
    ExportMemory,
    ExportSession,
    ImportMemory,
    ImportSession,
    ReembedMemory,
)

__all__ = [
    "Ask",
    "CreateSession",
    "Digest",
    "ExecuteTask",
    "ExportMemory",
    "ExportSession",
    "ImportMemory",
    "ImportSession",
    "Panel",
    "ReembedMemory",
]

Text = Annotated[str, Field(min_length=1, max_length=2_000), STORABLE]
Name = Annotated[str, Field(min_length=1, max_length=80), STORABLE]


class DigestParams(Input):
    topic: Text = Field(default="What is new in this workspace", title="Topic")
    agent: Name = Field(default="Concierge", title="Agent")


@workflow(name="digest")
class Digest(Workflow):
    """An agent drafts a digest, you approve it, and it is saved to memory."""

    params = DigestParams
    about = ("topic",)

    def run(self, event: Event, step: Steps) -> Any:
        params = DigestParams.model_validate(event.payload)
        self.report_progress(f"{params.agent} is drafting", percent=10, step="draft")
        draft = step.run_session(
            "draft",
            agent=params.agent,
            message=f"Write a short digest, a few lines at most. Topic: {params.topic}",
        )
        self.report_progress("The draft is waiting for your approval", percent=50, step="approve")
        answer = step.wait_for_approval(
            "approve", title=f"Save this digest on “{params.topic}”?", message=draft["text"]
        )
        self.report_progress("Saving the digest", percent=90, step="keep")
        path = step.do("keep", lambda: save_digest(event, draft["text"]))
        self.report_progress("Saved", percent=100, step="keep", status="complete")
        return {"path": path, "text": draft["text"], "approved_by": answer["by"]}


def save_digest(event: Event, text: str) -> str:
    """Write the digest to memory. Every attempt of the workflow writes the same document."""
    path = f"digests/{event.created_at:%Y-%m-%d}-{str(event.id)[-6:]}.md"
    entry = write_entry(
        owner=_workspace(event.workspace_id),
        path=path,
        content=f"# Digest of {event.created_at:%Y-%m-%d}\n\n{text}\n",
        author=person(event.created_by_id),
    )
    return entry.path


def _workspace(workspace_id: UUID) -> Owner:
    scope = MemoryEntry.Scope.WORKSPACE
    return Owner(workspace_id=workspace_id, scope=scope, owner_id=workspace_id)


class AskParams(Input):
    agent: Name = Field(default="Concierge", title="Agent")
    message: Text = Field(default="What can you do?", title="Message")


@workflow(name="ask")
class Ask(Workflow):
    """One agent answers one message."""

    params = AskParams
    about = ("message",)

    def run(self, event: Event, step: Steps) -> Any:
        params = AskParams.model_validate(event.payload)
        answer = step.run_session("answer", agent=params.agent, message=params.message)
        return {"agent": params.agent, "text": answer["text"], "session_id": answer["session_id"]}


class PanelParams(Input):
    question: Text = Field(default="What should we look at this week?", title="Question")
    agents: list[Name] = Field(
        default=["Concierge", "Researcher"], min_length=1, max_length=8, title="Agents"
    )
    pause_seconds: float = Field(default=1, ge=0, le=3600, title="Pause between agents, in seconds")


@workflow(name="panel")
class Panel(Workflow):
    """Several agents answer the same question, each in its own workflow."""

    params = PanelParams
    about = ("question",)

    def run(self, event: Event, step: Steps) -> Any:
        params = PanelParams.model_validate(event.payload)
        answers = []
        for nth, agent in enumerate(params.agents):
            percent = 100 * nth / len(params.agents)
            self.report_progress(f"Asking {agent}", percent=percent, step=f"ask {agent}")
            message = {"agent": agent, "message": params.question}
            answers.append(step.spawn(f"ask {agent}", "ask", message))
            self.broadcast_to_clients({"agent": agent, "text": answers[-1]["text"]})
            if nth + 1 < len(params.agents):
                step.sleep("pause", params.pause_seconds)
        self.report_progress("All agents have answered", percent=100, status="complete")
        return {"question": params.question, "answers": answers}
