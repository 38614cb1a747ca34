"""Tests of overrides: what one run does differently from its agent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.definitions import change_agent
from agents.exceptions import ProviderRejected
from agents.providers.base import TextDelta, ToolCall
from core.exceptions import Forbidden, InvalidFields
from sessions_app import runtime
from sessions_app.accept import accept_event
from sessions_app.models import Run, ToolExecution
from tenants.access import principal_of_user
from tests.conftest import key_client
from tests.sessions_app.api.test_sessions import at
from tests.sessions_app.commands import as_json, send
from tests.sessions_app.conftest import serve

WORDS = [TextDelta(text="Hello.")]
OVERRIDES = {
    "model": "another-model",
    "system_prompt": "Answer in French.",
    "tools": ["read", "current_time"],
    "max_tokens": 77,
    "temperature": 0.25,
}


def test_overrides_count_for_one_run_and_are_recorded_with_it(session, script):
    provider = script(WORDS, WORDS)
    changed = runtime.append_message(session, "one", overrides=OVERRIDES)
    serve(session.pk)
    plain = runtime.append_message(session, "two")
    serve(session.pk)
    first, second = provider.requests

    assert (first.model, first.max_tokens, first.temperature) == ("another-model", 77, 0.25)
    assert first.instructions == "Test.\n\nAnswer in French."
    assert {spec.name for spec in first.tools} == {"read", "current_time"}
    assert (second.model, second.max_tokens, second.temperature) == ("demo", None, None)
    assert second.instructions.startswith("Test.\n\nSkills")
    assert "write" in {spec.name for spec in second.tools}
    assert Run.objects.get(pk=changed.run_id).wishes == OVERRIDES
    assert Run.objects.get(pk=plain.run_id).wishes == {}


def test_a_known_model_brings_its_provider_and_a_provider_its_default_model(session, script):
    provider = script(WORDS, WORDS)
    asked = []
    for overrides in ({"model": "gemini-2.5-pro"}, {"provider": "openai"}):
        runtime.append_message(session, "go", overrides=overrides)
        serve(session.pk)
        asked.append(provider.requests[-1].model)

    assert asked == ["gemini-2.5-pro", "gpt-6.1-terra"]


def test_replacing_the_instructions_needs_the_right_to_build(session, workspace, script, owner):
    provider = script(WORDS)
    overrides = {"system_prompt": "You are a parrot.", "system_prompt_mode": "replace"}
    runner = replace(principal_of_user(owner, workspace.pk), verbs=frozenset({"read", "run"}))

    with pytest.raises(Forbidden):
        runtime.append_message(session, "go", overrides=overrides, principal=runner)
    with pytest.raises(Forbidden):
        runtime.enqueue_agent_run("Tester", "k", "go", overrides=overrides, principal=runner)
    runtime.append_message(session, "go", overrides=overrides)
    serve(session.pk)

    assert provider.requests[0].instructions.startswith("You are a parrot.")


@pytest.mark.parametrize(("tools", "state"), [(["read"], "denied"), ([], "denied")])
def test_a_tool_outside_the_list_is_denied_when_the_model_calls_it(session, script, tools, state):
    script([ToolCall(call_id="c", name="current_time", arguments={})], WORDS)
    runtime.append_message(session, "go", overrides={"tools": tools})
    serve(session.pk)

    execution = ToolExecution.objects.get(session=session)
    assert (execution.state, execution.decided_by.split(":")[0]) == (state, "run")


def test_a_list_of_tools_widens_no_policy_and_lifts_no_question(session, script):
    provider = script([ToolCall(call_id="c", name="exec", arguments={"command": "ls"})])
    runtime.append_message(
        session, "go", overrides={"tools": ["exec", "exec(*)", "sessions_send", "builder_publish"]}
    )
    serve(session.pk)

    assert {spec.name for spec in provider.requests[0].tools} == {"exec"}
    assert ToolExecution.objects.get(session=session).state == "awaiting_approval"


def test_a_run_that_resumes_keeps_the_overrides_of_its_turn(session, script):
    provider = script([ToolCall(call_id="c", name="exec", arguments={"command": "ls"})], WORDS)
    runtime.append_message(session, "go", overrides={"model": "another-model"})
    serve(session.pk)
    call = ToolExecution.objects.get(session=session)
    answer = {"tool_use_id": call.tool_use_id, "decision": "deny"}
    accept_event(
        runtime.system_principal(session.workspace_id),
        session,
        type="user.tool_confirmation",
        payload=answer,
    )
    serve(session.pk)

    assert [request.model for request in provider.requests] == ["another-model"] * 2


def test_a_message_that_joins_a_run_leaves_its_overrides_as_they_are(session, script):
    provider = script(WORDS)
    runtime.append_message(session, "a", on_busy="collect", overrides={"model": "first"})
    runtime.append_message(session, "b", on_busy="collect", overrides={"model": "second"})
    serve(session.pk)

    assert [request.model for request in provider.requests] == ["first"]


def test_a_steered_message_that_no_run_took_gets_its_own_run_with_its_overrides(session, script):
    def steer() -> None:
        runtime.append_message(session, "b", on_busy="steer", overrides={"model": "second"})

    provider = script([steer, ProviderRejected("No.")], WORDS)
    runtime.append_message(session, "a")
    serve(session.pk)

    assert [request.model for request in provider.requests] == ["demo", "second"]


@pytest.mark.parametrize(
    "overrides",
    [
        {"temperature": 3},
        {"max_tokens": 0},
        {"provider": "acme"},
        {"tools": "exec"},
        {"systemPrompt": "x"},
        {"system_prompt_mode": "replace"},
    ],
)
def test_wrong_overrides_are_refused_at_every_door(session, workspace, overrides):
    with pytest.raises(InvalidFields):
        runtime.append_message(session, "go", overrides=overrides)
    client = key_client(workspace)
    runtime_body = {"agent": "Tester", "session_key": "k", "message": "go", "overrides": overrides}
    message = {"text": "go", "overrides": overrides}
    for path, body in (
        ("/api/v1/runtime/", runtime_body),
        (at(session, "messages/"), message),
        (at(session, "events/"), {"type": "user.message", "payload": message}),
    ):
        response = client.post(path, body, format="json")
        assert response.status_code == 400, path
        assert "overrides" in response.json()["errors"][0]["field"]


def test_overrides_are_taken_over_rest_and_shown_at_the_run(session, workspace, agent):
    client = key_client(workspace)
    message = {"text": "go", "overrides": OVERRIDES}
    for path, body in (
        (
            "/api/v1/runtime/",
            {"agent": "Tester", "session_key": "k", "message": "go", "overrides": OVERRIDES},
        ),
        (at(session, "messages/"), message),
        (at(session, "events/"), {"type": "user.message", "payload": message}),
    ):
        run_id = client.post(path, body, format="json").json()["run_id"]
        assert client.get(f"/api/v1/runs/{run_id}/").json()["overrides"] == OVERRIDES


def test_a_queued_message_that_is_sent_now_keeps_its_overrides(session, workspace):
    runtime.append_message(session, "first")
    run_id = runtime.append_message(session, "go", overrides=OVERRIDES).run_id
    client = key_client(workspace)
    client.patch(at(session, f"queue/{run_id}/"), {"on_busy": "interrupt"}, format="json")

    assert Run.objects.filter(status="queued", wishes=OVERRIDES).exists()


def test_the_command_line_sends_overrides(session):
    args = ["--model", "m", "--tools", "read", "--max-tokens", "5", "--temperature", "0.5"]
    args += ["--system-prompt", "Be brief.", "--replace-system-prompt"]
    [sent] = as_json(*send(session, "go", *args))

    assert Run.objects.get(pk=sent["run_id"]).wishes == {
        "model": "m",
        "system_prompt": "Be brief.",
        "system_prompt_mode": "replace",
        "tools": ["read"],
        "max_tokens": 5,
        "temperature": 0.5,
    }


def test_an_overridden_run_changes_no_version(session, agent, script):
    script(WORDS)
    runtime.append_message(session, "go", overrides=OVERRIDES)
    serve(session.pk)

    assert change_agent(agent, {}).number == 1
