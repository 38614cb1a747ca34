"""Approvals: asked for, answered exactly once, expired, cancelled.

Whoever answers holds the lane of the session and then the approval's row, so that of any number of
answers from any door one is the first. What an answer changes is one commit with the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeAlias
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agents.models import Agent
from config.faults import AlreadyAnswered, Invalid, NothingToAnswer
from sessions_app import approval_bell, call_answers
from sessions_app.approval_answer import Answer, Resolved, said_of
from sessions_app.models import Approval, Session
from sessions_app.row_by_row import for_each
from sessions_app.statements import hold_lane, rows
from tenants.access import Principal, authorise

__all__ = ["Answer", "Resolved", "expire_overdue", "open_approval", "resolve", "resolver"]

Status, Scope = Approval.Status, Approval.Scope
Resolver: TypeAlias = Callable[[Approval], None]
RESOLVERS: dict[str, Resolver] = {}
#: What else is held before the approval, so that nobody holds the two the other way round.
HOLDS: dict[str, Resolver] = {}
#: Whose resolvers know themselves when the time is up.
TIMED: set[str] = set()
OVERDUE = """
SELECT id FROM approvals WHERE status = 'pending' AND expires_at < clock_timestamp()
   AND subject <> ALL (%s) ORDER BY expires_at LIMIT %s
"""


def resolver(
    subject: str, *, hold: Resolver | None = None, keeps_time: bool = False
) -> Callable[[Resolver], Resolver]:
    """Have a function called, in the same transaction, when an approval of this subject is resolved.

    It is called for every way in which one ends: allowed, denied, expired, cancelled. Where the
    subject keeps the time, it ends the question itself and refuses an answer that comes too late.
    """

    def register(function: Resolver) -> Resolver:
        RESOLVERS[subject] = function
        if keeps_time:
            TIMED.add(subject)
        if hold:
            HOLDS[subject] = hold
        return function

    return register


@transaction.atomic
def open_approval(
    *,
    workspace_id: UUID,
    subject: str,
    subject_id: UUID,
    title: str,
    input: dict[str, Any] | None = None,
    reason: str = "",
    session: Session | None = None,
    agent: Agent | None = None,
    seconds: float | None = None,
    created_by_id: UUID | None = None,
) -> Approval:
    """Ask people about something that is not a call of a tool. Its subject must have a resolver."""
    if subject == Approval.Subject.TOOL or subject not in Approval.Subject.values:
        raise Invalid(f"No approval of a {subject!r} can be opened by hand.")
    lasts = timedelta(seconds=settings.APPROVAL_SECONDS if seconds is None else seconds)
    approval = Approval.objects.create(
        workspace_id=workspace_id,
        subject=subject,
        subject_id=subject_id,
        title=title[:300],
        input=input or {},
        reason=reason[:300],
        session=session,
        agent=agent,
        expires_at=timezone.now() + lasts,
        created_by_id=created_by_id,
    )
    approval_bell.announce([approval])
    return approval


def resolve(
    approval: Approval, answer: Answer, principal: Principal, *, dedupe_key: str | None = None
) -> Resolved:
    """Answer in the name of somebody. A second answer is refused and told of the first."""
    lasting = answer.allows and answer.scope == Scope.ALWAYS
    authorise(principal, "admin" if lasting else "run", approval)
    if approval.session and approval.session.about_id:
        # What is said there changes an agent.
        authorise(principal, "build")
    if not answer.allows and answer.scope != Scope.ONCE:
        raise Invalid("Only a yes can be for the session or for always.")
    with transaction.atomic():
        held = _hold(approval)
        if held.status != Status.PENDING:
            raise _answered(held)
        if held.expires_at <= timezone.now() and held.subject not in TIMED:
            raise too_late(held)
        if held.subject == Approval.Subject.TOOL:
            call_answers.prepare(held, answer, principal)
        elif answer.scope != Scope.ONCE or answer.input is not None:
            raise Invalid(f"A {held.subject} is allowed once, as it is, or denied.")
        held.scope, held.note = answer.scope, answer.note
        _close(held, Status.ALLOWED if answer.allows else Status.DENIED, principal)
        return _follow(held, answer, principal, dedupe_key)


def _hold(approval: Approval) -> Approval:
    """The approval as it is now, and nobody else's until the commit."""
    if approval.session_id:
        hold_lane(approval.session_id)
    if hold := HOLDS.get(approval.subject):
        hold(approval)
    found = Approval.objects.select_for_update(of=("self",), no_key=True)
    return found.select_related("execution", "session").get(pk=approval.pk)


def _close(held: Approval, status: str, principal: Principal | None) -> None:
    """Write how it ended. The call is changed after it, or the database would cancel this."""
    held.status, held.resolved_at = status, timezone.now()
    if principal:
        held.resolved_by, held.resolved_name = principal.user, principal.name[:254]
    held.save(
        update_fields=[
            "status",
            "scope",
            "rule",
            "edited_input",
            "note",
            "resolved_by",
            "resolved_name",
            "resolved_at",
        ]
    )


def _follow(
    held: Approval,
    answer: Answer | None = None,
    principal: Principal | None = None,
    dedupe_key: str | None = None,
) -> Resolved:
    """Do what the answer means, and tell the world."""
    seq, run_id = None, None
    if held.subject == Approval.Subject.TOOL:
        seq, run_id = call_answers.apply(held, answer, principal, dedupe_key)
    elif act := RESOLVERS.get(held.subject):
        act(held)
    approval_bell.announce([held])
    return Resolved(approval=held, seq=seq, run_id=run_id)


def expire_overdue(most: int) -> list[UUID]:
    """Take every question that nobody answered in time as a no."""
    return for_each([pk for (pk,) in rows(OVERDUE, [sorted(TIMED), most])], _expire)


@transaction.atomic
def _expire(pk: UUID) -> bool:
    known = Approval.objects.filter(pk=pk).first()
    held = _hold(known) if known else None
    if held is None or held.status != Status.PENDING or held.expires_at > timezone.now():
        return False
    _close(held, Status.EXPIRED, None)
    _follow(held)
    return True


def grants_of(session_id: UUID) -> frozenset[str]:
    """The rules that people allowed for this session so far."""
    allowed = Approval.objects.filter(
        session_id=session_id, status=Status.ALLOWED, scope=Scope.SESSION
    )
    return frozenset(allowed.values_list("rule", flat=True))


def count_pending(workspace_id: UUID) -> int:
    """How many questions wait in this workspace."""
    return Approval.objects.for_workspace(workspace_id).pending().count()


def pending_in(session_id: UUID) -> list[Approval]:
    """What waits for an answer in this session."""
    return list(Approval.objects.pending().filter(session_id=session_id))


def cancel_pending(asked: list[Approval]) -> None:
    """End the questions of a session that is stopped, inside the transaction that stops it.

    Those of calls which were stopped have been ended by the database already.
    """
    for approval in asked:
        held = _hold(approval)
        if held.status == Status.PENDING:
            _close(held, Status.CANCELLED, None)
            _follow(held)
    approval_bell.announce(asked)


def too_late(held: Approval) -> NothingToAnswer:
    return NothingToAnswer(f"This waited for an answer until {_at(held.expires_at)}.")


def _answered(held: Approval) -> AlreadyAnswered:
    said = said_of(held)
    return AlreadyAnswered(
        f"{said} at {_at(held.resolved_at)}.",
        answer={
            "status": held.status,
            "scope": held.scope,
            "resolved_by": held.resolved_name or None,
            "resolved_at": held.resolved_at and held.resolved_at.isoformat(),
        },
    )


def _at(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else ""
