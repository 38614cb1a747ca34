"""The runtime for Python callers: sessions, messages and runs without HTTP.

Every function takes the acting identity as `principal`. Without one, the caller is code of this
process and acts in the workspace of the agent or session that it names.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

import orjson
import structlog
from django.db import transaction
from django.utils import timezone

from agents.definitions import find_agent
from agents.environments import authorise_choice, find_environment
from agents.models import Agent
from core.db import read
from core.exceptions import NotFound
from sessions_app import sessions as services
from sessions_app.accept import accept_event, send_by_key
from sessions_app.context.compaction.cycle import parse_compaction_options, request_compaction
from sessions_app.lanes import local, run_queue
from sessions_app.lanes.run_queue import Accepted
from sessions_app.lanes.signals import FINISHED, wait_for_run
from sessions_app.lanes.signals import wake as wake_workers
from sessions_app.live.frames import Body
from sessions_app.live.hub import follow_log
from sessions_app.live.reader import SessionLog
from sessions_app.log.transcript import TranscriptMessage, newest_history
from sessions_app.models import Run, Session, SessionEvent
from sessions_app.sessions import ChatModel, authorise_session, find_session
from tenants.access import ROLE_VERBS, Principal, Verb, authorise
from tenants.models import Membership
from tenants.workspaces import first_owner

log = structlog.get_logger(__name__)

__all__ = [
    "Enqueued",
    "append_message",
    "compact",
    "enqueue_agent_run",
    "get_history",
    "get_or_create_session",
    "run_agent_loop",
    "wait_for_agent_run",
    "wake",
]

#: Receives the frames of a session.
OnEvent: TypeAlias = Callable[[Body], object]
#: How long a follower may take for the last frames once the run is finished.
LAST_FRAMES_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class SystemPrincipal(Principal):
    """The identity of code in this process and of commands on this machine.

    It may do everything in one workspace, in the name of its first owner.
    """

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return "the command line"


def system_principal(workspace_id: UUID) -> Principal:
    """Return the system's own identity in a workspace."""
    return SystemPrincipal(
        workspace_id=workspace_id,
        user=first_owner(workspace_id),
        verbs=ROLE_VERBS[Membership.Role.OWNER],
        role=Membership.Role.OWNER,
    )


@dataclass(frozen=True, kw_only=True)
class Enqueued:
    """A message that was accepted, and the run that will answer it."""

    run_id: UUID | None
    session_id: UUID
    accepted_at: datetime


def get_or_create_session(
    agent: Agent | UUID | str,
    session_key: str | None = None,
    *,
    principal: Principal | None = None,
    environment: UUID | str | None = None,
    title: str = "",
    metadata: dict[str, Any] | None = None,
    outcome: dict[str, Any] | None = None,
    model: ChatModel | None = None,
) -> tuple[Session, bool]:
    """Return the session of this agent and key, and whether it is new. Without a key it always is."""
    found, acting = _agent(agent, principal)
    place = find_environment(found.workspace_id, environment) if environment else None
    if place:
        authorise_choice(acting, place, found.current.environment_id if found.current else None)
    return services.get_or_create_session(
        agent=found,
        session_key=session_key,
        environment=place,
        title=title,
        metadata=metadata,
        outcome=outcome,
        created_by_id=acting.user_id,
        model=model,
    )


def append_message(
    session: Session | UUID,
    text: str,
    *,
    principal: Principal | None = None,
    attachments: Sequence[dict[str, Any]] = (),
    overrides: dict[str, Any] | None = None,
    on_busy: str = Run.OnBusy.FOLLOWUP,
    priority: int = 0,
    dedupe_key: str | None = None,
) -> Accepted:
    """Append a person's message to the log and queue the run that answers it.

    `overrides` are the fields of `RunOverrides` in `log/payloads.py`, for this run only.
    """
    known, acting = _session(session, principal)
    return accept_event(
        acting,
        known,
        type=SessionEvent.Type.USER_MESSAGE,
        payload={"text": text, "attachments": list(attachments), "overrides": overrides},
        on_busy=on_busy,
        priority=priority,
        dedupe_key=dedupe_key,
    )


def get_history(
    session: Session | UUID, *, limit: int = 50, principal: Principal | None = None
) -> list[TranscriptMessage]:
    """Return the newest messages, in order and in their newest wording."""
    return newest_history(_session(session, principal, "read")[0], limit=limit)


def enqueue_agent_run(
    agent: Agent | UUID | str,
    session_key: str,
    message: str,
    *,
    on_event: OnEvent | None = None,
    principal: Principal | None = None,
    **options: Any,
) -> Enqueued:
    """Queue a run and return at once. A worker takes it.

    `on_event` is called on another thread with the frames of the session, from this message to the
    end of its run.
    """
    session_id, accepted = _send(agent, session_key, message, principal, options)
    if on_event and accepted.run_id:
        follow_run_in_thread(accepted.run_id, session_id, accepted.seq - 1, on_event)
    return Enqueued(run_id=accepted.run_id, session_id=session_id, accepted_at=timezone.now())


def _send(
    agent: Agent | UUID | str,
    session_key: str,
    message: str,
    principal: Principal | None,
    options: dict[str, Any],
) -> tuple[UUID, Accepted]:
    if principal and "attachments" not in options:
        ref = agent.pk if isinstance(agent, Agent) else agent
        if sent := send_by_key(principal, ref, session_key, message, **options):
            return sent
    session, _ = get_or_create_session(agent, session_key, principal=principal)
    return session.pk, append_message(session, message, principal=principal, **options)


