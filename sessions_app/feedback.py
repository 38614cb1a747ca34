"""What people think of answers: one rating per person and answer, with a reason."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from django.db.models import QuerySet
from pydantic import Field

from core.exceptions import NotFound
from core.validation import STORABLE, Input
from sessions_app.models import Feedback, Session, SessionEvent
from tenants.access import Principal


class FeedbackInput(Input):
    """A rating, 1 for good and -1 for bad, and what was good or bad about the answer."""

    rating: Literal[1, -1]
    reason: Annotated[str, Field(max_length=500), STORABLE] = ""


def rate_answer(principal: Principal, session: Session, seq: int, given: FeedbackInput) -> Feedback:
    """Store what a person thinks of an answer, in place of what they thought before."""
    answers = session.events.filter(seq=seq, type=SessionEvent.Type.AGENT_MESSAGE)
    if principal.user is None or not answers.exists():
        raise NotFound("This session has no answer with this number.")
    feedback, _ = Feedback.objects.update_or_create(
        session=session,
        seq=seq,
        person=principal.user,
        defaults={"rating": given.rating, "reason": given.reason.strip()},
        create_defaults={
            "workspace_id": session.workspace_id,
            "created_by": principal.user,
            "rating": given.rating,
            "reason": given.reason.strip(),
        },
    )
    return feedback


def withdraw_rating(principal: Principal, session: Session, seq: int) -> None:
    Feedback.objects.filter(session=session, seq=seq, person=principal.user).delete()


def own_ratings(session_id: UUID, person_id: UUID | None) -> dict[int, int]:
    """Return a person's ratings of a session's answers, by the seq of the answer."""
    rows = Feedback.objects.filter(session_id=session_id, person_id=person_id)
    return dict(rows.values_list("seq", "rating"))


def feedback_rows(workspace_id: UUID) -> QuerySet[Feedback]:
    """Return the feedback of a workspace with everything that lists show."""
    rows = Feedback.objects.for_workspace(workspace_id)
    return rows.select_related("session__agent_version", "person")
