"""Tests of the page of one session: its tabs, its bounded size and its actions."""

from __future__ import annotations

import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.lanes import run_queue
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Session, SessionEvent
from sessions_app.pages.session import replay_moment
from sessions_app.pages.transcript_lines import CallLine
from sessions_app.resources.files import store_file
from sessions_app.sessions import get_or_create_session
from tests.conftest import add_member
from tests.sessions_app.conftest import OWNER, serve
from tests.sessions_app.parking import park
from tests.sessions_app.stage import WORDS, call, say

E = SessionEvent.Type
TABS = ["", "timeline/", "context/", "tree/", "files/", "outcome/", "events/", "replay/"]


def said(text: str) -> NewEvent:
    return NewEvent(type=E.AGENT_MESSAGE, payload={"text": text})


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_opens_for_a_new_session(browser_client, session, tab):
    page = browser_client.get(f"/sessions/{session.pk}/{tab}").text

    assert 'aria-current="page"' in page
    assert "style=" not in page


@pytest.mark.parametrize("tab", TABS)
def test_a_long_session_costs_no_more_queries_and_no_longer_page(browser_client, session, tab):
    def measure() -> tuple[int, int]:
        with CaptureQueriesContext(connection) as captured:
            answer = browser_client.get(f"/sessions/{session.pk}/{tab}")
        assert answer.status_code == 200
        return len(captured), len(answer.content)

    append_events(session.pk, [said(f"Line {n}.") for n in range(300)])
    queries, size = measure()
    append_events(session.pk, [said(f"Line {n}.") for n in range(3_000)])
    again, larger = measure()

    assert again <= queries
    assert larger < size + 60_000


def test_the_transcript_is_paged(browser_client, session):
    append_events(session.pk, [said(f"Line {n}.") for n in range(1, 301)])
    newest = browser_client.get(f"/sessions/{session.pk}/").text
    earlier = browser_client.get(f"/sessions/{session.pk}/?before=101").text

    assert "Line 300." in newest
    assert "Line 100." not in newest
    assert 'href="?before=101"' in newest
    assert "Line 100." in earlier
    assert "Line 101." not in earlier


def test_events_are_escaped_and_filtered_by_type(browser_client, session):
    bad = "<script>alert(1)</script>"
    append_events(session.pk, [said(bad), NewEvent(type=E.ERROR, payload={"message": "Broke"})])
    page = browser_client.get(f"/sessions/{session.pk}/events/").text
    only = browser_client.get(f"/sessions/{session.pk}/events/?type=session.error").text

    assert bad not in page
    assert "&lt;script&gt;" in page
    assert re.findall(r'id="event-(\d+)"', page) == ["2", "1"]
    assert re.findall(r'id="event-(\d+)"', only) == ["2"]


def test_events_are_paged_by_seq(browser_client, session):
    append_events(session.pk, [said(f"Line {n}.") for n in range(60)])
    page = browser_client.get(f"/sessions/{session.pk}/events/").text
    rest = browser_client.get(f"/sessions/{session.pk}/events/?before=11").text

    assert 'href="?before=11"' in page
    assert re.findall(r'id="event-(\d+)"', rest) == [str(n) for n in range(10, 0, -1)]


def test_a_replay_shows_the_state_at_that_event(browser_client, session):
    park(session, "tu_1")
    result = {"tool_use_id": "tu_1", "name": "clean", "state": "completed", "output": "tidy"}
    append_events(session.pk, [NewEvent(type=E.AGENT_TOOL_RESULT, payload=result)])
    asked = session.events.get(type=E.AGENT_TOOL_USE).seq
    session.refresh_from_db()
    by_then, by_now = replay_moment(session, asked), replay_moment(session, session.last_seq)

    assert [line.state for line in by_then.lines if isinstance(line, CallLine)] == ["running"]
    assert [line.state for line in by_now.lines if isinstance(line, CallLine)] == ["completed"]
    part = browser_client.get(
        f"/sessions/{session.pk}/replay/?at={asked}", headers={"X-Part": "moment"}
    )
    assert "<html" not in part.text
    assert f'data-seq="{asked}"' in part.text


@pytest.mark.parametrize("at", ["0", "-1", "x", "99999999999999999999", "²"])
def test_a_replay_at_an_invalid_seq_still_opens(browser_client, session, at):
    append_events(session.pk, [said("Hello")])

    assert browser_client.get(f"/sessions/{session.pk}/replay/?at={at}").status_code == 200


