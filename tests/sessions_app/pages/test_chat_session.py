"""The page of one conversation, as the server writes it."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import uuid4

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from core.ids import uuid7
from sessions_app.lanes import run_queue
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Draft, Session, SessionEvent
from sessions_app.pages.transcript import WINDOW_EVENTS
from sessions_app.sessions import archive
from tests.conftest import add_member
from tests.sessions_app.conftest import OWNER, serve

E = SessionEvent.Type


def ask(session: Session, text: str, on_busy: str = "followup") -> None:
    run_queue.accept(
        session.pk, NewEvent(type=E.USER_MESSAGE, payload={"text": text}), on_busy=on_busy
    )


def bootstrap_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="chat-bootstrap" type="application/json">(.*?)</script>', page)
    assert found
    return dict(json.loads(found[1]))


def test_a_turn_is_told_with_its_calls(browser_client, session):
    ask(session, "List the files")
    serve(session.pk)
    page = browser_client.get(f"/chat/{session.pk}/").text

    assert '<div class="bubble prose" data-text data-markdown>List the files</div>' in page
    assert "the built-in demo" in page
    assert '<span class="call-title">List a folder</span>' in page
    assert '<span class="sr-only">Done</span>' in page


def test_what_people_and_models_write_is_text(browser_client, session):
    nasty = "see </script><img src=x onerror=alert(1)> there"
    ask(session, f"say {nasty}")
    serve(session.pk)
    page = browser_client.get(f"/chat/{session.pk}/").text

    assert nasty not in page
    assert page.count("&lt;img src=x") == 2


def test_a_file_that_no_route_leads_to_does_not_hide_the_conversation(browser_client, session):
    files = [
        {"name": "odd", "path": "odd\nname.md"},
        {"name": "none", "path": ""},
        {"name": "climbs", "path": "a/../../../../me/"},
    ]
    payload = {"text": "Look at this", "attachments": files}
    run_queue.accept(session.pk, NewEvent(type=E.USER_MESSAGE, payload=payload))
    page = browser_client.get(f"/chat/{session.pk}/").text

    assert f"/api/v1/sessions/{session.pk}/files/odd%0Aname.md" in page
    assert "files/a/.." not in page, "a browser would follow it to another page"


def test_the_island_goes_on_from_the_last_event_of_the_page(browser_client, session):
    ask(session, "count to 3")
    serve(session.pk)
    session.refresh_from_db()
    bootstrap = bootstrap_of(browser_client.get(f"/chat/{session.pk}/").text)

    assert (bootstrap["first_seq"], bootstrap["last_seq"]) == (1, session.last_seq)
    assert (bootstrap["status"], bootstrap["status_label"]) == ("idle", "Idle")
    assert bootstrap["lines"] == f"/chat/{session.pk}/lines/"
    assert bootstrap["api"] == f"/api/v1/sessions/{session.pk}/"


def test_a_message_about_to_be_read_is_in_the_conversation(browser_client, session):
    ask(session, "Hello there")
    page = browser_client.get(f"/chat/{session.pk}/").text

    assert '<div class="bubble prose" data-text data-markdown>Hello there</div>' in page
    assert re.search(r"data-queue [^>]*hidden", page)


def test_messages_behind_a_running_answer_are_in_the_queue(browser_client, session):
    ask(session, "first")
    assert run_queue.claim(session.pk, OWNER)
    ask(session, "second")
    page = browser_client.get(f"/chat/{session.pk}/").text

    assert '<div class="bubble prose" data-text data-markdown>second</div>' not in page
    assert '<span class="queue-text">second</span>' in page
    assert [run["text"] for run in bootstrap_of(page)["queue"]] == ["second"]


def test_the_draft_of_a_running_answer_is_there_after_a_reload(browser_client, session):
    ask(session, "first")
    claim = run_queue.claim(session.pk, OWNER)
    assert claim
    event_id = uuid7()
    Draft.objects.create(
        session=session,
        event_id=event_id,
        run_id=claim.run_id,
        epoch=claim.epoch,
        text="Half an 🚂",
    )
    page = browser_client.get(f"/chat/{session.pk}/").text

    assert f'data-key="{event_id}" data-version="" data-streaming' in page
    assert "Half an 🚂</div>" in page


def test_a_waiting_call_can_be_answered_without_a_script(browser_client, session):
    ask(session, "run rm <b>")
    serve(session.pk)
    page = browser_client.get(f"/chat/{session.pk}/").text

    assert 'name="answer" value="once"' in page
    assert "&quot;command&quot;: &quot;rm &lt;b&gt;&quot;" in page
    assert "may change the session&#x27;s files" in page


def test_sending_without_a_script_comes_back_to_the_conversation(browser_client, session):
    form = {"text": "line one\r\nline two", "once": str(uuid4())}
    answer = browser_client.post(f"/chat/{session.pk}/", form)
    browser_client.post(f"/chat/{session.pk}/", form)

    assert answer.headers["Location"] == f"/chat/{session.pk}/"
    assert session.events.get().payload["text"] == "line one\nline two"


def test_an_archived_session_keeps_what_was_typed_and_says_why(browser_client, session, owner):
    archive(session, owner.pk)
    form = {"text": "too late", "once": str(uuid4())}
    answer = browser_client.post(f"/chat/{session.pk}/", form)

    assert answer.status_code == 409
    assert "too late</textarea>" in answer.text
    assert "This chat is archived." in answer.text


def test_an_unknown_choice_of_when_to_send_is_refused(browser_client, session):
    form = {"text": "x", "once": str(uuid4()), "on_busy": "reject"}

    assert browser_client.post(f"/chat/{session.pk}/", form).status_code == 400
    assert not session.events.exists()


def test_who_may_only_read_reads_along(workspace, session):
    ask(session, "count to 3")
    serve(session.pk)
    client = Client()
    client.force_login(add_member(workspace, "viewer"))
    page = client.get(f"/chat/{session.pk}/").text

    assert "1 2 3" in page
    assert "Chatting with agents requires the builder role." in page
    assert 'aria-label="New chat"' not in page
    assert bootstrap_of(page)["may_run"] is False
    form = {"text": "x", "once": str(uuid4())}
    assert client.post(f"/chat/{session.pk}/", form).status_code == 403


def fill(session: Session, count: int) -> None:
    events = [
        NewEvent(type=E.AGENT_MESSAGE, payload={"text": f"Answer number {nth}."})
        for nth in range(1, count + 1)
    ]
    append_events(session.pk, events)


def test_a_long_session_takes_as_many_queries_as_a_short_one(browser_client, session):
    fill(session, 2)
    before = queries_of(browser_client, session)
    fill(session, WINDOW_EVENTS + 300)

    assert queries_of(browser_client, session) == before


def test_a_long_session_opens_with_its_newest_part(browser_client, session):
    fill(session, 2 * WINDOW_EVENTS + 50)
    page = browser_client.get(f"/chat/{session.pk}/").text
    session.refresh_from_db()
    first = session.last_seq - WINDOW_EVENTS + 1
    assert bootstrap_of(page)["first_seq"] == first
    assert f'href="?before={first}" data-earlier' in page
    assert page.count(" data-seq=") == WINDOW_EVENTS
    earlier = browser_client.get(f"/chat/{session.pk}/?before={first}").text
    assert earlier.count(" data-seq=") == WINDOW_EVENTS
    assert f'href="?before={first - WINDOW_EVENTS}"' in earlier
    assert 'data-island="chat"' not in earlier
    assert "Back to latest" in earlier


def queries_of(client: Client, session: Session) -> int:
    with CaptureQueriesContext(connection) as captured:
        client.get(f"/chat/{session.pk}/")
    return len(captured)


def test_a_huge_result_is_clipped_and_says_so(browser_client, session):
    use = {"tool_use_id": "tu_1", "name": "read", "input": {"path": "a"}, "decision": "allow"}
    result = {"tool_use_id": "tu_1", "name": "read", "state": "completed", "output": "x" * 90_000}
    append_events(
        session.pk,
        [
            NewEvent(type=E.AGENT_TOOL_USE, payload=use),
            NewEvent(type=E.AGENT_TOOL_RESULT, payload=result),
        ],
    )
    page = browser_client.get(f"/chat/{session.pk}/").text

    assert page.count("x") < 30_000
    assert 'data-action="whole-output" data-at="2"' in page


def test_the_page_is_kept_by_no_cache(browser_client, session):
    assert "no-store" in browser_client.get(f"/chat/{session.pk}/").headers["Cache-Control"]
