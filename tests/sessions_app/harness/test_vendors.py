"""Tests of whole turns through the vendors' SDKs, against servers that speak their formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from agents.definitions import change_agent
from agents.providers.registry import build_provider
from sessions_app.models import Run
from tests.agents.providers.vendors import VENDORS, Vendor
from tests.sessions_app.conftest import newest, serve
from tests.sessions_app.stage import E, say
from tests.wire.answers import Answer, Call, Refuse
from tests.wire.server import Wire

pytestmark = pytest.mark.usefixtures("stage_tools")
each = pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)


@pytest.fixture
def wires(monkeypatch) -> Iterator[dict[str, Any]]:
    """Run a server for each vendor, which all sessions use."""
    with ExitStack() as running:
        servers = {vendor.name: running.enter_context(vendor.wire()) for vendor in VENDORS}

        def provider_for(_workspace: object, name: str, *_: object) -> object:
            wire = servers[name]
            return build_provider(name, api_key=wire.key, base_url=wire.url, timeout=10)

        monkeypatch.setattr("sessions_app.harness.loop.provider_for", provider_for)
        monkeypatch.setattr("sessions_app.harness.model_call.provider_for", provider_for)
        yield servers


@pytest.fixture
def use(agent, session) -> Callable[..., None]:
    """Give the session's agent a model, and other fields."""

    def use(vendor: Vendor, **fields: Any) -> None:
        change_agent(agent, {"provider": vendor.name, "model": vendor.model, **fields})
        session.agent_version = agent.versions.latest("number")
        session.save()

    return use


@each
def test_a_turn_with_a_tool_runs_and_is_counted(vendor: Vendor, session, principal, wires, use):
    use(vendor)
    look = Call(name="look", arguments={"text": "x"}, id="c1", signature=b"s")
    wires[vendor.name].say(Answer(thoughts="Look.", calls=(look,)), Answer(text=("Seen.",)))
    say(session, principal)

    serve(session.pk)

    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "Seen."
    done = Run.objects.get()
    assert (done.usage["model_calls"], done.usage["input_tokens"]) == (2, 22)
    assert "saw x" in str(wires[vendor.name].requests[1].body)


@each
def test_another_vendor_answers_when_one_is_overloaded(
    vendor: Vendor, session, principal, wires, use, monkeypatch
):
    monkeypatch.setattr("sessions_app.harness.loop.PAUSES", (0.01,))
    other = VENDORS[(VENDORS.index(vendor) + 1) % len(VENDORS)]
    use(vendor, fallbacks=[{"provider": other.name, "model": other.model}])
    wire: Wire = wires[vendor.name]
    wire.say(Answer(text=("First.",)), *[Refuse(status=529, message="Overloaded")] * 2)
    wires[other.name].say(Answer(text=("I can.",)))
    say(session, principal, "one")
    serve(session.pk)
    say(session, principal, "two")
    serve(session.pk)

    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "I can."
    assert newest(session, E.AGENT_MESSAGE).payload["model"] == other.model
    assert len(wire.requests) == 3
    assert "First." in str(wires[other.name].requests[0].body)
