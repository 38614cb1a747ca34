"""WebSocket consumers of sessions and of a workspace's approvals.

A socket closes with 4000 + the status that HTTP would answer: 4401 for a missing or revoked
identity, 4403 for a missing permission, 4404 for a session that this identity cannot see.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

import orjson
from django.db import Error
from django.urls import path
from pydantic import BaseModel, Field, ValidationError, field_validator

from core.channel_layer import subscription
from core.db import read
from core.exceptions import Fault, TooManyRequests, Unauthenticated
from core.validation import UNFIT, can_be_stored, describe_errors, pydantic_errors, storable_json
from core.websocket import WRITE_FRAME
from sessions_app.accept import accept_event, client_dedupe_key
from sessions_app.api.approvals import RELATED, ApprovalSerializer
from sessions_app.approvals.approvals import approvals_group, count_pending
from sessions_app.exceptions import StreamUnavailable
from sessions_app.live.frames import Body, ClientId, ack_frame, encode, error_frame
from sessions_app.live.hub import WriteNow, open_viewer
from sessions_app.live.reader import Log, SessionLog, parse_cursor
from sessions_app.models import Approval, Run
from sessions_app.sessions import find_session
from tenants.access import Principal, authorise, refresh_principal
from tenants.authentication import spend_as
from tenants.sockets import PumpedConsumer

#: Characters of one command. The web server itself refuses frames that are much longer.
MAX_COMMAND_LENGTH = 512_000
#: How often the approvals socket looks for lost notifications and revoked permissions.
POLL_SECONDS = 10.0


class LogConsumer(PumpedConsumer):
    """Sends every stored event of a log after `?after=SEQ` in order, each once, then live frames."""

    async def get_log(self) -> Log:
        """Return the log that this socket shows, or raise if its viewer may not see it."""
        raise NotImplementedError

    async def send_frames(self) -> None:
        query = parse_qs(self.scope["query_string"].decode("latin1"))
        after = parse_cursor(query.get("after", ["0"])[-1])
        followed = await self.get_log()
        async with open_viewer(
            followed, after=after, principal=self.principal, write_now=self._write_now()
        ) as viewer:
            while True:
                await self.send_in_time(*(frame.text for frame in await viewer.next()))

    def _write_now(self) -> WriteNow | None:
        """Return a function that writes a frame at once, if the server offers one."""
        write = self.scope.get("extensions", {}).get(WRITE_FRAME)
        return write and (lambda frame: write(frame.websocket_bytes))


class SessionConsumer(LogConsumer):
    @property
    def session_id(self) -> UUID:
        return self.scope["url_route"]["kwargs"]["session_id"]

    async def get_log(self) -> Log:
        await read(find_session, self.principal, self.session_id)
        return SessionLog(session_id=self.session_id)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            reply = await run_command(self.principal, self.session_id, text_data)
        except Unauthenticated as fault:
            await self.close_for(fault)
        else:
            await self.send(text_data=encode(reply))


class Command(BaseModel):
    """A command that a client sends on a session's socket.

    `{"type": "user.message", "payload": {…}, "id": "client-id", "on_busy"?: …}` and the other
    `user.*` types are answered by an `ack` with the event's seq, or by an `error`. The client's id
    makes a command idempotent: the same command again with the same id gets the first reply.
    `{"type": "ping"}` is answered by `pong`.
    """

    type: str = Field(max_length=64)
    payload: dict[str, Any] = Field(default_factory=dict)
    id: ClientId = None
    on_busy: str = Run.OnBusy.FOLLOWUP

    @field_validator("payload")
    @classmethod
    def make_storable(cls, payload: dict[str, Any]) -> dict[str, Any]:
        """Replace characters that PostgreSQL refuses within a text."""
        storable = storable_json(payload)
        if not can_be_stored(storable):
            raise ValueError(UNFIT)
        return storable


async def run_command(principal: Principal, session_id: UUID, text: str | None) -> Body:
    """Run a client's command and return the reply. Raise only if the identity was revoked."""
    if text is None or len(text) > MAX_COMMAND_LENGTH:
        return error_frame(
            code="bad_frame", error=f"Send JSON as text, at most {MAX_COMMAND_LENGTH:,} characters."
        )
    try:
        command = Command.model_validate_json(text)
    except ValidationError as error:
        return error_frame(
            code="invalid", error=describe_errors(pydantic_errors(error)), id=_client_id(text)
        )
    if command.type == "ping":
        return {"type": "pong", "id": command.id}
    try:
        return await read(_accept_command, principal, session_id, command)
    except Unauthenticated:
        raise
    except Fault as fault:
        return error_frame(code=fault.code, error=fault.detail, id=command.id)
    except Error:
        return error_frame(
            code=StreamUnavailable.code,
            error="The database is unavailable. Send this again with the same id.",
            id=command.id,
        )


