"""Reads, saves and publishes the canvas of an agent as numbered, immutable revisions.

When two writers save on the same revision, one wins and the other gets the newer canvas in a
conflict. Emptying a canvas needs a confirmation. Viewers are notified on commit.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from agents.canvas.graph import Graph, Issue, errors_in, validate
from agents.exceptions import CanvasConflict, CanvasInvalid
from agents.models import Agent, Canvas, CanvasRevision, DraftChange
from core import channel_layer
from core.exceptions import Conflict, NotFound
from core.validation import read_input


@dataclass(frozen=True, kw_only=True)
class Author:
    """The author of a revision: a person, or a tool call of a run."""

    user_id: UUID | None = None
    session_id: UUID | None = None
    run_id: UUID | None = None
    call_id: str = ""

    @property
    def columns(self) -> dict[str, Any]:
        """Return the author as the columns of a revision or a change."""
        ids = asdict(self)
        return {"created_by_id": ids.pop("user_id"), **ids}


@dataclass(frozen=True, kw_only=True)
class CanvasState:
    """A canvas as it is now."""

    graph: Graph = field(default_factory=Graph)
    revision: int = 0
    published: int | None = None
    published_at: datetime | None = None
    written: CanvasRevision | None = None

    def as_json(self) -> dict[str, Any]:
        written = self.written
        author = author_of(written) if written else None
        return {
            **self.graph.model_dump(mode="json"),
            "revision": self.revision,
            "published_revision": self.published,
            "published_at": self.published_at and self.published_at.isoformat(),
            "author": author,
            "created_by": author and author["user_id"],
            "created_at": written.created_at.isoformat() if written else None,
        }


def author_of(row: CanvasRevision | DraftChange) -> dict[str, Any]:
    """Return the author of a revision as REST and WebSockets show it."""
    ids = {"user_id": row.created_by_id, "session_id": row.session_id, "run_id": row.run_id}
    return {name: value and str(value) for name, value in ids.items()}


def canvas_group(agent_id: UUID) -> str:
    return f"canvas.{agent_id}"


def read(agent: Agent) -> CanvasState:
    """Return the newest revision of the canvas. A new agent's canvas is empty."""
    canvas = Canvas.objects.filter(agent=agent).first()
    return _state(canvas) if canvas else CanvasState()


@transaction.atomic
def save(
    agent: Agent,
    *,
    nodes: object,
    edges: object,
    revision: int,
    author: Author,
    confirm_empty: bool = False,
) -> CanvasState:
    """Save the next revision on top of `revision`, the one that the writer has seen.

    An unchanged graph makes no revision. Raise CanvasConflict if `revision` is not the newest.
    """
    graph = read_input(Graph, {"nodes": nodes, "edges": edges})
    canvas = lock(agent)
    now = _state(canvas)
    if revision != canvas.revision:
        raise CanvasConflict(newer=now.as_json())
    if graph == now.graph:
        return now
    if graph.is_empty and not confirm_empty:
        raise Conflict("This would empty the canvas. Confirm it with confirm_empty.")
    return _write(canvas, graph, author)


@transaction.atomic
def publish(agent: Agent, *, tools: Collection[str], revision: int | None = None) -> CanvasState:
    """Publish the newest revision, so that runs follow it.

    Raise CanvasInvalid if the graph has errors. `tools` are the names of the workspace's tools.
    """
    canvas = lock(agent)
    now = _state(canvas)
    if revision not in (None, canvas.revision):
        raise CanvasConflict(newer=now.as_json())
    if errors := errors_in(validate(now.graph, tools=tools)):
        raise CanvasInvalid(
            f"{len(errors)} errors keep this canvas from running: {errors[0].message}",
            errors=[_field_error(one) for one in errors],
        )
    Canvas.objects.filter(pk=canvas.pk).update(published=canvas.revision, published_at=Now())
    canvas.refresh_from_db()
    _notify_viewers(canvas)
    return _state(canvas)


def _field_error(issue: Issue) -> dict[str, str]:
    node = issue.node or ""
    pointer = f"#/nodes/{node}" if node else "#"
    return {"field": node, "pointer": pointer, "message": issue.message, "code": issue.code}


def published_revision(agent: Agent) -> CanvasRevision:
    """Return the revision that runs of this canvas follow. Raise NotFound if there is none."""
    canvas = Canvas.objects.filter(agent=agent).first()
    if canvas is None or canvas.published is None:
        raise NotFound("This canvas has not been published yet.")
    return get_revision(agent, canvas.published)


def get_revision(agent: Agent, number: int) -> CanvasRevision:
    rows = CanvasRevision.objects.filter(agent=agent)
    return rows.find(f"There is no revision {number}.", number=number)


def written_by(agent: Agent, author: Author) -> CanvasState | None:
    """Return the canvas if this tool call wrote it already, before its worker was lost."""
    rows = CanvasRevision.objects.filter(
        agent=agent, session_id=author.session_id, call_id=author.call_id
    )
    return read(agent) if author.call_id and rows.exists() else None


def lock(agent: Agent) -> Canvas:
    """Return the canvas, locked until the transaction ends."""
    if agent.archived_at:
        raise Conflict("This agent was archived.")
    Canvas.objects.bulk_create(
        [Canvas(agent=agent, workspace_id=agent.workspace_id)], ignore_conflicts=True
    )
    return Canvas.objects.select_for_update(no_key=True).get(agent=agent)


def _state(canvas: Canvas) -> CanvasState:
    written = CanvasRevision.objects.filter(agent=canvas.agent_id, number=canvas.revision).first()
    given = {"nodes": written.nodes, "edges": written.edges} if written else {}
    return CanvasState(
        graph=Graph.model_validate(given),
        revision=canvas.revision,
        published=canvas.published,
        published_at=canvas.published_at,
        written=written,
    )


def _write(canvas: Canvas, graph: Graph, author: Author) -> CanvasState:
    canvas.revision += 1
    CanvasRevision.objects.create(
        workspace_id=canvas.workspace_id,
        agent_id=canvas.agent_id,
        number=canvas.revision,
        **author.columns,
        **graph.model_dump(mode="json"),
    )
    canvas.save(update_fields=["revision"])
    _notify_viewers(canvas)
    return _state(canvas)


def _notify_viewers(canvas: Canvas) -> None:
    """Tell viewers on commit that there is a new revision, which they then read."""
    channel_layer.send(canvas_group(canvas.agent_id), {"type": "canvas.changed"})