def test_a_replay_shows_a_queued_message(browser_client, session, principal):
    say(session, principal, "First")
    assert run_queue.claim(session.pk, OWNER)
    waiting = say(session, principal, "Second")
    session.refresh_from_db()

    assert [line.kind for line in replay_moment(session, waiting.seq).lines] == ["person", "person"]


def test_a_fork_shares_the_past_up_to_the_event(browser_client, session):
    append_events(session.pk, [said("One"), said("Two"), said("Three")])
    answer = browser_client.post(f"/sessions/{session.pk}/fork/", {"at_seq": "2"})
    forked = Session.objects.exclude(pk=session.pk).get()

    assert answer["Location"] == f"/chat/{forked.pk}/"
    assert [event.payload["text"] for event in forked.events.order_by("seq")] == ["One", "Two"]
    assert browser_client.post(f"/sessions/{session.pk}/fork/", {}).status_code == 400


def test_a_viewer_can_read_but_not_fork_or_upload(client, workspace, session):
    client.force_login(add_member(workspace, "viewer"))
    append_events(session.pk, [said("One")])
    page = client.get(f"/sessions/{session.pk}/events/").text

    assert "Fork from here" not in page
    assert client.post(f"/sessions/{session.pk}/fork/", {"at_seq": "1"}).status_code == 403
    assert client.post(f"/sessions/{session.pk}/files/", {}).status_code == 403
    assert 'type="file"' not in client.get(f"/sessions/{session.pk}/files/").text


def test_files_are_listed_uploaded_and_saved(browser_client, session):
    store_file(session, "reports/<b>.md", [b"bold"])
    file = SimpleUploadedFile("notes.md", b"hello")
    browser_client.post(f"/sessions/{session.pk}/files/?path=reports", {"file": file})
    page = browser_client.get(f"/sessions/{session.pk}/files/?path=reports").text

    assert "notes.md uploaded." in page
    assert "&lt;b&gt;.md" in page
    saved = re.search(r'href="(/api/v1/sessions/[^"]+notes\.md)" download', page)
    assert saved
    assert b"".join(browser_client.get(saved[1]).streaming_content) == b"hello"
    assert browser_client.get(f"/sessions/{session.pk}/files/?path=nowhere").status_code == 404
    assert browser_client.get(f"/sessions/{session.pk}/files/?path=../..").status_code == 404


def test_the_tree_lists_each_child_below_its_parent_with_totals(browser_client, agent, session):
    first, _ = get_or_create_session(agent=agent, title="First child", parent=session)
    second, _ = get_or_create_session(agent=agent, title="Second child", parent=session)
    get_or_create_session(agent=agent, title="Grandchild", parent=first)
    Session.objects.filter(pk__in=[first.pk, second.pk]).update(cost="0.25", input_tokens=2_000)
    page = browser_client.get(f"/sessions/{session.pk}/tree/").text

    assert re.findall(r"(First child|Second child|Grandchild)</a>", page) == [
        "First child",
        "Grandchild",
        "Second child",
    ]
    assert "$0.5000" in page
    assert "4.0k" in page


def test_the_context_is_a_bar_of_parts(browser_client, session, principal):
    say(session, principal, "What is in <the> yard?")
    page = browser_client.get(f"/sessions/{session.pk}/context/").text

    assert "Instructions" in page
    assert re.search(r'<rect class="part-instructions" x="0" y="0" width="\d+"', page)


def test_the_timeline_shows_a_run_with_its_model_and_tool_calls(
    browser_client, session, principal, script, stage_tools
):
    script([call("look", "boats")], WORDS)
    say(session, principal)
    serve(session.pk)
    page = browser_client.get(f"/sessions/{session.pk}/timeline/").text

    assert len(re.findall('class="span span-model"', page)) == 2
    assert len(re.findall('class="span span-tool"', page)) == 1
    assert len(re.findall('class="span span-run"', page)) == 1
    run = session.runs.get()
    zoomed = browser_client.get(f"/sessions/{session.pk}/timeline/?run={run.pk}").text
    assert "All runs" in zoomed


def test_the_timeline_shows_a_call_that_waits_for_a_person(
    browser_client, session, principal, script, stage_tools
):
    script([call("ask_first", "boats")], WORDS)
    say(session, principal)
    serve(session.pk)
    page = browser_client.get(f"/sessions/{session.pk}/timeline/").text

    assert len(re.findall('class="span span-wait"', page)) == 1
    assert "Needs you" in page
