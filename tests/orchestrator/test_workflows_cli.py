"""Tests of `manage.py workflows`."""

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


def run_command(*words: str) -> str:
    out = StringIO()
    call_command("workflows", *words, stdout=out)
    return out.getvalue().strip()


def test_a_workflow_is_started_shown_and_approved():
    id = run_command("start", "asks", "--id", "first", "--params", '{"n": 1}')
    assert run_command("start", "asks", "--id", "first", "--params", '{"n": 1}') == id
    serve()
    assert "waiting_approval" in run_command("list", "--name", "asks")
    assert run_command("approve", "first", "--note", "yes") == f"{id}  queued"
    serve()
    seen = json.loads(run_command("status", "first", "--json"))

    assert (seen["status"], seen["result"]) == ("complete", "yes")
    assert "result" in run_command("status", id)
    log = run_command("events", "first").splitlines()
    assert len(log) == 8
    assert "status=complete" in log[-1]
    assert run_command("events", "first", "--after", "7") == log[-1].strip()


def test_a_workflow_is_paused_resumed_terminated_and_restarted():
    id = run_command("start", "asks")
    serve()

    assert run_command("pause", id).endswith("paused")
    assert run_command("resume", id).endswith("waiting_approval")
    assert run_command("terminate", id).endswith("terminated")
    assert run_command("restart", id).endswith("queued")


@pytest.mark.django_db(transaction=True)
def test_a_restarted_workflow_is_followed_to_its_second_end(define):
    define(lambda self, event, step: 1, name="quick")
    id = run_command("start", "quick")
    serve()
    run_command("restart", id)
    serve()
    log = run_command("events", id)
    assert log.count("status=complete") == 2

    assert run_command("events", id, "--follow") == log


def test_definitions_are_listed():
    assert "digest@1" in run_command("definitions")


@pytest.mark.parametrize(
    "words", [["status", "nothing"], ["start", "nothing"], ["start", "asks", "--params", "{"]]
)
def test_an_error_is_printed_in_one_line(words):
    with pytest.raises(CommandError) as error:
        run_command(*words)
    assert "\n" not in str(error.value)
