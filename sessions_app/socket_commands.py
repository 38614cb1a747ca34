"""What a client may say on a session's socket, and what it is answered.

`{"type": "user.message", "payload": {…}, "id": "client-id", "on_busy"?: …}` and the other `user.*`
types are answered by an `ack` with the event's seq, or by an `error`. The client's id makes the
sending idempotent: the same thing again under the same id gives the first answer, and another thing
is another event. `{"type": "ping"}` is answered by `pong`.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
from django.db import Error
from pydantic import BaseModel, Field, ValidationError, field_validator

from config.faults import Fault, StreamUnavailable, TooManyRequests, Unauthenticated
from config.field_errors import of_pydantic, told
from sessions_app.api.body import UNFIT, can_be_stored
from sessions_app.doors import accept_event, client_key
from sessions_app.frames import Body, ClientId, ack_frame, error_frame
from sessions_app.models import Run
from tenants.access import Principal
from tenants.off_loop import read
from tenants.rights import renewed
from tenants.throttle import spend_as
from tools_app.clip import storable_json

#: Characters of one command. The web server refuses frames that are much longer by itself.
LONGEST = 512_000


class Command(BaseModel):
    type: str = Field(max_length=64)
    payload: dict[str, Any] = Field(default_factory=dict)
    id: ClientId = None
    on_busy: str = Run.OnBusy.FOLLOWUP

    @field_validator("payload")
    @classmethod
    def made_fit(cls, payload: dict[str, Any]) -> dict[str, Any]:
        """As PostgreSQL can hold it: what it refuses within a text is replaced."""
        fit = storable_json(payload)
        if not can_be_stored(fit):
            raise ValueError(UNFIT)
        return fit


async def obey(principal: Principal, session_id: UUID, text: str | None) -> Body:
    """Do what the client asks and say how it went. Raises only when the identity is gone."""
    if text is None or len(text) > LONGEST:
        return error_frame(
            code="bad_frame", error=f"Send JSON as text, of at most {LONGEST:,} characters."
        )
    try:
        command = Command.model_validate_json(text)
    except ValidationError as error:
        return error_frame(code="invalid", error=told(of_pydantic(error)), id=id_in(text))
    if command.type == "ping":
        return {"type": "pong", "id": command.id}
    try:
        return await read(take, principal, session_id, command)
    except Unauthenticated:
        raise
    except Fault as fault:
        return error_frame(code=fault.code, error=fault.detail, id=command.id)
    except Error:
        return error_frame(
            code=StreamUnavailable.code,
            error="The database is out of reach. Send this again with the same id.",
            id=command.id,
        )


def id_in(text: str) -> ClientId:
    """The id of a command that is otherwise wrong, so that the client knows which."""
    try:
        said = orjson.loads(text)
    except ValueError:
        return None
    found = said.get("id") if isinstance(said, dict) else None
    return found if isinstance(found, str | int) else None


def take(principal: Principal, session_id: UUID, command: Command) -> Body:
    """Put the event into the log, with the rights that this identity has now."""
    if (wait := spend_as(principal).wait) > 0:
        raise TooManyRequests(retry_after=wait)
    accepted = accept_event(
        renewed(principal),
        session_id,
        type=command.type,
        payload=command.payload,
        on_busy=command.on_busy,
        dedupe_key=client_key(principal, command.id),
    )
    return ack_frame(
        id=command.id,
        seq=accepted.seq,
        event_id=str(accepted.event_id),
        run_id=accepted.run_id and str(accepted.run_id),
    )