def _client_id(text: str) -> ClientId:
    """Return the id of an invalid command, so that the client knows which one failed."""
    try:
        body = orjson.loads(text)
    except ValueError:
        return None
    client_id = body.get("id") if isinstance(body, dict) else None
    return client_id if isinstance(client_id, str | int) else None


def _accept_command(principal: Principal, session_id: UUID, command: Command) -> Body:
    """Append the command's event to the log, with the permissions that the identity has now."""
    if (wait := spend_as(principal).wait) > 0:
        raise TooManyRequests(retry_after=wait)
    accepted = accept_event(
        refresh_principal(principal),
        session_id,
        type=command.type,
        payload=command.payload,
        on_busy=command.on_busy,
        dedupe_key=client_dedupe_key(principal, command.id),
    )
    return ack_frame(
        id=command.id,
        seq=accepted.seq,
        event_id=str(accepted.event_id),
        run_id=accepted.run_id and str(accepted.run_id),
    )


class ApprovalConsumer(PumpedConsumer):
    """Sends how many approvals are pending, and each approval as it changes.

    Every frame is `{"type": "approvals", "pending": N, "approval": {…} or null}`. Answers go over
    REST. The consumer joins the group before it reads, so no change in between is missed.
    """

    async def send_frames(self) -> None:
        workspace_id = authorise(self.principal, "read")
        async with subscription(approvals_group(workspace_id)) as receive:
            pending = await self._send_change(None)
            while True:
                message = await receive(POLL_SECONDS)
                if message is not None:
                    # A message without an id says that notifications were lost.
                    changed = UUID(message["id"]) if message.get("id") else None
                    pending = await self._send_change(changed)
                elif await read(_count_if_allowed, self.principal) != pending:
                    pending = await self._send_change(None)

    async def _send_change(self, changed: UUID | None) -> int:
        try:
            body = await read(_approvals_frame, self.principal, changed)
        except Error as error:
            raise StreamUnavailable from error
        await self.send_in_time(encode(body))
        return int(body["pending"])


def _approvals_frame(principal: Principal, changed: UUID | None) -> Body:
    workspace_id = authorise(principal, "read")
    approval = None
    if changed:
        rows = Approval.objects.for_workspace(workspace_id).select_related(*RELATED)
        approval = rows.filter(pk=changed).first()
    context = {"may_run": principal.may("run")}
    return {
        "type": "approvals",
        "pending": count_pending(workspace_id),
        "approval": ApprovalSerializer(approval, context=context).data if approval else None,
    }


def _count_if_allowed(principal: Principal) -> int:
    """Return the number of pending approvals, or raise if the permission was revoked."""
    return count_pending(authorise(refresh_principal(principal), "read"))


websocket_urlpatterns = [
    path("ws/approvals/", ApprovalConsumer.as_asgi(), name="approval_socket"),
    path("ws/sessions/<uuid:session_id>/", SessionConsumer.as_asgi(), name="session_socket"),
]
