"""Tests of the conversation over REST: the newest text of each message and its receipt."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.providers.base import TextDelta, Usage
from sessions_app.lanes import run_queue
from sessions_app.log.payloads import MAX_TEXT_LENGTH
from sessions_app.models import Run
from tests.sessions_app.api.test_events import assert_problem
from tests.sessions_app.api.test_sessions import at, post
from tests.sessions_app.conftest import OWNER, serve

WORDS = [TextDelta(text="Hello "), TextDelta(text="you."), Usage(input_tokens=5, output_tokens=2)]


def say(api, session, text, **more):
    answer = post(api, at(session, "messages/"), {"text": text, **more})
    assert answer.status_code == 202, answer.content
    return answer.json()


def said(api, session, **query):
    return api.get(at(session, "messages/"), query).json()["results"]


def test_a_message_and_its_answer_have_the_published_shape(api, session, script):
    script(WORDS)
    file = {"name": "a.txt", "path": "/workspace/a.txt", "media_type": "text/plain", "size": 3}
    sent = say(api, session, "  Hi\n", attachments=[file])
    serve(session.pk)
    asked, answered = said(api, session)

    assert asked == {
        "id": sent["event"]["id"],
        "seq": 1,
        "role": "user",
        "text": "  Hi\n",
        "attachments": [file],
        "edited": False,
        "model": None,
        "usage": None,
        "run_id": sent["run_id"],
        "receipt": {"state": "answered", "run_id": sent["run_id"]},
        "created_at": asked["created_at"],
    }
    assert (answered["role"], answered["text"], answered["model"]) == (
        "assistant",
        "Hello you.",
        "demo",
    )
    usage = {"input_tokens": 5, "output_tokens": 2, "cached_tokens": 0, "cost": "0"}
    assert answered["usage"] == usage
    assert answered["run_id"] == sent["run_id"]
    assert answered["receipt"] is None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": ""},
        {"text": " \n "},
        {"text": None},
        {"text": "x" * (MAX_TEXT_LENGTH + 1)},
        {"text": "x", "attachments": [{"name": "no path"}]},
        {"text": "x", "attachments": [{"name": "n", "path": "p"}] * 21},
        {"text": "x", "attachments": [{"name": "n", "path": "a/../../../me/"}]},
        {"text": "x", "attachments": [{"name": "n", "path": "/workspace/../etc/passwd"}]},
        {"text": "x", "attachments": [{"name": "n", "path": "/etc/passwd"}]},
        {"text": "x", "attachments": [{"name": "n", "path": "a\nb"}]},
        {"text": "x", "on_busy": "no"},
        {"text": "x", "priority": "high"},
    ],
)
def test_a_message_that_is_not_valid_is_refused(api, session, body):
    assert_problem(post(api, at(session, "messages/"), body), 400, "invalid")
    assert said(api, session) == []


def test_a_repeated_message_is_sent_once(api, session):
    word = {"Idempotency-Key": "w-9"}
    answers = [post(api, at(session, "messages/"), {"text": "once"}, **word) for _ in range(2)]

    assert answers[0].json() == answers[1].json()
    assert Run.objects.count() == 1


def states(api, session) -> dict[str, str]:
    return {m["text"]: m["receipt"]["state"] for m in said(api, session) if m["receipt"]}


def test_each_receipt_shows_the_state_of_its_message(api, session, script):
    say(api, session, "first")
    claim = run_queue.claim(session.pk, OWNER)
    say(api, session, "alone")
    say(api, session, "one", on_busy="collect")
    say(api, session, "two", on_busy="collect")
    gone = say(api, session, "never mind")
    say(api, session, "also", on_busy="steer")
    post(
        api,
        at(session, "events/"),
        {"type": "user.message_withdrawn", "payload": {"seq": gone["event"]["seq"]}},
    )
    assert states(api, session) == {
        "first": "answered",
        "alone": "queued",
        "one": "queued",
        "two": "queued",
        "never mind": "withdrawn",
        "also": "queued",
    }
    run_queue.step(claim)
    run_queue.finish(claim, None)
    script(WORDS, WORDS)
    serve(session.pk)

    assert states(api, session) == {
        "first": "answered",
        "alone": "answered",
        "one": "answered",
        "two": "merged",
        "never mind": "withdrawn",
        "also": "steered",
    }


def test_an_edited_message_shows_its_newest_wording(api, session):
    seq = say(api, session, "helo")["event"]["seq"]
    for text in ("hello", "hello!"):
        body = {"type": "user.message_edited", "payload": {"seq": seq, "text": text}}
        assert post(api, at(session, "events/"), body).status_code == 202
    (message,) = said(api, session)

    assert (message["text"], message["edited"]) == ("hello!", True)


def test_a_message_that_was_queued_at_a_fork_is_withdrawn_in_the_fork(api, session):
    say(api, session, "hello")
    forked = post(api, at(session, "fork/"), {"at_seq": 1}).json()["id"]

    assert states(api, session) == {"hello": "queued"}
    assert states(api, forked) == {"hello": "withdrawn"}


def test_the_transcript_is_paged_by_seq_at_a_constant_cost(api, session):
    def cost(**query) -> int:
        with CaptureQueriesContext(connection) as queries:
            said(api, session, **query)
        return len(queries)

    say(api, session, "0")
    cost()
    one = cost()
    for number in range(1, 7):
        say(api, session, str(number))
    first = api.get(at(session, "messages/"), {"limit": 4}).json()
    second = api.get(first["next"]).json()

    assert [m["text"] for page in (first, second) for m in page["results"]] == list("0123456")
    assert second["next"] is None
    assert cost() == one
