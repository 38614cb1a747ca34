"""Runs the consolidation of an agent's memory: in the lane of a session, paid by the agent's purse.

What was found so far is kept in its row. A run that is lost continues from there, and a review that no
run finished is finished by the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models.fields.json import KT
from django.utils import timezone

from agents.exceptions import ProviderFault
from agents.model_catalog import worst_case
from agents.models import Agent
from agents.providers.base import Message, ModelRequest
from core.exceptions import Conflict
from memory import consolidation, proposals
from memory.consolidation import Plan, Uses, questions, read_answer
from memory.documents import HEARTBEAT
from memory.embeddings import chosen_embedder, is_local
from memory.models import Consolidation, ConsolidationChoice
from memory.notes import digest
from memory.ownership import Reader
from memory.recall import LONGEST_QUERY, Search, recall
from sessions_app.harness.crash_points import crash_point
from sessions_app.harness.model_call import complete
from sessions_app.harness.turn import Turn
from sessions_app.lanes import run_queue
from sessions_app.log.sql import lock_lane, retry_on_disconnect
from sessions_app.models import Run, Session, SessionEvent, ToolExecution
from sessions_app.sessions import get_or_create_session, use_newest_version
from tenants.billing.spending import dollars
from tenants.exceptions import BudgetReached, OutOfCredits
from tenants.models import ModelCall
from tools_app.taint import fence_mark

log = structlog.get_logger(__name__)

#: The session of each agent in which its memory is consolidated.
SESSION_KEY, TITLE = "memory-consolidation", "Memory consolidation"
#: The provider whose answers are scripted: it cannot judge notes.
DEMO = "demo"
#: How many of the newest messages, of how many sessions, are searched for again to see which notes
#: they use; and how far a message may lie back: for promotion, and for what was never used.
MOST_MESSAGES, MOST_SESSIONS = 300, 200
LATELY, WINDOW = timedelta(days=30), consolidation.UNUSED_FOR
#: A note counts as used by a message if it is among its first hits and fits so well by itself.
FIRST_HITS, GOOD_HIT = 3, 0.5


@transaction.atomic
def request_consolidation(agent: Agent, user_id: UUID | None, key_id: UUID | None = None) -> Run:
    """Queue a consolidation of the agent's memory. A second request returns the same run."""
    if agent.archived_at:
        raise Conflict("This agent is archived.")
    session, _ = get_or_create_session(
        agent=agent, session_key=SESSION_KEY, title=TITLE, created_by_id=user_id
    )
    use_newest_version(session)
    return run_queue.request(
        session, Run.Purpose.CONSOLIDATE, {}, created_by_id=user_id, key_id=key_id
    )


def consolidate_on_request(turn: Turn) -> dict[str, Any]:
    """Review the agent's memory and store what is proposed; apply it if the agent's choice says so."""
    agent = Agent.objects.for_workspace(turn.workspace_id).get(pk=turn.agent_id)
    choice = proposals.choice_of(agent)
    row = (
        Consolidation.objects.for_workspace(turn.workspace_id)
        .filter(agent=agent, run_id=turn.claim.run_id)
        .exclude(status=Consolidation.Status.REVIEWING)
        .first()
    )
    row = row or _review(turn, agent, choice)
    crash_point("consolidation_proposed")
    if row.status == Consolidation.Status.WAITING and choice.applies_itself:
        row = _as_holder(turn, lambda: proposals.apply(row, by=None))
        crash_point("consolidation_applied")
    return {"text": describe(row), "consolidation_id": str(row.pk)}


def describe(row: Consolidation) -> str:
    """Return in one sentence what a consolidation found."""
    count = row.changes.count()
    if not count:
        return f"{row.notes:,} notes reviewed. Nothing to change."
    documents = "1 document" if count == 1 else f"{count:,} documents"
    done = "changed" if row.status == Consolidation.Status.APPLIED else "to change"
    return f"{row.notes:,} notes reviewed, {documents} {done}."


def _as_holder(turn: Turn, write: Any) -> Any:
    """Write in one commit, unless another worker holds the lane by now."""

    def attempt(again: bool) -> Any:
        with transaction.atomic():
            lock_lane(turn.session_id, turn.claim.epoch)
            return write()

    return retry_on_disconnect(attempt)


def _review(turn: Turn, agent: Agent, choice: ConsolidationChoice) -> Consolidation:
    row: Consolidation = _as_holder(
        turn,
        lambda: proposals.begin(agent, session_id=turn.session_id, run_id=turn.claim.run_id),
    )
    crash_point("consolidation_begun")
    entries = proposals.documents_of(agent, leave={HEARTBEAT})
    plan = Plan(entries, refused=proposals.refused_groups(agent))
    plan.find_duplicates()
    settled, remark = _judge(turn, agent, row, plan, choice.budget)
    uses = recent_uses(turn)
    plan.promote(uses)
    plan.fit_main(uses)
    plan.retire(uses, timezone.now())
    crash_point("consolidation_judged")
    review = proposals.Review(
        drafts=plan.drafts(),
        settled=settled,
        documents=len(entries),
        notes=len(plan.notes),
        remark=remark,
    )
    done: Consolidation = _as_holder(turn, lambda: proposals.finish(row, review))
    return done


