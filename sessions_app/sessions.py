"""Sessions: found or made, moved to a newer version, forked, archived."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from agents.models import Agent, AgentVersion, Environment
from agents.models.environment import DEFAULT_NAME
from config.faults import Conflict, Invalid, NotFound, SessionEnded
from sessions_app import lanes
from sessions_app.compaction.snapshots import copy_to_fork
from sessions_app.log import copy_events
from sessions_app.models import Run, Session
from sessions_app.outcomes.stated import read_outcome
from sessions_app.outside import saw_outside
from sessions_app.queue import remove_run
from sessions_app.resources import attach_defaults
from sessions_app.statements import hold_lane
from sessions_app.wake import wake
from tools_app.places import Place
from tools_app.policies import copy_policy

LONGEST_TITLE = 200
FORK = re.compile(r" \(fork(?: (?P<nth>[0-9]{1,4}))?\)\Z")


def get_or_create_session(
    *,
    agent: Agent,
    session_key: str | None = None,
    environment: Environment | None = None,
    title: str = "",
    metadata: dict[str, Any] | None = None,
    outcome: object = None,
    created_by_id: UUID | None = None,
    parent: Session | None = None,
    about: Agent | None = None,
    version: AgentVersion | None = None,
) -> tuple[Session, bool]:
    """The session of this agent and key, made when there is none. Without a key always a new one.

    Without a `version` it runs the current one. `about` is the agent that a builder builds.
    """
    if session_key and (found := _by_key(agent, session_key)):
        return found, False
    stated = read_outcome(outcome)
    pinned = version or agent.current
    if pinned is None:
        raise Invalid("This agent has no version to run.")
    try:
        with transaction.atomic():
            session = Session.objects.create(
                workspace_id=agent.workspace_id,
                agent=agent,
                agent_version=pinned,
                environment=environment or pinned.environment,
                session_key=session_key or None,
                title=title,
                metadata=metadata or {},
                outcome=stated,
                created_by_id=created_by_id,
                parent=parent,
                about=about,
            )
            attach_defaults(session, _default_mounts(session))
    except IntegrityError:
        # Two asked at once: the other one was quicker.
        if session_key and (found := _by_key(agent, session_key)):
            return found, False
        raise
    session.refresh_from_db()
    return session, True


def _default_mounts(session: Session) -> list[dict[str, Any]]:
    """What each session of its environment starts with."""
    if session.environment:
        return session.environment.mounts
    rows = Environment.objects.for_workspace(session.workspace_id)
    return rows.filter(name=DEFAULT_NAME).values_list("mounts", flat=True).first() or []


def _by_key(agent: Agent, session_key: str) -> Session | None:
    return Session.objects.filter(agent=agent, session_key=session_key).first()


@transaction.atomic
def change_session(
    session: Session, *, agent_version: int | UUID | None = None, **changes: Any
) -> None:
    """Another title, metadata or outcome, or another version of the same agent."""
    if agent_version is not None:
        use_version(session, agent_version)
    if "outcome" in changes:
        changes["outcome"] = read_outcome(changes["outcome"])
    if changes:
        Session.objects.filter(pk=session.pk).update(**changes)


def use_version(session: Session, ref: int | UUID) -> None:
    """Pin another version of the same agent. A run that is under way keeps the one it has."""
    named = {"pk": ref} if isinstance(ref, UUID) else {"number": ref}
    version = session.agent.versions.published().filter(**named).first()
    if version is None:
        raise NotFound(f"This agent has no version {ref}.")
    session.agent_version = version
    session.save(update_fields=["agent_version"])


@transaction.atomic
def fork(session: Session, at_seq: int, created_by_id: UUID | None) -> Session:
    """A new session that shares the past up to an event, and has its own future."""
    if not 0 <= at_seq <= session.last_seq:
        raise Invalid(f"at_seq is a number from 0 to {session.last_seq}.")
    forked = Session.objects.create(
        workspace_id=session.workspace_id,
        agent_id=session.agent_id,
        agent_version_id=session.agent_version_id,
        environment_id=session.environment_id,
        title=fork_title(session.title),
        outcome=session.outcome,
        metadata={**session.metadata, "forked_from": str(session.pk), "forked_at_seq": at_seq},
        created_by_id=created_by_id,
        saw_outside=saw_outside(session.pk),
    )
    copy_events(session.pk, forked.pk, at_seq)
    copy_to_fork(session, forked, at_seq)
    # Otherwise a fork would be the way around what narrows its session.
    copy_policy(
        Place(workspace_id=session.workspace_id, layer="session", subject_id=session.pk),
        Place(workspace_id=session.workspace_id, layer="session", subject_id=forked.pk),
    )
    forked.refresh_from_db()
    return forked


def fork_title(title: str) -> str:
    """Whose fork it is, and the fork of a fork by its number: endings would pile up."""
    found = FORK.search(title)
    begun = title[: found.start()] if found else title or "Session"
    ending = f" (fork {int(found['nth'] or 1) + 1})" if found else " (fork)"
    return begun[: LONGEST_TITLE - len(ending)] + ending


@transaction.atomic
def archive(session: Session, author_id: UUID | None) -> None:
    """Put a session away: what runs is stopped, what waits is cancelled, the log stays."""
    if hold_lane(session.pk).status == Session.Status.TERMINATED:
        return
    lanes.stop(session.pk, note="archived", author_id=author_id)
    Run.objects.filter(session=session, status=Run.Status.QUEUED).update(
        status=Run.Status.CANCELLED, stop_reason="archived", finished_at=Now()
    )
    Session.objects.filter(pk=session.pk).update(
        archived_at=Now(), status=Session.Status.TERMINATED, session_key=None
    )


@transaction.atomic
def cancel_run(run: Run, author_id: UUID | None) -> None:
    """Stop this run, or take it back while it waits. Nothing else in its lane is touched."""
    hold_lane(run.session_id)
    run.refresh_from_db()
    match run.status:
        case Run.Status.RUNNING:
            lanes.stop(run.session_id, note="cancelled", author_id=author_id)
        case Run.Status.QUEUED if run.resumes or run.claimed_seq is not None:
            lanes.stop(run.session_id, note="cancelled", author_id=author_id)
        case Run.Status.QUEUED if run.message_seqs and not run.attempts:
            remove_run(run.session, run.pk, author_id)
        case Run.Status.QUEUED:
            Run.objects.filter(pk=run.pk).update(
                status=Run.Status.CANCELLED, stop_reason="interrupted", finished_at=Now()
            )
        case _:
            raise Conflict(f"This run is {run.status} already.")


@transaction.atomic
def retry_run(run: Run) -> None:
    """Queue a run again that failed or died. It goes on from the log, not from the beginning."""
    if hold_lane(run.session_id).status == Session.Status.TERMINATED:
        raise SessionEnded
    run.refresh_from_db()
    if run.status not in {Run.Status.FAILED, Run.Status.DEAD}:
        raise Conflict(f"This run is {run.status}; only a failed or dead one can be retried.")
    Run.objects.filter(pk=run.pk).update(
        status=Run.Status.QUEUED,
        losses=0,
        error=None,
        stop_reason="",
        claimed_seq=None,
        started_at=None,
        finished_at=None,
    )
    wake(run.session_id)


def name_sessions(workspace_id: UUID, ids: Iterable[UUID]) -> dict[UUID, str]:
    """What these sessions are called."""
    found = Session.objects.for_workspace(workspace_id).filter(pk__in=list(ids))
    return {pk: title or "Untitled" for pk, title in found.values_list("pk", "title")}
