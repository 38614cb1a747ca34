"""Tests of the branches of a chat: what they share, where they part, and which one is shown."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from agents.providers.base import TextDelta
from core.exceptions import Conflict
from sessions_app.accept import accept_event
from sessions_app.branches import branch, show_branch, variants_of
from sessions_app.models import ResourceAttachment, Session
from sessions_app.pages.chat import read_conversation
from sessions_app.pages.transcript_lines import PersonLine
from sessions_app.resources.files import open_stored, store_file
from tests.sessions_app.conftest import serve


def tell(principal, session, text) -> int:
    sent = accept_event(principal, session.pk, type="user.message", payload={"text": text})
    serve(session.pk)
    session.refresh_from_db()
    return sent.seq


@pytest.fixture
def talk(script):
    script(*([TextDelta(text=f"Answer {n}.")] for n in range(20)))


def shown_variants(session) -> dict[str, tuple[int, int]]:
    session.refresh_from_db()
    lines = read_conversation(session).lines
    people = [line for line in lines if isinstance(line, PersonLine)]
    return {one.text: (one.variant.number, one.variant.count) for one in people if one.variant}


def test_an_edited_message_begins_a_branch_that_the_chat_shows_in_place(session, principal, talk):
    tell(principal, session, "first")
    seq = tell(principal, session, "second")
    Session.objects.filter(pk=session.pk).update(title="Boats", folder="Work")
    session.refresh_from_db()

    made = branch(session, seq - 1)
    tell(principal, made, "second, better")

    assert (made.title, made.folder, made.created_by_id) == ("Boats", "Work", session.created_by_id)
    assert shown_variants(made) == {"second, better": (2, 2)}
    assert shown_variants(session) == {"second": (1, 2)}
    assert variants_of(made)[seq - 1].previous == session.pk
    assert variants_of(session)[seq - 1].next == made.pk
    assert list(Session.objects.chats()) == [made]


def test_showing_a_branch_again_lets_the_list_lead_to_it(session, principal, talk):
    seq = tell(principal, session, "first")
    tell(principal, branch(session, seq - 1), "other")
    session.refresh_from_db()

    show_branch(session)

    assert list(Session.objects.chats()) == [session]


def test_branches_of_branches_are_counted_where_they_part(session, principal, talk):
    first = tell(principal, session, "one")
    second = tell(principal, session, "two")
    other_two = branch(session, second - 1)
    tell(principal, other_two, "two b")
    third = tell(principal, other_two, "three")
    other_three = branch(other_two, third - 1)
    tell(principal, other_three, "three b")
    other_one = branch(other_three, first - 1)
    tell(principal, other_one, "one b")

    assert shown_variants(other_three) == {"one": (1, 2), "two b": (2, 2), "three b": (2, 2)}
    assert shown_variants(session) == {"one": (1, 2), "two": (1, 2)}
    assert shown_variants(other_one) == {"one b": (2, 2)}
    assert variants_of(other_one)[first - 1].previous in {session.pk, other_two.pk, other_three.pk}


def test_a_branch_has_the_files_and_resources_of_its_session(session, principal, talk):
    seq = tell(principal, session, "first")
    store_file(session, "notes/a.txt", [b"hello"])
    ResourceAttachment.objects.create(
        workspace_id=session.workspace_id, session=session, kind="vault", mount_path="/vaults/k"
    )

    made = branch(session, seq - 1)
    store_file(made, "notes/a.txt", [b"changed"])

    with open_stored(session, "notes/a.txt") as file:
        assert file.read() == b"hello"
    assert list(made.resources.values_list("mount_path", "status")) == [("/vaults/k", "pending")]


def test_a_builder_session_has_no_branches(session, agent):
    Session.objects.filter(pk=session.pk).update(about=agent)
    session.refresh_from_db()

    with pytest.raises(Conflict, match="Only chats"):
        branch(session, 0)


@pytest.mark.django_db(transaction=True)
def test_of_branches_made_at_the_same_time_one_is_shown(session, principal, talk):
    tell(principal, session, "first")

    def make(_: int) -> None:
        try:
            branch(Session.objects.get(pk=session.pk), 0)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, range(4)))

    session.refresh_from_db()
    assert Session.objects.branches(session).count() == 5
    assert Session.objects.branches(session).filter(is_shown=True).count() == 1


def test_rest_makes_a_branch_of_the_same_chat(api, session, principal, talk):
    seq = tell(principal, session, "first")
    answer = api.post(
        f"/api/v1/sessions/{session.pk}/fork/", {"at_seq": seq - 1, "branch": True}, format="json"
    )

    assert answer.status_code == 201, answer.json()
    assert answer.json()["branch_root"] == str(session.pk)
    assert answer.json()["branch_seq"] == seq - 1
    assert answer.json()["title"] == session.title
