"""Opens, answers, expires and cancels approvals.

`answer_approval` is the only way to answer one, whatever its subject. It holds the lock of the
session's lane and then of the approval's row, so that of any number of answers from any door only
the first counts. Everything that an answer changes is in one commit with the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agents.models import Agent
from core import channel_layer
from core.db import for_each
from core.exceptions import Forbidden, Invalid
from core.text import reveal
from sessions_app.exceptions import AlreadyAnswered, NothingToAnswer
from sessions_app.log.sql import lock_lane, row, rows
from sessions_app.models import (
    Approval,
    ResourceAttachment,
    Session,
    SessionEvent,
    ToolExecution,
)
from sessions_app.tool_labels import main_argument, tool_label
from tenants.access import Principal, authorise
from tools_app.registry import registry

Status, Scope = Approval.Status, Approval.Scope
TITLE_LENGTH = 300
#: How far an answer reaches, by its scope.
SCOPE_LABELS = {"once": "once", "session": "for this session", "always": "always"}
OVERDUE = """
SELECT id FROM approvals WHERE status = 'pending' AND expires_at < clock_timestamp()
   AND subject <> ALL (%s) ORDER BY expires_at LIMIT %s
"""


@dataclass(frozen=True, kw_only=True)
class ApprovalAnswer:
    """What a person answers."""

    decision: Literal["allow", "deny", "answer"]
    scope: str = Approval.Scope.ONCE.value
    note: str = ""
    #: Arguments that replace those that were asked about.
    input: dict[str, Any] | None = None
    #: The answers to a question, by field.
    values: dict[str, Any] | None = None

    @property
    def allows(self) -> bool:
        return self.decision == "allow"


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """How an approval ended: with an answer of a principal, or without one."""

    approval: Approval
    answer: ApprovalAnswer | None = None
    principal: Principal | None = None
    dedupe_key: str | None = None


#: The event that an answer wrote and the run that goes on, for subjects that have them.
Effect: TypeAlias = tuple[int | None, UUID | None]


def _answer_only_once(approval: Approval, answer: ApprovalAnswer, principal: Principal) -> None:
    if answer.scope != Scope.ONCE or answer.input is not None or answer.decision == "answer":
        raise Invalid(f"A {approval.subject} can only be allowed once and unchanged, or denied.")


@dataclass(frozen=True, kw_only=True)
class ApprovalHandler:
    """What answers mean for one kind of subject."""

    #: Acts on every way in which an approval ends: allowed, denied, expired or cancelled.
    apply: Callable[[Resolution], Effect]
    #: Checks an answer before it is stored, and may note on the approval what it covers.
    check: Callable[[Approval, ApprovalAnswer, Principal], None] = _answer_only_once
    #: Locks what must be locked before the approval's row, so that the lock order is always the same.
    lock: Callable[[Approval], None] | None = None
    #: The subject expires its approvals itself, and refuses answers that come too late.
    keeps_time: bool = False


HANDLERS: dict[str, ApprovalHandler] = {}


def resolver(
    subject: str, *, lock: Callable[[Approval], None] | None = None, keeps_time: bool = False
) -> Callable[[Callable[[Approval], None]], Callable[[Approval], None]]:
    """Register a function that acts on every resolved approval of this subject, in one commit."""

    def register(function: Callable[[Approval], None]) -> Callable[[Approval], None]:
        def apply(resolution: Resolution) -> Effect:
            function(resolution.approval)
            return None, None

        HANDLERS[subject] = ApprovalHandler(apply=apply, lock=lock, keeps_time=keeps_time)
        return function

    return register


def approvals_group(workspace_id: UUID) -> str:
    """Return the channel group of a workspace's approvals."""
    return f"approvals.{workspace_id}"


def announce(approvals: Iterable[Approval]) -> None:
    """Tell viewers to read these approvals again."""
    messages = [
        (
            approvals_group(approval.workspace_id),
            {"type": "approval.changed", "id": str(approval.pk)},
        )
        for approval in approvals
    ]
    if messages:
        channel_layer.send_many(messages)


def approvals_for(calls: Sequence[ToolExecution], agent_id: UUID) -> list[Approval]:
    """Return a new approval for each call that waits for one. The caller stores them."""
    waiting = ToolExecution.State.AWAITING_APPROVAL
    return [approval_for(call, agent_id) for call in calls if call.state == waiting]


