"""Tests of who the speaker of a turn is, and of how a turn counts its returned answers."""

from __future__ import annotations

from uuid import UUID

import pytest

from sessions_app.approvals.tool_calls import resume
from sessions_app.context.builder import load_basis
from sessions_app.lanes import run_queue
from sessions_app.lanes.run_queue import Claim
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Session
from sessions_app.outcomes.judging import count_returns
from tenants.models import User
from tests.conftest import add_member
from tests.sessions_app.conftest import OWNER
from tests.sessions_app.lanes.test_run_queue import answer, send
from tests.sessions_app.stage import E

pytestmark = pytest.mark.django_db


@pytest.fixture
def other(workspace) -> User:
    return add_member(workspace, "builder")


def claimed(session: Session) -> Claim:
    claim = run_queue.claim(session.pk, OWNER)
    assert claim
    return claim


def speaker(claim: Claim) -> UUID | None:
    return load_basis(claim.session_id, run_id=claim.run_id).speaker_id


def test_the_author_of_a_steered_message_becomes_the_speaker_when_it_is_taken(
    session, owner, other
):
    send(session, author_id=owner.pk)
    claim = claimed(session)
    send(session, "also", author_id=other.pk, on_busy="steer")
    assert speaker(claim) == owner.pk

    run_queue.step(claim)

    assert speaker(claim) == other.pk


def parked_after_another(session: Session, owner: User, other: User) -> Claim:
    """Resume the owner's turn after another person's later turn ran before it."""
    send(session, "mine", author_id=owner.pk)
    send(session, "urgent", author_id=other.pk, priority=5)
    urgent = claimed(session)
    judge(urgent)
    judge(urgent)
    following = run_queue.finish(urgent, OWNER, events=[answer()]).next
    assert following
    judge(following)
    run_queue.finish(following, None)
    Session.objects.filter(pk=session.pk).update(status="requires_action")
    resume(session, None)
    return claimed(session)


def judge(claim: Claim) -> None:
    event = NewEvent(type=E.OUTCOME_JUDGED, payload={"status": "not_met", "returned": True})
    append_events(claim.session_id, [event], epoch=claim.epoch, run_id=claim.run_id)


def test_a_resumed_turn_speaks_for_the_person_who_started_it(session, owner, other):
    assert speaker(parked_after_another(session, owner, other)) == owner.pk


def test_a_resumed_turn_counts_its_own_returns(session, owner, other):
    resumed = parked_after_another(session, owner, other)

    assert count_returns(resumed.run_id) == 1


def test_the_author_of_a_message_steered_into_a_resumed_turn_becomes_the_speaker(
    session, owner, other
):
    resumed = parked_after_another(session, owner, other)
    send(session, "and", author_id=other.pk, on_busy="steer")
    run_queue.step(resumed)

    assert speaker(resumed) == other.pk
