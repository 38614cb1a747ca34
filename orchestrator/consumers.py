"""The WebSockets and streams of workflows and terminals.

A terminal's binary frames are what the shell wrote and what a person types. Text frames are JSON:
`resize` both ways, `ready` first (its `replay` says how many bytes of the past follow), `closed`
last, `ping` and `pong`. It closes with 4000 + the status that HTTP would answer: 4401 no identity,
4403 no right or no valid link, 4404 no such terminal, 4408 too slow, 4410 it is over, 4429 too many
viewers, 4503 its host is away. After 4408 and 4503 connect again: the replay shows what was missed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs
from uuid import UUID

from django.http import StreamingHttpResponse
from django.urls import path
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rest_framework.request import Request

from core.channel_layer import subscription
from core.db import read
from core.exceptions import Fault, NotFound, SlowViewer
from orchestrator.canvas.node_states import node_of
from orchestrator.engine.lifecycle import find_workflow
from orchestrator.engine.publisher import list_group, workflow_group
from orchestrator.exceptions import TerminalOver, TerminalsAway
from orchestrator.models import Workflow, WorkflowEvent
from orchestrator.terminals.client import HostConnection, watch
from orchestrator.terminals.terminals import TerminalAccess, grant_access, machine, renew_access
from sessions_app.api.events import STREAM_SCHEMA, LogStream
from sessions_app.consumers import LogConsumer
from sessions_app.live.frames import Body, Frame, encode, error_frame, iso_timestamp
from sessions_app.live.reader import FramePage, Log, LogState, PartialAnswer
from tenants.access import Principal, authorise, refresh_principal
from tenants.authentication import principal_of
from tenants.sockets import SEND_SECONDS, PumpedConsumer

PAGE_ROWS = 100
PING = '{"type":"ping"}'


def frame_of(event: WorkflowEvent) -> Body:
    """Return the frame of a stored event: its payload, origin and seq."""
    origin = {"workflow_id": str(event.workflow_id), "created_at": iso_timestamp(event.created_at)}
    facts = {**event.payload, **node_field(event)}
    return {**facts, "type": event.type, "metadata": origin, "seq": event.seq}


def node_field(event: WorkflowEvent) -> Body:
    """Return the node that an event of a canvas run is about."""
    node = node_of(getattr(event, "workflow_name", ""), event.payload.get("step"))
    return {"node": node} if node else {}


@dataclass(frozen=True, kw_only=True)
class WorkflowLog:
    """A workflow's log, as viewers follow it."""

    workflow_id: UUID

    @property
    def group(self) -> str:
        return workflow_group(self.workflow_id)

    def state(self) -> LogState:
        found = Workflow.objects.filter(pk=self.workflow_id).values_list("last_seq", flat=True)
        last_seq = found.first()
        if last_seq is None:
            raise NotFound
        return LogState(last_seq=last_seq, answer=None)

    def page(self, after: int) -> FramePage:
        rows = WorkflowEvent.objects.filter(workflow_id=self.workflow_id).after(after)[:PAGE_ROWS]
        frames = [Frame(text=encode(frame_of(row)), seq=row.seq) for row in rows]
        return FramePage(frames=frames, is_last=len(frames) < PAGE_ROWS)

    def delta(self, answer: PartialAnswer, offset: int) -> Frame:
        raise NotFound("A workflow has no draft of an answer.")

    @staticmethod
    def last_seqs(logs: Sequence[WorkflowLog]) -> dict[str, int]:
        """Return the last seq of each log, in one query."""
        rows = Workflow.objects.filter(pk__in=[log.workflow_id for log in logs])
        return {workflow_group(pk): seq for pk, seq in rows.values_list("pk", "last_seq")}


class WorkflowConsumer(LogConsumer):
    """Streams a workflow's log. It takes no commands but pings; close codes are as for sessions."""

    async def get_log(self) -> Log:
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


#: How often rights are checked again.
RIGHTS_SECONDS = 10.0
#: A busy workspace changes many times a second; changes are sent in batches.
GATHER_SECONDS = 0.5


class WorkflowListConsumer(PumpedConsumer):
    """Tells viewers that the list changed. It subscribes before the first frame, so none is missed."""

    async def send_frames(self) -> None:
        workspace_id = authorise(self.principal, "read")
        async with subscription(list_group(workspace_id)) as receive_news:
            await self.send_in_time(encode({"type": "workflows"}))
            while True:
                news = await receive_news(RIGHTS_SECONDS)
                if news is None:
                    await read(_check_read, self.principal)
                    continue
                await asyncio.sleep(GATHER_SECONDS)
                while await receive_news(0) is not None:
                    pass
                await self.send_in_time(encode({"type": "workflows"}))