def is_question(call: ToolExecution | None) -> bool:
    """Return whether a person answers this call with a form, and it is never run."""
    return call is not None and call.name in registry and registry[call.name].asks


def approval_for(call: ToolExecution, agent_id: UUID) -> Approval:
    """Return a new approval of this call. The caller stores it."""
    return Approval(
        workspace_id=call.workspace_id,
        subject=Approval.Subject.TOOL,
        subject_id=call.pk,
        session_id=call.session_id,
        execution=call,
        agent_id=agent_id,
        title=_title(call),
        input=call.input,
        reason=call.decided_by,
        expires_at=timezone.now() + timedelta(seconds=settings.APPROVAL_SECONDS),
        created_by_id=call.created_by_id,
    )


def _title(call: ToolExecution) -> str:
    """Return what the call will do, on one line."""
    if is_question(call):
        return " ".join(str(call.input["question"]).split())[:TITLE_LENGTH]
    title = tool_label(call.name).title
    argument = main_argument(call.name, call.input)
    return (f"{title}: {argument}" if argument else title)[:TITLE_LENGTH]


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
    """Ask people about something other than a tool call. Its subject must have a resolver."""
    if subject == Approval.Subject.TOOL or subject not in Approval.Subject.values:
        raise Invalid(f"An approval of a {subject!r} cannot be opened directly.")
    lasts = timedelta(seconds=settings.APPROVAL_SECONDS if seconds is None else seconds)
    approval = Approval.objects.create(
        workspace_id=workspace_id,
        subject=subject,
        subject_id=subject_id,
        title=reveal(title)[:TITLE_LENGTH],
        input=input or {},
        reason=reason[:300],
        session=session,
        agent=agent,
        expires_at=timezone.now() + lasts,
        created_by_id=created_by_id,
    )
    announce([approval])
    return approval


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """An approval that was answered now, the seq of the answer's event, and the run that goes on."""

    approval: Approval
    seq: int | None
    run_id: UUID | None


def answer_approval(
    approval: Approval,
    answer: ApprovalAnswer,
    principal: Principal,
    *,
    dedupe_key: str | None = None,
) -> Resolved:
    """Answer an approval. A second answer is refused with AlreadyAnswered, which names the first."""
    lasting = answer.allows and answer.scope == Scope.ALWAYS
    authorise(principal, "admin" if lasting else "run", approval)
    if approval.session and approval.session.about_id:
        # Answers in a builder session change an agent.
        authorise(principal, "build")
    if answer.allows:
        _check_not_own(approval, principal)
    if not answer.allows and answer.scope != Scope.ONCE:
        raise Invalid("Only an allow can have the scope session or always.")
    with transaction.atomic():
        locked = _lock(approval)
        handler = HANDLERS[locked.subject]
        if locked.status != Status.PENDING:
            raise _already_answered(locked)
        if locked.expires_at <= timezone.now() and not handler.keeps_time:
            raise too_late(locked)
        handler.check(locked, answer, principal)
        locked.scope, locked.note = answer.scope, answer.note
        _close(locked, Status.DENIED if answer.decision == "deny" else Status.ALLOWED, principal)
        return _apply(
            Resolution(approval=locked, answer=answer, principal=principal, dedupe_key=dedupe_key)
        )


def _check_not_own(approval: Approval, principal: Principal) -> None:
    """Raise Forbidden if a key that can only run agents would let its own call read secrets.

    Commands can read the secrets that are mounted into their session. There an approval is a second
    opinion: of a person, of a key that may administer the workspace, or of a key that has not spoken
    in this session. A sub-agent's task counts as a message of the key that started the turn of its
    parent.
    """
    if principal.key is None or principal.may("admin") or approval.session_id is None:
        return
    vaults = ResourceAttachment.objects.filter(
        session_id=approval.session_id, kind=ResourceAttachment.Kind.VAULT
    )
    own = SessionEvent.objects.filter(session_id=approval.session_id, key_id=principal.key_id)
    if vaults.exists() and own.exists():
        raise Forbidden(
            "This session can read secrets and this key has sent messages to it, so the key cannot "
            "allow the call. Answer in the chat or the inbox, or with a key that has the scope admin."
        )


