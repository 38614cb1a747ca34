"""One exchange with an agent: what a client sends, and what follows until the agent is done or needs
an answer. Doors of other protocols are built on it.

Such protocols send a whole conversation with every request. A conversation without a key becomes a new
session that begins with the earlier messages. The results of tools that the client ran go to the
session whose calls they answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson

from agents.definitions import find_agent
from agents.models import Agent
from core.db import read
from core.exceptions import Conflict, Invalid, NotFound
from core.ids import uuid7
from sessions_app import runtime
from sessions_app.accept import accept_event
from sessions_app.lanes.run_queue import Accepted
from sessions_app.lanes.signals import FINISHED
from sessions_app.live.frames import Body, event_frame
from sessions_app.live.hub import open_viewer
from sessions_app.live.reader import SessionLog
from sessions_app.log.transfer import create_from_events
from sessions_app.models import Run, Session, SessionEvent, ToolExecution
from sessions_app.sessions import authorise_session, cancel_run, use_version
from tenants.access import Principal, Verb, authorise
from tenants.sockets import counted_socket

EventType = SessionEvent.Type
#: How long an exchange is silent before the reader hears that it is still open.
PING_SECONDS = 15.0
#: What stands in for a message where a conversation ends with results that answer no waiting call.
GO_ON = "Go on with these results."


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """Something that was sent to a session, and the run that answers it."""

    session_id: UUID
    run_id: UUID
    #: The answer begins after this seq.
    after: int
    #: What the turn does differently from its agent; see `RunOverrides`.
    overrides: dict[str, Any] = field(default_factory=dict)

    @property
    def client_tools(self) -> set[str]:
        """The names of the tools that the client runs."""
        return {one["name"] for one in self.overrides.get("client_tools") or ()}


@dataclass(frozen=True, kw_only=True)
class PastMessage:
    """An earlier message of a conversation, which the client brings along."""

    role: str  #: `user` or `assistant`.
    text: str
    calls: Sequence[PastCall] = ()


@dataclass(frozen=True, kw_only=True)
class PastCall:
    """An earlier call of one of the client's tools, with its result."""

    call_id: str
    name: str
    input: dict[str, Any]
    output: Any


def ask(
    principal: Principal,
    agent: Agent | UUID | str,
    text: str,
    *,
    past: Sequence[PastMessage] = (),
    session: Session | None = None,
    session_key: str | None = None,
    version: int | None = None,
    metadata: dict[str, Any] | None = None,
    overrides: dict[str, Any] | None = None,
    dedupe_key: str | None = None,
) -> Exchange:
    """Send a message to a session: the given one, that of the key, or a new one with this past."""
    if session is None:
        session = _session_for(principal, agent, past, session_key, metadata)
    if version is not None:
        use_version(session, version)
    accepted = runtime.append_message(
        session, text, principal=principal, overrides=overrides, dedupe_key=dedupe_key
    )
    if accepted.run_id is None:
        raise Invalid("This message was sent before, and its run is gone.")
    return Exchange(
        session_id=session.pk,
        run_id=accepted.run_id,
        after=accepted.seq,
        overrides=overrides or {},
    )


def _session_for(
    principal: Principal,
    agent: Agent | UUID | str,
    past: Sequence[PastMessage],
    session_key: str | None,
    metadata: dict[str, Any] | None,
) -> Session:
    if session_key or not past:
        session, _ = runtime.get_or_create_session(
            agent, session_key, principal=principal, metadata=metadata
        )
        return session
    found = find_agent(authorise(principal, "run"), agent.pk if isinstance(agent, Agent) else agent)
    events = [event for message in past for event in _events_of(message)]
    return create_from_events(
        found, events, title="", metadata=metadata, created_by_id=principal.user_id
    )


def _events_of(message: PastMessage) -> list[dict[str, Any]]:
    """Return an earlier message as events, in the form of an import."""
    if message.role == "user":
        return [{"type": EventType.USER_MESSAGE, "payload": {"text": message.text}}]
    events: list[dict[str, Any]] = []
    if message.text:
        events.append({"type": EventType.AGENT_MESSAGE, "payload": {"text": message.text}})
    ids = [f"tu_{uuid7().hex}" for _ in message.calls]
    for call_id, call in zip(ids, message.calls, strict=True):
        facts = {"name": call.name, "input": call.input, "ownership": "custom"}
        payload = {"tool_use_id": call_id, **facts, "decision": "allow", "decided_by": "client"}
        events.append({"type": EventType.AGENT_CUSTOM_TOOL_USE, "payload": payload})
    for call_id, call in zip(ids, message.calls, strict=True):
        result = {"name": call.name, "state": "completed", "output": call.output, "error": ""}
        payload = {"tool_use_id": call_id, **result}
        events.append({"type": EventType.AGENT_TOOL_RESULT, "payload": payload})
    return events


