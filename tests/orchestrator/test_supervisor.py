"""Tests that a failing duty of the supervisor holds up no other."""

from __future__ import annotations

import threading
from decimal import Decimal

import pytest
from django.db import OperationalError

from core.exceptions import NotFound
from orchestrator import supervisor
from orchestrator.supervisor import BackgroundJob, Duty, duties, fold_usage
from sessions_app.models import ToolExecution
from tenants.billing.credits import add_credits
from tenants.models import InboxItem, ModelCall
from tenants.notifications.inbox import tell_low_credits
from tests.factories import make


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("error", [OperationalError, NotFound, ZeroDivisionError])
def test_a_failing_duty_is_retried_and_holds_up_no_other(monkeypatch, error):
    stop, tries, done = threading.Event(), [], []

    def fail() -> None:
        tries.append(1)
        raise error

    def work() -> None:
        done.append(1)
        if len(done) == 2:
            stop.set()

    monkeypatch.setattr(
        supervisor, "duties", lambda: [Duty(every=0, work=fail), Duty(every=0, work=work)]
    )
    monkeypatch.setattr(supervisor, "remove_unused_containers", lambda: None)
    supervisor._do_duties(stop)

    assert (len(tries), len(done)) == (2, 2)


@pytest.mark.django_db(transaction=True)
def test_a_mail_server_that_hangs_holds_up_no_duty(workspace, monkeypatch):
    asked, over = threading.Event(), threading.Event()

    def hang(*_, **__) -> None:
        asked.set()
        over.wait(60)

    monkeypatch.setattr("tenants.notifications.inbox.send_mail", hang)
    add_credits(workspace.pk, Decimal("-9.5"), kind="adjustment")
    jobs = [job for duty in duties() if isinstance(job := _doer(duty), BackgroundJob)]
    (teller,) = [job for job in jobs if job.act is tell_low_credits]
    teller.start()
    teller.start()

    assert asked.wait(30)
    assert teller.is_busy
    over.set()
    teller.wait()
    assert InboxItem.objects.get().title == "Credits are running low"


@pytest.mark.django_db(transaction=True)
def test_the_supervisor_folds_model_and_tool_calls_that_have_ended(workspace):
    call = make(ModelCall, workspace)
    ModelCall.objects.filter(pk=call.pk).update(state="settled")
    make(ToolExecution, workspace)
    jobs = [job for duty in duties() if isinstance(job := _doer(duty), BackgroundJob)]
    (folder,) = [job for job in jobs if job.act is fold_usage]
    folder.start()
    folder.wait()

    assert ModelCall.objects.get().folded
    assert ToolExecution.objects.get().folded


def _doer(duty: Duty) -> object:
    """Return the object whose method the duty is."""
    return getattr(duty.work, "__self__", None)