def wait_for_agent_run(
    run_id: UUID, seconds: float = 30, *, principal: Principal | None = None
) -> Run:
    """Return the run once it is finished, or in its current state when the time is up."""
    if principal:
        workspace_id = authorise(principal, "read")
        if not Run.objects.for_workspace(workspace_id).filter(pk=run_id).exists():
            raise NotFound
    return wait_for_run(run_id, seconds)


def run_agent_loop(
    agent: Agent | UUID | str,
    session_key: str,
    message: str,
    *,
    on_event: OnEvent | None = None,
    principal: Principal | None = None,
    seconds: float = 3600,
    **options: Any,
) -> Run:
    """Send a message and run the agent on this thread until it has answered.

    Runs that wait before it in the lane are served first. If another process holds the lane, that
    process answers and this function waits. `on_event` is called on another thread.
    """
    session, _ = get_or_create_session(agent, session_key, principal=principal)
    with transaction.atomic():
        # In one commit, so that no worker takes the lane in between.
        accepted = append_message(session, message, principal=principal, **options)
        claim = run_queue.claim(session.pk, local.owner())
    if accepted.run_id is None:
        raise NotFound("This message was sent before, and its run is gone.")
    follower = None
    if on_event:
        follower = follow_run_in_thread(accepted.run_id, session.pk, accepted.seq - 1, on_event)
    local.serve(claim, until=accepted.run_id)
    run = wait_for_run(accepted.run_id, seconds)
    if follower and run.status in FINISHED:
        follower.join(LAST_FRAMES_SECONDS)
    return run


def follow_run_in_thread(
    run_id: UUID, session_id: UUID, after: int, on_event: OnEvent
) -> threading.Thread:
    """Call `on_event` with every frame until the run is over, on another thread.

    A callback that fails ends that thread alone.
    """

    def work() -> None:
        try:
            asyncio.run(_follow_run(run_id, session_id, after, on_event))
        except Exception:
            log.exception("following_failed", run_id=str(run_id))

    thread = threading.Thread(target=work, name=f"follow {run_id}", daemon=True)
    thread.start()
    return thread


async def _follow_run(run_id: UUID, session_id: UUID, after: int, on_event: OnEvent) -> None:
    last: int | None = None
    async with aclosing(follow_log(SessionLog(session_id=session_id), after=after)) as batches:
        async for frames in batches:
            for frame in frames:
                on_event(orjson.loads(frame.text))
                after = frame.seq or after
            if last is None and (not frames or any(frame.seq for frame in frames)):
                last = await read(_last_seq_if_over, run_id)
            if last is not None and after >= last:
                return


def _last_seq_if_over(run_id: UUID) -> int | None:
    """Return the log's last seq if the run is over, else None."""
    if not Run.objects.filter(pk=run_id, status__in=FINISHED).exists():
        return None
    # A run ends in the commit that writes its last event, so the log is complete here.
    return Session.objects.values_list("last_seq", flat=True).get(runs=run_id)


def compact(
    session: Session | UUID,
    *,
    keep_recent_messages: int | None = None,
    target_token_count: int | None = None,
    principal: Principal | None = None,
) -> Run:
    """Queue a compaction of the context. It takes the lane like any run, and can be waited for."""
    known, acting = _session(session, principal)
    options = parse_compaction_options(
        keep_recent_messages=keep_recent_messages, target_token_count=target_token_count
    )
    return request_compaction(known, options, acting.user_id)


def wake(session: Session | UUID, *, principal: Principal | None = None) -> UUID | None:
    """Ask the workers to look at a session. Return its running or next run, if any."""
    known, _ = _session(session, principal)
    runs = Run.objects.filter(session=known, status__in=[Run.Status.RUNNING, Run.Status.QUEUED])
    # "running" sorts after "queued", so it comes first here; the rest is the order of the lane.
    order = ["-status", "-resumes", "-priority", "rank", "id"]
    found = runs.order_by(*order).values_list("pk", flat=True).first()
    wake_workers(known.pk)
    return found


def _agent(ref: Agent | UUID | str, principal: Principal | None) -> tuple[Agent, Principal]:
    if principal:
        named = ref.pk if isinstance(ref, Agent) else ref
        return find_agent(authorise(principal, "run"), named), principal
    if not isinstance(ref, Agent):
        ref = find_agent(_workspace_id_of(ref), ref)
    return ref, system_principal(ref.workspace_id)


def _workspace_id_of(agent_id: UUID | str) -> UUID:
    """Return the workspace of an agent. Names are unique only within one, so this takes an id."""
    try:
        rows = Agent.objects.filter(pk=UUID(str(agent_id)))
    except ValueError:
        raise NotFound("Without a principal, name the agent by its id.") from None
    workspace_id = rows.values_list("workspace_id", flat=True).first()
    if workspace_id is None:
        raise NotFound
    return workspace_id


def _session(
    ref: Session | UUID, principal: Principal | None, verb: Verb = "run"
) -> tuple[Session, Principal]:
    if principal:
        if not isinstance(ref, Session):
            return find_session(principal, ref, verb), principal
        authorise_session(principal, ref, verb)
        return ref, principal
    if not isinstance(ref, Session):
        known = Session.objects.filter(pk=ref).first()
        if known is None:
            raise NotFound
        ref = known
    return ref, system_principal(ref.workspace_id)
