"""The canvas of an agent: read, saved as numbered revisions, published.

Of two who save the same draft one wins, and the other is given the newer one. Nobody empties a
canvas by accident. Revisions never change; whoever watches hears of each once it is committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from agents.canvas_check import Complaint, check, errors_in, known_tools
from agents.graph import Graph
from agents.inputs import read_input
from agents.models import Agent, Canvas, CanvasRevision, DraftChange
from config import live
from config.faults import CanvasConflict, CanvasInvalid, Conflict, NotFound


@dataclass(frozen=True, kw_only=True)
class Author:
    """Who writes a revision: a person, or a call of a run."""

    user_id: UUID | None = None
    session_id: UUID | None = None
    run_id: UUID | None = None
    call_id: str = ""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A canvas as it stands."""

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
    """Who wrote it, as people and programs are told."""
    made = {"user_id": row.created_by_id, "session_id": row.session_id, "run_id": row.run_id}
    return {name: value and str(value) for name, value in made.items()}


def group_name(agent_id: UUID) -> str:
    return f"canvas.{agent_id}"


def read(agent: Agent) -> Drawn:
    """The draft as it is now. An agent begins with an empty one."""
    canvas = Canvas.objects.filter(agent=agent).first()
    return _drawn(canvas) if canvas else Drawn()


def validate(agent: Agent, graph: Graph) -> list[Complaint]:
    return check(graph, tools=known_tools(agent.workspace_id))


@transaction.atomic
def save(
    agent: Agent,
    *,
    nodes: object,
    edges: object,
    revision: int,
    author: Author,
    confirm_empty: bool = False,
) -> Drawn:
    """Write the next revision on top of the one that the writer has seen.

    No difference makes no revision.
    """
    graph = read_input(Graph, {"nodes": nodes, "edges": edges})
    canvas = hold(agent)
    now = _drawn(canvas)
    if revision != canvas.revision:
        raise CanvasConflict(newer=now.as_json())
    if graph == now.graph:
        return now
    if graph.is_empty and not confirm_empty:
        raise Conflict("This would empty the canvas. Say so with confirm_empty.")
    return _write(canvas, graph, author)


@transaction.atomic
def publish(agent: Agent, *, revision: int | None = None) -> Drawn:
    """Let the draft be what runs. Only a graph without errors is published."""
    canvas = hold(agent)
    now = _drawn(canvas)
    if revision not in (None, canvas.revision):
        raise CanvasConflict(newer=now.as_json())
    if errors := errors_in(validate(agent, now.graph)):
        raise CanvasInvalid(
            f"{len(errors)} things keep this canvas from running: {errors[0].message}",
            errors=[_field_error(one) for one in errors],
        )
    Canvas.objects.filter(pk=canvas.pk).update(published=canvas.revision, published_at=Now())
    canvas.refresh_from_db()
    _ring(canvas)
    return _drawn(canvas)


def _field_error(complaint: Complaint) -> dict[str, str]:
    node = complaint.node or ""
    pointer = f"#/nodes/{node}" if node else "#"
    said = {"message": complaint.message, "code": complaint.code}
    return {"field": node, "pointer": pointer, **said}


def published(agent: Agent) -> CanvasRevision:
    """What a run of this canvas follows."""
    canvas = Canvas.objects.filter(agent=agent).first()
    if canvas is None or canvas.published is None:
        raise NotFound("Nothing of this canvas is published yet.")
    return revision_of(agent, canvas.published)


def revision_of(agent: Agent, number: int) -> CanvasRevision:
    found = CanvasRevision.objects.filter(agent=agent, number=number).first()
    if found is None:
        raise NotFound(f"There is no revision {number}.")
    return found


def written_by(agent: Agent, author: Author) -> Drawn | None:
    """The canvas, if this very call has written it already, before its worker was lost."""
    rows = CanvasRevision.objects.filter(
        agent=agent, session_id=author.session_id, call_id=author.call_id
    )
    return read(agent) if author.call_id and rows.exists() else None


def hold(agent: Agent) -> Canvas:
    """The canvas, locked until the commit: what is read from here on is what is built on."""
    if agent.archived_at:
        raise Conflict("This agent was archived.")
    Canvas.objects.bulk_create(
        [Canvas(agent=agent, workspace_id=agent.workspace_id)], ignore_conflicts=True
    )
    return Canvas.objects.select_for_update(no_key=True).get(agent=agent)


def _drawn(canvas: Canvas) -> Drawn:
    written = CanvasRevision.objects.filter(agent=canvas.agent_id, number=canvas.revision).first()
    given = {"nodes": written.nodes, "edges": written.edges} if written else {}
    return Drawn(
        graph=Graph.model_validate(given),
        revision=canvas.revision,
        published=canvas.published,
        published_at=canvas.published_at,
        written=written,
    )


def _write(canvas: Canvas, graph: Graph, author: Author) -> Drawn:
    canvas.revision += 1
    shape = graph.model_dump(mode="json")
    CanvasRevision.objects.create(
        workspace_id=canvas.workspace_id,
        agent_id=canvas.agent_id,
        number=canvas.revision,
        created_by_id=author.user_id,
        session_id=author.session_id,
        run_id=author.run_id,
        call_id=author.call_id,
        **shape,
    )
    canvas.save(update_fields=["revision"])
    _ring(canvas)
    return _drawn(canvas)


def _ring(canvas: Canvas) -> None:
    """With the commit; viewers read the rows themselves."""
    live.send(group_name(canvas.agent_id), {"type": "canvas.changed"})
