"""Tests of whole turns through the vendors' SDKs, against servers that speak their formats."""

from __future__ import annotations

import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from agents.definitions import change_agent
from agents.model_catalog import set_facts
from agents.providers.base import ModelFacts, TextDelta, ThinkingDelta
from agents.providers.registry import build_provider
from core.exceptions import Invalid
from sessions_app.accept import accept_event
from sessions_app.models import Draft, Run
from sessions_app.resources.files import remove_file, store_file
from tests.agents.providers.vendors import VENDORS, Vendor
from tests.sessions_app.conftest import newest, serve, types
from tests.sessions_app.stage import E, say
from tests.stack.running import wait_for
from tests.tools_app.pictures import pdf, png
from tests.wire.answers import Answer, Call, Refuse
from tests.wire.server import Wire
from tools_app.parts import parts_dir
from tools_app.policy.evaluation import Decision, EffectivePolicy

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
def test_thinking_is_stored_with_the_answer_and_sent_back_where_the_vendor_wants_it(
    vendor: Vendor, session, principal, wires, use
):
    use(vendor, effort="low", max_tokens=8_000)
    look = Call(name="look", arguments={"text": "x"}, id="c1", signature=b"s")
    wire = wires[vendor.name]
    wire.say(
        Answer(thoughts="Look first.", calls=(look,)),
        Answer(thoughts="Seen.", text=("Done.",)),
        Answer(text=("Again.",)),
    )
    say(session, principal)
    serve(session.pk)
    say(session, principal, "again")
    serve(session.pk)

    assert [e.payload["text"] for e in session.events.filter(type=E.AGENT_THINKING)] == [
        "Look first.",
        "Seen.",
    ]
    assert types(session)[2:4] == ["agent.thinking", "agent.tool_use"]
    assert [e.payload["text"] for e in session.events.filter(type=E.AGENT_MESSAGE)] == [
        "Done.",
        "Again.",
    ]
    sent = str(wire.requests[-1].body)
    assert ("Look first." in sent, "Seen." in sent) == (vendor.name == "anthropic",) * 2


@pytest.mark.django_db(transaction=True)
def test_thinking_that_a_stop_interrupts_is_kept_and_not_taken_for_an_answer(
    session, principal, script
):
    def interrupt() -> None:
        kept = Draft.objects.filter(session=session, kind="thinking", text="Still thinking")
        wait_for(kept.exists, "the draft")
        accept_event(principal, session.pk, type=E.USER_INTERRUPT, payload={})

    script([ThinkingDelta(text="Still thinking"), interrupt, TextDelta(text="No")])
    say(session, principal)
    serve(session.pk)

    kept = newest(session, E.AGENT_THINKING).payload
    assert kept == {"text": "Still thinking", "interrupted": True}
    assert not session.events.filter(type=E.AGENT_MESSAGE).exists()


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


#: How each vendor wants a picture and a PDF.
FORMS: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "gemini": lambda kind, data: {
        "inlineData": {"mime_type": kind, "data": data.translate(str.maketrans("+/", "-_"))}
    },
    "openai": lambda kind, data: (
        {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
        if kind.startswith("image/")
        else {
            "type": "file",
            "file": {"filename": "report.pdf", "file_data": f"data:{kind};base64,{data}"},
        }
    ),
    "anthropic": lambda kind, data: {
        "type": "image" if kind.startswith("image/") else "document",
        "source": {"type": "base64", "media_type": kind, "data": data},
    },
}


