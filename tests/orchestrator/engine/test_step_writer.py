"""Tests that the writes of a holder arrive in the order of its code or not at all."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.db import OperationalError

from orchestrator.engine import step_writer
from orchestrator.engine.definition import Suspended
from orchestrator.engine.recovery import recover
from tests.orchestrator.conftest import claim, now, serve, serve_one, states
from tests.orchestrator.engine.test_recovery import lose

pytestmark = pytest.mark.django_db


def away(write):
    raise OperationalError("the database is away")


def test_no_step_starts_after_an_end_that_could_not_be_written(define, begin, monkeypatch):
    done = []

    def run(self, event, step):
        step.do("a", lambda: done.append("a"))
        if len(done) == 1:
            with monkeypatch.context() as broken:
                broken.setattr(step_writer, "retry_on_disconnect", away)
                with suppress(Suspended):  # As the flusher receives it on its own thread.
                    self.runner.flush(wait=True)
        step.do("b", lambda: done.append("b"))

    define(run)
    made = begin()
    held = claim()
    serve_one(held)
    assert done == ["a"]
    assert states(made) == [("a", "running", 1)]
    lose(held)
    recover()
    serve()

    assert now(made).status == "complete"
    assert states(made) == [("a", "complete", 2), ("b", "complete", 1)]