def answer_calls(principal: Principal, results: Mapping[str, Any]) -> Exchange | None:
    """Give the results of calls to the session that waits for them. Return None if none waits.

    A session waits for all of its calls, so all of them have to be answered together.
    """
    workspace_id = authorise(principal, "run")
    calls = ToolExecution.objects.for_workspace(workspace_id).filter(
        tool_use_id__in=list(results), ownership="custom", state=ToolExecution.State.RUNNING
    )
    session_ids = set(calls.values_list("session_id", flat=True))
    if len(session_ids) != 1:
        return None
    [session_id] = session_ids
    open_calls = ToolExecution.objects.filter(
        session=session_id, ownership="custom", state=ToolExecution.State.RUNNING
    )
    waiting = dict(open_calls.order_by("pk").values_list("tool_use_id", "name"))
    if missing := [
        f"{call_id} ({waiting[call_id]})" for call_id in waiting if call_id not in results
    ]:
        raise Invalid(f"These calls have no result: {', '.join(missing)}.")
    return _answer(principal, session_id, {one: results[one] for one in waiting})


def _answer(principal: Principal, session_id: UUID, results: Mapping[str, Any]) -> Exchange | None:
    accepted = None
    for call_id, output in results.items():
        payload = {"tool_use_id": call_id, "output": output}
        accepted = accept_event(
            principal, session_id, type=EventType.USER_CUSTOM_TOOL_RESULT, payload=payload
        )
    if accepted is None or accepted.run_id is None:
        return None
    return resumed(session_id, accepted)


def resumed(session_id: UUID, accepted: Accepted) -> Exchange:
    """Return the exchange that an answer began: it goes on with the turn that waited."""
    if accepted.run_id is None:
        raise Invalid("The agent waits for other answers too. Send all of them in one request.")
    return Exchange(
        session_id=session_id,
        run_id=accepted.run_id,
        after=accepted.seq,
        overrides=_overrides_of(Run.objects.get(pk=accepted.run_id)),
    )


def find_exchange(principal: Principal, run_id: UUID, verb: Verb = "read") -> Exchange:
    """Return the exchange that this run answers, if this principal may do `verb` with its session."""
    workspace_id = authorise(principal, verb)
    rows = Run.objects.for_workspace(workspace_id).select_related("session")
    run = rows.filter(pk=run_id).first()
    if run is None:
        raise NotFound
    authorise_session(principal, run.session, verb)
    first = SessionEvent.objects.filter(session=run.session_id, run=run_id).order_by("seq").first()
    after = first.seq - 1 if first else run.session.last_seq
    return Exchange(
        session_id=run.session_id, run_id=run_id, after=after, overrides=_overrides_of(run)
    )


def _overrides_of(run: Run) -> dict[str, Any]:
    """Return the overrides of the turn that this run belongs to: those of its first run."""
    if not run.resumes:
        return dict(run.wishes)
    turns = Run.objects.filter(session=run.session_id, resumes=False, purpose=Run.Purpose.TURN)
    begun = turns.filter(started_at__isnull=False, pk__lt=run.pk).order_by("-started_at").first()
    return dict(begun.wishes) if begun else {}


# ── What follows ─────────────────────────────────────────────────────────────────────────────────