def contents(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of all messages of a request, without cache marks and titles."""
    messages = body.get("contents") or body["messages"]
    lists = [message.get("parts") or message.get("content") for message in messages]
    parts = [part for one in lists if isinstance(one, list) for part in one]
    inner = [p for part in parts if isinstance(part.get("content"), list) for p in part["content"]]
    hidden = {"cache_control", "title"}
    return [{k: v for k, v in part.items() if k not in hidden} for part in [*parts, *inner]]


@each
def test_a_picture_and_a_pdf_reach_the_vendor_in_its_form_whatever_becomes_of_the_files(
    vendor: Vendor, session, principal, wires, use
):
    use(vendor)
    store_file(session, "cat.png", [png(30, 20)])
    store_file(session, "report.pdf", [pdf()])
    files = [{"name": name, "path": name} for name in ("cat.png", "report.pdf")]
    payload = {"text": "What is this?", "attachments": files}
    accept_event(principal, session.pk, type=E.USER_MESSAGE, payload=payload)
    serve(session.pk)
    remove_file(session, "report.pdf")
    store_file(session, "cat.png", [png(1, 1)])
    say(session, principal, "and?")
    serve(session.pk)

    wanted = [
        FORMS[vendor.name](kind, b64encode(content).decode())
        for kind, content in (("image/png", png(30, 20)), ("application/pdf", pdf()))
    ]
    for received in wires[vendor.name].requests:
        assert [part for part in contents(received.body) if part in wanted] == wanted
    stored = session.events.filter(type=E.USER_MESSAGE)[0].payload["attachments"]
    assert [(one["type"], one["path"]) for one in stored] == [
        ("image", "cat.png"),
        ("file", "report.pdf"),
    ]
    assert "data" not in str(stored)


@each
def test_a_tool_that_returns_a_picture_shows_it_to_the_vendor(
    vendor: Vendor, session, principal, wires, use, monkeypatch
):
    allowed = {"read": Decision(decision="allow", decided_by="test")}
    monkeypatch.setattr(
        "tools_app.policy.effective.Binding.policy", lambda _: EffectivePolicy(allowed)
    )
    use(vendor)
    store_file(session, "chart.png", [png(30, 20)])
    read = Call(name="read", arguments={"path": "chart.png"}, id="c1", signature=b"s")
    wires[vendor.name].say(Answer(calls=(read,)), Answer(text=("A chart.",)))
    say(session, principal)
    serve(session.pk)
    say(session, principal, "sure?")
    serve(session.pk)

    wanted = FORMS[vendor.name]("image/png", b64encode(png(30, 20)).decode())
    for received in wires[vendor.name].requests[1:]:
        assert contents(received.body).count(wanted) == 1
    result = newest(session, E.AGENT_TOOL_RESULT).payload
    assert result["state"] == "completed"
    assert result["output"]["parts"][0]["width"] == 30


def test_a_model_that_cannot_see_gets_a_description(session, principal, wires, use):
    use(VENDORS[1], model="gpt-4o-mini")
    set_facts(session.workspace_id, "openai", "gpt-4o-mini", ModelFacts(images=False))
    attached = {"type": "image", "name": "cat.png", "data": b64encode(png(30, 20)).decode()}
    payload = {"text": "What is this?", "attachments": [attached]}
    accept_event(principal, session.pk, type=E.USER_MESSAGE, payload=payload)
    serve(session.pk)

    sent = str(wires["openai"].requests[0].body)
    assert "[image cat.png: image/png" in sent
    assert "30 by 20 pixels; not shown to this model]" in sent
    assert "base64" not in sent


def test_a_part_that_is_gone_is_described_and_the_turn_goes_on(session, principal, wires, use):
    use(VENDORS[2])
    attached = {"type": "image", "url": f"data:image/png;base64,{b64encode(png()).decode()}"}
    payload = {"text": "What is this?", "attachments": [attached]}
    accept_event(principal, session.pk, type=E.USER_MESSAGE, payload=payload)
    shutil.rmtree(parts_dir(session.workspace_id))
    serve(session.pk)

    assert newest(session, E.AGENT_MESSAGE).payload["text"] == "ok"
    assert "not shown to this model" in str(wires["anthropic"].requests[0].body)


@pytest.mark.parametrize(
    ("attached", "reason"),
    [
        ({"data": "%%%"}, "not valid base64"),
        ({"url": "data:image/png,hello"}, "must be `data:TYPE;base64,`"),
        ({"url": "https://example.com/a.png"}, "other addresses are not fetched"),
        ({"name": "a.png", "data": b64encode(png()[:-8]).decode()}, "not a complete PNG image"),
        ({"data": b64encode(b"plain").decode()}, "not an image, a PDF"),
        ({"file_id": "file_" + "0" * 64}, "There is no file"),
        ({"name": "a", "path": "a", "data": "aaaa"}, "Name one of"),
        ({"name": "a.png", "path": "broken.png"}, "not a complete PNG image"),
    ],
)
def test_a_broken_attachment_is_refused_with_its_reason_and_nothing_is_sent(
    attached, reason: str, session, principal
):
    store_file(session, "broken.png", [png()[:-8]])
    payload = {"text": "What is this?", "attachments": [attached]}
    with pytest.raises(Invalid, match=reason):
        accept_event(principal, session.pk, type=E.USER_MESSAGE, payload=payload)

    assert not session.events.exists()


CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer", "minimum": 1}},
    "required": ["city", "people"],
}
GOOD = '{"city": "Bern", "people": 134000}'


@each
def test_an_answer_that_fits_the_schema_is_the_data_of_the_run(
    vendor: Vendor, session, principal, wires, use
):
    use(vendor, response_schema=CITY)
    wires[vendor.name].say(Answer(text=(GOOD,)))
    say(session, principal)
    serve(session.pk)

    assert Run.objects.get().result["data"] == {"city": "Bern", "people": 134000}
    assert newest(session, E.AGENT_MESSAGE).payload["text"] == GOOD
    body = wires[vendor.name].requests[0].body
    sent = {
        "gemini": lambda: body["generationConfig"]["responseJsonSchema"],
        "openai": lambda: body["response_format"]["json_schema"]["schema"],
        "anthropic": lambda: body["output_config"]["format"]["schema"],
    }[vendor.name]()
    assert sent["properties"]["city"] == {"type": "string"}


@each
def test_an_answer_that_does_not_fit_is_asked_for_again_with_what_is_wrong(
    vendor: Vendor, session, principal, wires, use
):
    use(vendor, response_schema=CITY)
    fenced = f"```json\n{GOOD}\n```"
    wires[vendor.name].say(Answer(text=('{"city": "Bern", "people": 0}',)), Answer(text=(fenced,)))
    say(session, principal)
    serve(session.pk)

    done = Run.objects.get()
    assert (done.status, done.result["data"]["people"]) == ("completed", 134000)
    assert done.usage["model_calls"] == 2
    assert "0 is less than the minimum of 1" in str(wires[vendor.name].requests[1].body)
    assert session.events.filter(type=E.AGENT_MESSAGE).count() == 1


def test_an_answer_that_never_fits_is_an_error_that_names_the_rule(session, principal, wires, use):
    use(VENDORS[1], response_schema=CITY)
    wires["openai"].say(*[Answer(text=('{"city": 5}',))] * 5)
    say(session, principal)
    serve(session.pk)

    failed = Run.objects.get()
    assert (failed.status, failed.stop_reason) == ("failed", "answer_misshapen")
    assert failed.error["code"] == "answer_misshapen"
    assert "city: 5 is not of type 'string' (type)" in failed.error["message"]
    assert "'people' is a required property (required)" in failed.error["message"]
    assert len(wires["openai"].requests) == 3
    kept = newest(session, E.AGENT_MESSAGE).payload
    assert kept["text"] == '{"city": 5}'
    assert "partial" not in kept


def test_one_run_may_ask_for_a_shape_and_a_server_may_not_know_it(session, principal, wires, use):
    use(VENDORS[1])
    wires["openai"].refuses = frozenset({"response_format"})
    wires["openai"].say(Answer(text=(GOOD,)), Answer(text=("Just words.",)))
    overrides = {"response_schema": CITY}
    payload = {"text": "Which city?", "overrides": overrides}
    accept_event(principal, session.pk, type=E.USER_MESSAGE, payload=payload)
    serve(session.pk)
    say(session, principal, "and in words?")
    serve(session.pk)

    first, second = Run.objects.order_by("id")
    assert first.result["data"]["city"] == "Bern"
    assert "data" not in second.result
    assert "JSON Schema" in str(wires["openai"].requests[1].body["messages"][0])


def test_the_demo_fits_a_schema_too(session, principal, use, agent):
    change_agent(agent, {"response_schema": CITY})
    session.agent_version = agent.versions.latest("number")
    session.save()
    say(session, principal, "hello")
    serve(session.pk)

    assert Run.objects.get().result["data"] == {"city": "demo", "people": 1}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "array"}, "must describe an object"),
        ({"type": "object", "properties": 5}, "not a JSON Schema"),
        ({"type": "object", "description": "x" * 60_000}, "more than 50,000 bytes"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(agent, schema, reason: str):
    with pytest.raises(Invalid, match=reason):
        change_agent(agent, {"response_schema": schema})
