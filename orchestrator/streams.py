"""The log of a workflow for those who watch: frames over WebSocket and Server-Sent Events.

The rules are those of a session's stream: every stored event after a cursor, then what is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.http import StreamingHttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from config.faults import NotFound
from orchestrator.canvas.nodes import node_of
from orchestrator.engine.ringing import group_name
from orchestrator.engine.starting import find_workflow
from orchestrator.models import Workflow, WorkflowEvent
from sessions_app.consumers import LogConsumer
from sessions_app.encoding import Frame, encode
from sessions_app.frames import Body, at, error_frame
from sessions_app.reader import Answer, Log, Page, State
from sessions_app.sse import STREAM_SCHEMA, LogStream
from tenants.authentication import principal_of
from tenants.off_loop import read

PAGE_ROWS = 100
PING = '{"type":"ping"}'


def frame_of(event: WorkflowEvent) -> Body:
    """The frame of a stored event: its payload, where it belongs, and its number."""
    origin = {"workflow_id": str(event.workflow_id), "created_at": at(event.created_at)}
    facts = {**event.payload, **told_of(event)}
    return {**facts, "type": event.type, "metadata": origin, "seq": event.seq}


def told_of(event: WorkflowEvent) -> Body:
    """Of a canvas: which node it is about."""
    node = node_of(getattr(event, "workflow_name", ""), event.payload.get("step"))
    return {"node": node} if node else {}


@dataclass(frozen=True, kw_only=True)
class WorkflowLog:
    workflow_id: UUID

    @property
    def group(self) -> str:
        return group_name(self.workflow_id)

    def state(self) -> State:
        found = Workflow.objects.filter(pk=self.workflow_id).values_list("last_seq", flat=True)
        last_seq = found.first()
        if last_seq is None:
            raise NotFound
        return State(last_seq=last_seq, answer=None)

    def page(self, after: int) -> Page:
        rows = WorkflowEvent.objects.filter(workflow_id=self.workflow_id).after(after)[:PAGE_ROWS]
        frames = [Frame(text=encode(frame_of(row)), seq=row.seq) for row in rows]
        return Page(frames=frames, is_last=len(frames) < PAGE_ROWS)

    def delta(self, answer: Answer, offset: int) -> Frame:
        raise NotFound("A workflow has no answer in the making.")

    @staticmethod
    def heads(logs: Sequence[WorkflowLog]) -> dict[str, int]:
        """The last seq of each log, in one query for all."""
        rows = Workflow.objects.filter(pk__in=[log.workflow_id for log in logs])
        return {group_name(pk): seq for pk, seq in rows.values_list("pk", "last_seq")}


class WorkflowConsumer(LogConsumer):
    """Shows a workflow; nothing is taken in but a sign of life. The codes are those of sessions."""

    async def followed(self) -> Log:
        ref = self.scope["url_route"]["kwargs"]["workflow_id"]
        found = await read(find_workflow, self.principal, ref)
        return WorkflowLog(workflow_id=found.pk)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if text_data and text_data.replace(" ", "") == PING:
            await self.send(text_data=encode({"type": "pong"}))
            return
        await self.send(
            text_data=encode(error_frame(code="invalid", error="This socket takes no commands."))
        )


class WorkflowStream(LogStream):
    @extend_schema(operation_id="workflows_stream", **STREAM_SCHEMA)
    def get(self, request: Request, pk: str) -> StreamingHttpResponse:
        found = find_workflow(principal_of(request), pk)
        return self.stream(WorkflowLog(workflow_id=found.pk))