@dataclass(kw_only=True)
class Extent:
    """Tells which frames of a session belong to an exchange, and when it is over."""

    exchange: Exchange
    #: The names of tools that the client of this exchange runs.
    client_tools: Collection[str] = ()
    #: Whether the exchange ends when a person has to allow a call, or waits for the answer.
    ends_at_approval: bool = False
    begun: bool = False
    stop_reason: str = ""
    #: Runs of this exchange: a run that waits is resumed by another one.
    runs: set[str] = field(default_factory=set)
    #: Calls without a result, by id.
    calls: dict[str, Body] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return bool(self.stop_reason)

    def takes(self, frame: Body) -> bool:
        """Take in the next frame of the session. Return whether it belongs to the exchange."""
        facts = frame.get("metadata") or {}
        starts = frame["type"] == "lifecycle" and frame.get("phase") == "start"
        if starts and facts.get("run_id") == str(self.exchange.run_id):
            self.begun = True
        if not self.begun or self.is_over:
            return False
        if run_id := facts.get("run_id"):
            self.runs.add(run_id)
        match facts.get("event_type"):
            case EventType.AGENT_TOOL_USE | EventType.AGENT_CUSTOM_TOOL_USE:
                self.calls[facts["tool_use_id"]] = frame
            case EventType.AGENT_TOOL_RESULT:
                self.calls.pop(facts["tool_use_id"], None)
            case EventType.STATUS_IDLE:
                self._settle(facts)
            case _:
                pass
        return True

    def _settle(self, facts: Body) -> None:
        reason = facts["stop_reason"]
        blocking = [self.calls[one] for one in facts.get("blocking") or () if one in self.calls]
        waits = reason == "requires_action" and not any(map(self._ends_with, blocking))
        self.stop_reason = "" if waits else reason

    def _ends_with(self, call: Body) -> bool:
        return self.is_for_client(call) or (self.ends_at_approval and self.asks(call))

    def is_for_client(self, call: Body) -> bool:
        """Return whether the client has to run this call now."""
        is_custom = call["metadata"]["event_type"] == EventType.AGENT_CUSTOM_TOOL_USE
        return is_custom and call["tool_name"] in self.client_tools and not self.asks(call)

    def asks(self, call: Body) -> bool:
        return call["metadata"].get("decision") == "ask"


async def follow(
    extent: Extent, principal: Principal, *, stops: bool = False
) -> AsyncIterator[Body | None]:
    """Yield the frames of an exchange until it is over, and None when nothing came for a while.

    With `stops`, its run is stopped when the reader leaves before.
    """
    exchange = extent.exchange
    log = SessionLog(session_id=exchange.session_id)
    try:
        async with (
            counted_socket(principal),
            open_viewer(log, after=exchange.after, principal=principal) as viewer,
        ):
            while not extent.is_over:
                frames = await viewer.next(PING_SECONDS)
                if not frames:
                    yield None
                    await read(end_if_lost, extent)
                for frame in frames:
                    body = orjson.loads(frame.text)
                    if extent.takes(body):
                        yield body
    finally:
        if stops and not extent.is_over:
            await asyncio.shield(read(_stop, extent, principal))


def _stop(extent: Extent, principal: Principal) -> None:
    """Stop the run that is at work. One that waits for a person goes on waiting."""
    ids = {extent.exchange.run_id, *map(UUID, extent.runs)}
    active = [Run.Status.QUEUED, Run.Status.RUNNING]
    for run in Run.objects.filter(pk__in=ids, status__in=active):
        with suppress(Conflict):  # it has ended since
            cancel_run(run, principal.user_id)


def frames_of(extent: Extent) -> Iterator[Body]:
    """Yield the stored frames of an exchange, as far as it has come."""
    exchange = extent.exchange
    events = SessionEvent.objects.filter(session=exchange.session_id).after(exchange.after)
    for event in events.iterator(chunk_size=200):
        if extent.is_over:
            return
        if extent.takes(frame := event_frame(event)):
            yield frame


def end_if_lost(extent: Extent) -> None:
    """End an exchange whose run was cancelled or withdrawn before it began."""
    if extent.begun:
        return
    run_id = extent.exchange.run_id
    lost = Run.objects.filter(pk=run_id, status__in=FINISHED).first()
    if lost and not SessionEvent.objects.filter(session=lost.session_id, run=run_id).exists():
        extent.stop_reason = lost.stop_reason or "interrupted"


async def wait_for_end(extent: Extent, principal: Principal) -> list[Body]:
    """Return the stored frames of an exchange once it is over. A reader that leaves stops it."""
    async with aclosing(follow(extent, principal, stops=True)) as frames:  # type: ignore[type-var]
        return [frame async for frame in frames if frame and frame.get("seq")]


def usage_of(extent: Extent) -> dict[str, Any]:
    """Return what the runs of an exchange have used: tokens, calls and cost."""
    total: dict[str, Any] = {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0}
    for run in Run.objects.filter(pk__in=[UUID(one) for one in extent.runs]):
        for name in total:
            total[name] += (run.usage or {}).get(name, 0)
    return total
