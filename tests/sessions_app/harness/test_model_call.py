"""Tests of model calls that no viewer watches: summaries, memories, verdicts."""

from __future__ import annotations

import pytest

from sessions_app import runtime
from tests.sessions_app.long_talk import Watched, give_past, serve

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_thinking_model_has_enough_tokens_for_thoughts_and_answer(
    session, principal, monkeypatch
):
    """Providers count thoughts as part of the answer and may cut it off in either."""
    model = Watched()
    monkeypatch.setattr("sessions_app.harness.model_call.provider_for", lambda *_: model)
    give_past(session, 40, "the file notes/plan.md and more")
    runtime.compact(session, keep_recent_messages=4, principal=principal)
    serve(session)

    saved, summarised = model.requests
    assert "Save what matters" in saved.messages[0].text
    assert (saved.max_tokens or 0) >= 4_000
    assert (summarised.max_tokens or 0) >= 3_200
