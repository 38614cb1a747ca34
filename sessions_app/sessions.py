"""Finds, creates, changes, forks, shares, archives and deletes sessions; cancels and retries runs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.db.models.functions import Now
from pydantic import model_validator

from agents.definitions import ModelName, ProviderName, current_version, version_by_id
from agents.models import Agent, AgentVersion, Environment
from agents.models.environment import DEFAULT_NAME
from core.exceptions import Conflict, Forbidden, Invalid, NotFound
from core.ids import new_token
from core.validation import Input
from sessions_app.context.compaction.snapshots import copy_to_fork
from sessions_app.context.taint import is_tainted
from sessions_app.exceptions import SessionEnded
from sessions_app.lanes import run_queue
from sessions_app.lanes.queued_messages import remove_run
from sessions_app.lanes.signals import wake
from sessions_app.log.sql import lock_lane
from sessions_app.log.writer import copy_events
from sessions_app.models import Run, Session
from sessions_app.outcomes.criteria import read_outcome
from sessions_app.resources.attachments import attach_defaults
from sessions_app.resources.files import remove_session_files
from tenants.access import Principal, Verb, authorise
from tenants.quotas import check_database_room
from tools_app.policy.storage import PolicyTarget, copy_policy

MAX_TITLE_LENGTH = 200
FORK_SUFFIX = re.compile(r" \(fork(?: (?P<nth>[0-9]{1,4}))?\)\Z")


def find_session(principal: Principal, session_id: UUID, verb: Verb = "read") -> Session:
    """Return the session if this principal may do `verb` with it."""
    workspace_id = authorise(principal, verb)
    session = Session.objects.for_workspace(workspace_id).filter(pk=session_id).first()
    if session is None:
        raise NotFound
    authorise_session(principal, session, verb)
    return session


def authorise_session(principal: Principal, session: Session, verb: Verb) -> None:
    """Raise if this principal may not do `verb` with the session."""
    # Messages in a builder session change an agent.
    builds = session.about_id and verb == "run"
    authorise(principal, "build" if builds else verb, session)


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
    model: ChatModel | None = None,
) -> tuple[Session, bool]:
    """Return the session of this agent and key, and whether it is new. Without a key it always is.

    Without a `version` the session runs the current one. `about` is the agent that a builder
    session builds.
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
                ancestors=[*parent.ancestors, parent.pk] if parent else [],
                about=about,
                provider=model.provider if model else "",
                model=model.model if model else "",
            )
            attach_defaults(session, _default_mounts(session))
    except IntegrityError:
        # Another request has just created the session of this key.
        if session_key and (found := _by_key(agent, session_key)):
            return found, False
        raise
    session.refresh_from_db()
    return session, True


def _default_mounts(session: Session) -> list[dict[str, Any]]:
    """Return what each session of this environment starts with."""
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
    """Change the title, metadata or outcome, or the version of the agent."""
    if agent_version is not None:
        use_version(session, agent_version)
    if "outcome" in changes:
        changes["outcome"] = read_outcome(changes["outcome"])
    if changes:
        Session.objects.filter(pk=session.pk).update(**changes)


class ChatModel(Input):
    """The model that a session uses in place of its agent's. Empty: the agent's."""

    provider: ProviderName = ""
    model: ModelName = ""

    @model_validator(mode="after")
    def both_or_neither(self) -> ChatModel:
        if bool(self.provider) != bool(self.model):
            raise ValueError("Name a provider and one of its models, or neither.")
        return self


def choose_model(session: Session, choice: ChatModel) -> None:
    """Let a session use another model from its next run on. It keeps the choice until it is changed.

    The choice of the agent's own model is none: the session then follows its agent.
    """
    if session.status == Session.Status.TERMINATED:
        raise SessionEnded
    version = version_by_id(session.agent_version_id)
    if (choice.provider, choice.model) == (version.provider, version.model):
        choice = ChatModel()
    session.provider, session.model = choice.provider, choice.model
    session.save(update_fields=["provider", "model"])


def use_version(session: Session, ref: int | UUID) -> None:
    """Pin another version of the same agent. A run in progress keeps the version it has."""
    named = {"pk": ref} if isinstance(ref, UUID) else {"number": ref}
    version = session.agent.versions.published().filter(**named).first()
    if version is None:
        raise NotFound(f"This agent has no version {ref}.")
    session.agent_version = version
    session.save(update_fields=["agent_version"])


def use_newest_version(session: Session) -> None:
    """Pin the agent's newest published version."""
    use_version(session, current_version(session.agent).pk)


def outdated_sessions(agents: Iterable[Agent]) -> Any:
    """Return the open sessions that run an older published version of these agents."""
    rows = Session.objects.filter(agent__in=list(agents), archived_at=None, about=None)
    rows = rows.exclude(status=Session.Status.TERMINATED)
    return rows.filter(agent_version__preview=None).exclude(agent_version=F("agent__current"))


@transaction.atomic
def move_to_newest(agents: Iterable[Agent]) -> int:
    """Let the open sessions of these agents go on with the newest version. Return how many there
    were; a run in progress keeps the version it has.
    """
    return sum(
        outdated_sessions([agent]).update(agent_version=agent.current_id) for agent in agents
    )