def _check_read(principal: Principal) -> None:
    authorise(refresh_principal(principal), "read")


#: How often rights are checked while nothing is typed, and how old a check may be to type.
CHECK_SECONDS = 5.0
FRESH_SECONDS = 1.0
#: How many bytes may be typed or pasted in one frame.
MAX_TYPED = 256 * 1024


class Resize(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    type: Literal["resize"]
    cols: Annotated[int, Field(ge=2, le=500)]
    rows: Annotated[int, Field(ge=1, le=300)]


class TerminalConsumer(PumpedConsumer):
    """Relays a terminal between a browser and its host."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ready = asyncio.Event()
        self._access: TerminalAccess | None = None
        self._host: HostConnection | None = None
        self._checked = 0.0

    @property
    def terminal_id(self) -> UUID:
        return self.scope["url_route"]["kwargs"]["terminal_id"]

    async def send_frames(self) -> None:
        query = parse_qs(self.scope["query_string"].decode("latin1"))
        token = query.get("token", [""])[-1]
        access = await read(grant_access, self.principal, self.terminal_id, token)
        self._access, self._checked = access, time.monotonic()
        async with watch(self.terminal_id, may_write=access.may_write) as host:
            self._host = host
            checking = asyncio.create_task(self._check_often(host))
            try:
                await self._relay(host)
            finally:
                checking.cancel()

    async def _relay(self, host: HostConnection) -> None:
        while True:
            try:
                message = await host.next()
            except TerminalOver:
                if self._access and self._access.terminal.host != machine():
                    raise TerminalsAway("Another machine holds this terminal.") from None
                raise
            self._ready.set()
            if isinstance(message, bytes):
                await self._send(bytes_data=message)
            else:
                await self._send(text_data=json.dumps(message))
                if message["type"] == "closed":
                    raise TerminalOver(message["reason"])

    async def _send(self, **frame: Any) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self.send(**frame)
        except TimeoutError:
            raise SlowViewer from None

    async def _check_often(self, host: HostConnection) -> None:
        """Disconnect a viewer that loses its rights while nothing is typed."""
        try:
            while True:
                await asyncio.sleep(CHECK_SECONDS)
                await self._check()
        except TerminalOver:
            return  # the host reports it, with the last output of the shell
        except Fault as fault:
            await self.close_for(fault)
            host.close()

    async def _check(self) -> None:
        if self._access and time.monotonic() - self._checked > FRESH_SECONDS:
            self._access = await read(renew_access, self._access)
            self._checked = time.monotonic()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            body = bytes_data if bytes_data is not None else self._read(text_data or "")
            if body == {"type": "ping"}:
                await self._send(text_data='{"type": "pong"}')
            elif body is not None:
                await self._type(body)
        except Fault as fault:
            await self.close_for(fault)
        except (ValidationError, ValueError):
            await self._send_error("invalid", "Text frames must be resize or ping.")

    def _read(self, text: str) -> dict[str, Any]:
        message = json.loads(text[:1000])
        if message == {"type": "ping"}:
            return {"type": "ping"}
        return Resize.model_validate(message).model_dump()

    async def _type(self, body: bytes | dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._ready.wait()
                await self._check()
                if not (self._access and self._host and self._access.may_write):
                    await self._send_error(
                        "forbidden", "You can watch this terminal, but not type."
                    )
                elif len(body) > MAX_TYPED:
                    await self._send_error("too_large", "That is too much text to paste at once.")
                else:
                    await self._host.send(body)
        except TimeoutError:
            raise SlowViewer("The shell does not accept input.") from None

    async def _send_error(self, code: str, error: str) -> None:
        await self._send(text_data=json.dumps({"type": "error", "code": code, "error": error}))


websocket_urlpatterns = [
    path("ws/workflows/", WorkflowListConsumer.as_asgi(), name="workflow_list_socket"),
    path("ws/workflows/<str:workflow_id>/", WorkflowConsumer.as_asgi(), name="workflow_socket"),
    path("ws/terminals/<uuid:terminal_id>/", TerminalConsumer.as_asgi(), name="terminal_socket"),
]
