"""Workflows that every workspace can try at once; they work with the demo provider too."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from agents.inputs import STORABLE, Input
from memory.models import MemoryEntry
from memory.owner import Owner, person
from memory.writing import write_entry
from orchestrator.canvas import running as canvas  # noqa: F401 - registers the workflow of canvases
from orchestrator.engine.definition import Event, Workflow, workflow
from orchestrator.engine.steps import Steps
from orchestrator.taskagent.execute import ExecuteTask
from orchestrator.taskagent.sessions import CreateSession

__all__ = ["Ask", "CreateSession", "Digest", "ExecuteTask", "Panel"]

Text = Annotated[str, Field(min_length=1, max_length=2_000), STORABLE]
Name = Annotated[str, Field(min_length=1, max_length=80), STORABLE]


class DigestParams(Input):
    topic: Text = Field(default="What is new in this workspace", title="Topic")
    agent: Name = Field(default="Concierge", title="Agent")


@workflow(name="digest")
class Digest(Workflow):
    """An agent drafts a digest, you approve it, and it is kept in memory."""

    params = DigestParams
    about = ("topic",)

    def run(self, event: Event, step: Steps) -> Any:
        asked = DigestParams.model_validate(event.payload)
        self.report_progress(f"{asked.agent} is drafting", percent=10, step="draft")
        draft = step.run_session(
            "draft",
            agent=asked.agent,
            message=f"Write a short digest, a few lines at most. Topic: {asked.topic}",
        )
        self.report_progress("The draft waits for you", percent=50, step="approve")
        answer = step.wait_for_approval(
            "approve", title=f"Keep this digest on “{asked.topic}”?", message=draft["text"]
        )
        self.report_progress("Keeping it", percent=90, step="keep")
        path = step.do("keep", lambda: keep(event, draft["text"]))
        self.report_progress("Kept", percent=100, step="keep", status="complete")
        return {"path": path, "text": draft["text"], "approved_by": answer["by"]}


def keep(event: Event, text: str) -> str:
    """The same workflow writes the same document, however often the step is tried."""
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
        asked = AskParams.model_validate(event.payload)
        answer = step.run_session("answer", agent=asked.agent, message=asked.message)
        return {"agent": asked.agent, "text": answer["text"], "session_id": answer["session_id"]}


class PanelParams(Input):
    question: Text = Field(default="What should we look at this week?", title="Question")
    agents: list[Name] = Field(
        default=["Concierge", "Researcher"], min_length=1, max_length=8, title="Agents"
    )
    pause_seconds: float = Field(default=1, ge=0, le=3600, title="Pause between two, in seconds")


@workflow(name="panel")
class Panel(Workflow):
    """Several agents answer the same question, each in a workflow of its own."""

    params = PanelParams
    about = ("question",)

    def run(self, event: Event, step: Steps) -> Any:
        asked = PanelParams.model_validate(event.payload)
        answers = []
        for nth, agent in enumerate(asked.agents):
            share = 100 * nth / len(asked.agents)
            self.report_progress(f"Asking {agent}", percent=share, step=f"ask {agent}")
            params = {"agent": agent, "message": asked.question}
            answers.append(step.spawn(f"ask {agent}", "ask", params))
            self.broadcast_to_clients({"agent": agent, "text": answers[-1]["text"]})
            if nth + 1 < len(asked.agents):
                step.sleep("pause", asked.pause_seconds)
        self.report_progress("Everybody has answered", percent=100, status="complete")
        return {"question": asked.question, "answers": answers}
