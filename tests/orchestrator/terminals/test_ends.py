"""Tests of terminals that end on their own, and of rows that a dead host left open."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta

from django.conf import settings
from django.db import connection
from django.utils import timezone

from core.env import ROOT
from orchestrator.models import Terminal
from orchestrator.supervisor import duties
from orchestrator.terminals import client, terminals
from sessions_app.sessions import archive
from tenants.models import Pulse
from tests.orchestrator.terminals.conftest import is_closed, now, reachable, until
from tools_app.sandbox.processes import marked_sessions


def test_a_terminal_ends_with_its_session(terminal, session):
    archive(session, None)
    client.ask(do="look")

    until(lambda: is_closed(terminal))
    assert now(terminal).reason == "The session was archived."


def test_an_idle_terminal_without_viewers_ends(terminal, settings):
    client.ask(do="look")
    assert not is_closed(terminal)
    settings.TERMINAL_IDLE_SECONDS = 0
    client.ask(do="look")

    until(lambda: is_closed(terminal))


def test_the_supervisor_closes_terminals_without_a_living_host(terminal):
    until(lambda: Pulse.objects.filter(kind=terminals.PULSE).exists())
    terminals.close_lost()
    assert now(terminal).status == Terminal.Status.OPEN
    old = timezone.now() - timedelta(seconds=settings.PULSE_SECONDS + 60)
    Terminal.objects.filter(pk=terminal.pk).update(host_pid=1)
    Pulse.objects.create(kind=terminals.PULSE, host=terminals.machine(), pid=1, at=old)

    assert terminals.close_lost() == 1
    assert now(terminal).reason == terminals.LOST
    assert terminals.close_lost in [duty.work for duty in duties()]


def test_a_terminal_that_never_opened_is_closed(transactional_db, session):
    made = Terminal.objects.create(workspace_id=session.workspace_id, session=session)
    assert terminals.close_lost() == 0
    late = timezone.now() - timedelta(seconds=terminals.OPENING_SECONDS + 1)
    Terminal.objects.filter(pk=made.pk).update(created_at=late)

    assert terminals.close_lost() == 1


def start_host() -> subprocess.Popen[bytes]:
    name = connection.settings_dict["NAME"]
    given = connection.settings_dict
    address = f"postgres://{given['USER']}@/{name}?host={given['HOST']}"
    if given["PORT"]:
        address += f"&port={given['PORT']}"
    env = {**os.environ, "DATABASE_URL": address, "DATA_DIR": str(settings.DATA_DIR)}
    env |= {"DJANGO_SETTINGS_MODULE": "config.settings.local"}
    return subprocess.Popen([sys.executable, "manage.py", "terminals"], cwd=ROOT, env=env)


def test_the_shells_of_a_killed_host_end_and_the_next_host_closes_their_rows(
    transactional_db, session, principal
):
    first = start_host()
    try:
        until(reachable)
        terminal = terminals.open_terminal(principal, session)
        assert marked_sessions(kind="terminal") == [session.pk]
        first.send_signal(signal.SIGKILL)
        first.wait()
        until(lambda: session.pk not in marked_sessions(kind="terminal"))
        assert now(terminal).status == Terminal.Status.OPEN
        second = start_host()
        try:
            until(lambda: is_closed(terminal))
            assert now(terminal).reason == terminals.LOST
            until(reachable)
        finally:
            second.terminate()
            assert second.wait(30) == 0
    finally:
        first.kill()
        first.wait()