# ── The model ────────────────────────────────────────────────────────────────


def _judge(
    turn: Turn, agent: Agent, row: Consolidation, plan: Plan, budget: Decimal
) -> tuple[list[str], str]:
    """Let the model judge similar notes. Return the groups that need no change, and what was left out."""
    groups = plan.groups()
    before = set(proposals.settled_groups(agent))
    settled = [one for one in map(digest, groups) if one in before]
    remarks: list[str] = []
    for question in questions(groups, before):
        text = row.answers.get(question.key)
        if text is None:
            text, why = _ask(turn, row, question, budget)
            if why:
                remarks.append(why)
                break
        answer = read_answer(text)
        if answer is None:
            remarks.append("An answer of the model could not be read, so its notes stay.")
        else:
            settled += plan.decide(question, answer)
    return settled, " ".join(dict.fromkeys(remarks))


def _ask(
    turn: Turn, row: Consolidation, question: consolidation.Question, budget: Decimal
) -> tuple[str, str]:
    """Return the model's answer, or why it was not asked or did not answer."""
    version = turn.version
    if version.provider == DEMO:
        return "", "The demo does not judge notes, so only equal notes were compared."
    request = ModelRequest(
        model=version.model,
        instructions=consolidation.WRITER,
        messages=(Message(role="user", text=question.text(fence_mark(turn.session_id))),),
        max_tokens=consolidation.ANSWER_TOKENS,
    )
    spent = turn.spent.cost
    if row.cost + worst_case(turn.workspace_id, version.provider, request) > budget:
        return "", f"Its budget of {dollars(budget)} is used up; the next one continues."
    try:
        text = complete(turn, version.provider, request, purpose=ModelCall.Purpose.MEMORY)
    except (ProviderFault, BudgetReached, OutOfCredits) as fault:
        log.warning("notes_not_judged", agent_id=str(turn.agent_id), why=fault.detail)
        return "", f"The model judged only some of the notes: {fault.detail}"
    cost = turn.spent.cost - spent
    row.cost += cost
    _as_holder(turn, lambda: proposals.keep_answer(row, question.key, text, cost))
    crash_point("consolidation_answered")
    return text, ""


# ── Use ──────────────────────────────────────────────────────────────────────


def recent_uses(turn: Turn) -> Uses:
    """Return which notes the newest messages find, and which documents the agent read.

    The messages are searched for again, so that no turn has to count. With a remote embedding model
    this would cost money; nothing counts as unused then.
    """
    now = timezone.now()
    documents: Counter[UUID] = Counter()
    notes: Counter[tuple[UUID, str]] = Counter()
    reader = Reader(workspace_id=turn.workspace_id, agent_id=turn.agent_id)
    if not is_local(chosen_embedder(turn.workspace_id)):
        return Uses(since=now)
    sessions = list(
        Session.objects.for_workspace(turn.workspace_id)
        .filter(agent=turn.agent_id, active_at__gte=now - WINDOW)
        .latest_first()
        .values_list("pk", flat=True)[:MOST_SESSIONS]
    )
    messages = list(_messages(turn, sessions))
    for created_at, text in messages:
        turn.check_time()
        for hit in recall(reader, text, Search(limit=FIRST_HITS)):
            documents[hit.entry_id] += 1
            if hit.strength >= GOOD_HIT and created_at >= now - LATELY:
                notes[hit.entry_id, hit.text] += 1
    documents += _reads(turn, sessions)
    is_complete = len(messages) < MOST_MESSAGES and len(sessions) < MOST_SESSIONS
    return Uses(since=now - WINDOW if is_complete else now, documents=documents, notes=notes)


def _messages(turn: Turn, sessions: Sequence[UUID]) -> Iterator[tuple[Any, str]]:
    """Yield the newest messages in these sessions, newest first."""
    rows = SessionEvent.objects.for_workspace(turn.workspace_id).filter(
        session__in=sessions,
        type=SessionEvent.Type.USER_MESSAGE,
        created_at__gte=timezone.now() - WINDOW,
    )
    newest = rows.annotate(text=KT("payload__text")).order_by("-created_at")
    for created_at, text in newest.values_list("created_at", "text")[:MOST_MESSAGES]:
        if text and text.strip():
            yield created_at, text[:LONGEST_QUERY]


def _reads(turn: Turn, sessions: Sequence[UUID]) -> Counter[UUID]:
    """Count how often each document was read by its path in these sessions."""
    rows = ToolExecution.objects.for_workspace(turn.workspace_id).filter(
        session__in=sessions,
        name="memory_get",
        created_at__gte=timezone.now() - WINDOW,
    )
    paths = Counter(rows.annotate(path=KT("input__path")).values_list("path", flat=True)[:10_000])
    known = proposals.paths_of(turn.workspace_id, turn.agent_id, list(filter(None, paths)))
    return Counter({pk: paths[path] for path, pk in known.items()})