@transaction.atomic
def fork(session: Session, at_seq: int, created_by_id: UUID | None) -> Session:
    """Create a session that shares the history up to an event and goes its own way from there."""
    if not 0 <= at_seq <= session.last_seq:
        raise Invalid(f"at_seq must be a number from 0 to {session.last_seq}.")
    check_database_room(session.workspace_id)
    forked = Session.objects.create(
        workspace_id=session.workspace_id,
        agent_id=session.agent_id,
        agent_version_id=session.agent_version_id,
        environment_id=session.environment_id,
        title=fork_title(session.title),
        outcome=session.outcome,
        metadata={**session.metadata, "forked_from": str(session.pk), "forked_at_seq": at_seq},
        created_by_id=created_by_id,
        provider=session.provider,
        model=session.model,
        saw_outside=is_tainted(session.pk),
    )
    copy_events(session.pk, forked.pk, at_seq)
    copy_to_fork(session, forked, at_seq)
    # Otherwise a fork would bypass the policy of its session.
    copy_policy(
        PolicyTarget(workspace_id=session.workspace_id, layer="session", subject_id=session.pk),
        PolicyTarget(workspace_id=session.workspace_id, layer="session", subject_id=forked.pk),
    )
    forked.refresh_from_db()
    return forked


def fork_title(title: str) -> str:
    """Return the title of a fork. A fork of a fork is numbered, so that suffixes do not pile up."""
    found = FORK_SUFFIX.search(title)
    begun = title[: found.start()] if found else title or "Session"
    ending = f" (fork {int(found['nth'] or 1) + 1})" if found else " (fork)"
    return begun[: MAX_TITLE_LENGTH - len(ending)] + ending


@transaction.atomic
def archive(session: Session, author_id: UUID | None) -> None:
    """Archive a session: stop what runs, cancel what waits, and keep the log."""
    if lock_lane(session.pk).status == Session.Status.TERMINATED:
        return
    run_queue.stop(session.pk, note="archived", author_id=author_id)
    Run.objects.filter(session=session, status=Run.Status.QUEUED).update(
        status=Run.Status.CANCELLED, stop_reason="archived", finished_at=Now()
    )
    Session.objects.filter(pk=session.pk).update(
        archived_at=Now(), status=Session.Status.TERMINATED, session_key=None
    )


@transaction.atomic
def archive_chat(session: Session, author_id: UUID | None) -> None:
    """Archive a session with the other branches of its chat."""
    for branch in Session.objects.branches(session).order_by("pk"):
        archive(branch, author_id)


@transaction.atomic
def cancel_run(run: Run, author_id: UUID | None) -> None:
    """Stop this run, or withdraw it while it waits. Other runs of its lane are not touched."""
    lock_lane(run.session_id)
    run.refresh_from_db()
    match run.status:
        case Run.Status.RUNNING:
            run_queue.stop(run.session_id, note="cancelled", author_id=author_id)
        case Run.Status.QUEUED if run.resumes or run.claimed_seq is not None:
            run_queue.stop(run.session_id, note="cancelled", author_id=author_id)
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
    """Queue a failed or dead run again. It continues from the log, not from the beginning."""
    if lock_lane(run.session_id).status == Session.Status.TERMINATED:
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


def authorise_deletion(principal: Principal, session: Session) -> None:
    """Raise unless this is the principal's own chat, or the principal is an admin."""
    authorise_session(principal, session, "run")
    if principal.user_id is None or session.created_by_id != principal.user_id:
        authorise(principal, "admin", session)


@transaction.atomic
def delete_chat(principal: Principal, session: Session) -> None:
    """Delete a chat for good: its branches, sub-agents, logs and files. What it cost stays charged."""
    authorise_deletion(principal, session)
    branches = list(Session.objects.branches(session).order_by("pk"))
    below = [one for branch in branches for one in Session.objects.below(branch.pk)]
    # A session is deleted after those that it created.
    for one in [*sorted(below, key=lambda row: -len(row.ancestors)), *branches[::-1]]:
        archive(one, principal.user_id)
        with connection.cursor() as cursor:
            # The log refuses DELETE except for the session that this transaction names here.
            cursor.execute("SELECT set_config('switchyard.deleting', %s, true)", [str(one.pk)])
            cursor.execute("SELECT session_gives_back(%s)", [one.pk])
        Session.objects.filter(branch_root=one).update(branch_root=None)
        Session.objects.get(pk=one.pk).delete()
        transaction.on_commit(partial(remove_session_files, one))


def name_sessions(workspace_id: UUID, ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return the titles of these sessions."""
    found = Session.objects.for_workspace(workspace_id).filter(pk__in=list(ids))
    return {pk: title or "Untitled" for pk, title in found.values_list("pk", "title")}


# ── Links ────────────────────────────────────────────────────────────────────────────────────────


def share_session(session: Session) -> str:
    """Return the token of the session's link, and let the link show everything until now."""
    if not settings.SHARE_LINKS:
        raise Forbidden("The operator of this installation has switched share links off.")
    token = session.share_token or new_token()
    Session.objects.filter(pk=session.pk).update(share_token=token, shared_seq=session.last_seq)
    return token


def unshare_session(session: Session) -> None:
    """Revoke the link. Sharing again makes another one."""
    Session.objects.filter(pk=session.pk).update(share_token="", shared_seq=0)


def find_shared(token: str) -> Session:
    """Return the session that a link shows. No link works while SHARE_LINKS is off."""
    found = Session.objects.select_related("agent_version").filter(share_token=token).first()
    if found is None or not token or not settings.SHARE_LINKS:
        raise NotFound("This link doesn't work. It may have been revoked.")
    return found