def _lock(approval: Approval) -> Approval:
    """Lock the approval, after everything that must be locked before it, and return its state."""
    if approval.session_id:
        lock_lane(approval.session_id)
    if lock := HANDLERS[approval.subject].lock:
        lock(approval)
    locked = Approval.objects.select_for_update(of=("self",), no_key=True)
    return locked.select_related("execution", "session").get(pk=approval.pk)


def _close(locked: Approval, status: str, principal: Principal | None) -> None:
    """Store how the approval ended.

    This must come before the call is changed, because a trigger cancels the pending approval of a
    call that ends.
    """
    locked.status, locked.resolved_at = status, timezone.now()
    if principal:
        locked.resolved_by, locked.resolved_name = principal.user, principal.name[:254]
    locked.save(
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


def _apply(resolution: Resolution) -> Resolved:
    """Do what the end of the approval means for its subject, and tell viewers."""
    approval = resolution.approval
    seq, run_id = HANDLERS[approval.subject].apply(resolution)
    announce([approval])
    return Resolved(approval=approval, seq=seq, run_id=run_id)


def expire_overdue(most: int) -> list[UUID]:
    """Deny every approval that was not answered in time, and return their ids."""
    keeping = sorted(subject for subject, handler in HANDLERS.items() if handler.keeps_time)
    return for_each([pk for (pk,) in rows(OVERDUE, [keeping, most])], _expire)


@transaction.atomic
def _expire(pk: UUID) -> bool:
    known = Approval.objects.filter(pk=pk).first()
    locked = _lock(known) if known else None
    if locked is None or locked.status != Status.PENDING or locked.expires_at > timezone.now():
        return False
    _close(locked, Status.EXPIRED, None)
    _apply(Resolution(approval=locked))
    return True


def session_grants(session_id: UUID) -> frozenset[str]:
    """Return the rules that people have allowed for the whole session."""
    (rules,) = row("SELECT session_grants(%s)", [session_id])
    return frozenset(rules or ())


def count_pending(workspace_id: UUID) -> int:
    """Return the number of pending approvals in a workspace."""
    return Approval.objects.for_workspace(workspace_id).pending().count()


def pending_in(session_id: UUID) -> list[Approval]:
    """Return the pending approvals of a session."""
    return list(Approval.objects.pending().filter(session_id=session_id))


def cancel_pending(approvals: list[Approval]) -> None:
    """Cancel the approvals of a session, inside the transaction that stops it.

    The database has already ended those whose calls were stopped.
    """
    for approval in approvals:
        locked = _lock(approval)
        if locked.status == Status.PENDING:
            _close(locked, Status.CANCELLED, None)
            _apply(Resolution(approval=locked))
    announce(approvals)


def describe_answer(approval: Approval) -> str:
    """Return who answered what, as the beginning of a sentence."""
    name = approval.resolved_name or "A former member"
    match approval.status:
        case Approval.Status.ALLOWED if is_question(approval.execution):
            return f"{name} answered this"
        case Approval.Status.DENIED if is_question(approval.execution):
            return f"{name} declined to answer"
        case Approval.Status.ALLOWED:
            return f"{name} allowed this {SCOPE_LABELS.get(approval.scope, 'once')}"
        case Approval.Status.DENIED:
            return f"{name} denied this"
        case Approval.Status.EXPIRED:
            return "This expired without an answer"
        case Approval.Status.CANCELLED:
            return "The session was stopped, so this was cancelled"
        case _:
            return "This waits for an answer"


def too_late(approval: Approval) -> NothingToAnswer:
    """Return the error for an answer that comes after the approval expired."""
    return NothingToAnswer(f"This approval expired at {_timestamp(approval.expires_at)}.")


def _already_answered(approval: Approval) -> AlreadyAnswered:
    return AlreadyAnswered(
        f"{describe_answer(approval)} at {_timestamp(approval.resolved_at)}.",
        answer={
            "status": approval.status,
            "scope": approval.scope,
            "resolved_by": approval.resolved_name or None,
            "resolved_at": approval.resolved_at and approval.resolved_at.isoformat(),
        },
    )


def _timestamp(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else ""
