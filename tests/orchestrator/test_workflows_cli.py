"""`manage.py workflows`: the same life as over REST."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.orchestrator.conftest import serve

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _asks(define, workspace):
    define(lambda self, event, step: step.wait_for_approval("ok")["note"], name="asks")


def say(*words: str) -> str:
    out = StringIO()
    call_command("workflows", *words, stdout=out)
    return out.getvalue().strip()


def test_a_workflow_is_started_looked_at_and_approved():
    id = say("start", "asks", "--id", "first", "--params", '{"n": 1}')
    assert say("start", "asks", "--id", "first", "--params", '{"n": 1}') == id
    serve()
    assert "waiting_approval" in say("list", "--name", "asks")
    assert say("approve", "first", "--note", "yes") == f"{id}  queued"
    serve()
    seen = json.loads(say("status", "first", "--json"))

    assert (seen["status"], seen["result"]) == ("complete", "yes")
    assert "result" in say("status", id)
    log = say("events", "first").splitlines()
    assert len(log) == 8
    assert "status=complete" in log[-1]
    assert say("events", "first", "--after", "7") == log[-1].strip()


def test_a_workflow_is_paused_resumed_terminated_and_restarted():
    id = say("start", "asks")
    serve()

    assert say("pause", id).endswith("paused")
    assert say("resume", id).endswith("waiting_approval")
    assert say("terminate", id).endswith("terminated")
    assert say("restart", id).endswith("queued")


@pytest.mark.django_db(transaction=True)
def test_one_that_was_restarted_is_followed_to_its_second_end(define):
    define(lambda self, event, step: 1, name="quick")
    id = say("start", "quick")
    serve()
    say("restart", id)
    serve()
    log = say("events", id)
    assert log.count("status=complete") == 2

    assert say("events", id, "--follow") == log


def test_what_can_be_started_is_listed():
    assert "digest@1" in say("definitions")


@pytest.mark.parametrize(
    "words", [["status", "nothing"], ["start", "nothing"], ["start", "asks", "--params", "{"]]
)
def test_what_cannot_be_done_is_said_in_one_line(words):
    with pytest.raises(CommandError) as error:
        say(*words)
    assert "\n" not in str(error.value)
