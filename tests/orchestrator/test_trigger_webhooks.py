"""Tests of incoming webhooks: only signed messages start workflows, and each only once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
import pytest
from rest_framework.test import APIClient
from standardwebhooks import Webhook as Signer

from core.throttling import buckets
from orchestrator import triggers
from orchestrator.models import TriggerFiring, Workflow
from orchestrator.triggers import create_trigger
from sessions_app.schedules import timing

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def flow(define):
    buckets.empty()
    define(lambda self, event, step: event.payload, name="flow")


@pytest.fixture
def hook(workspace, owner):
    params = {"who": "{{input.name}}", "text": "Hello {{input.name}}"}
    return create_trigger(
        workspace_id=workspace.pk, created_by=owner, name="Hook", kind="webhook", workflow="flow",
        params=params,
    )  # fmt: skip


def send(hook, body, *, id="msg-1", secret=None, at=None, **headers):
    data = orjson.dumps(body).decode()
    at = at or datetime.now(UTC)
    signature = Signer(secret or hook.secret).sign(msg_id=id, timestamp=at, data=data)
    headers = {
        "webhook-id": id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": signature,
        **headers,
    }
    client = APIClient(headers=headers)
    return client.post(hook.trigger.path, data, content_type="application/json")


def test_a_signed_message_starts_the_workflow_with_its_content(hook, workspace):
    answer = send(hook, {"name": "Ada"})

    assert (answer.status_code, answer.json()["duplicate"]) == (202, False)
    made = Workflow.objects.get(pk=answer.json()["workflow_id"])
    assert (made.workspace_id, made.name) == (workspace.pk, "flow")
    assert made.params == {"who": "Ada", "text": "Hello Ada"}


def test_a_repeated_message_starts_nothing_new(hook):
    first, again = send(hook, {"name": "Ada"}), send(hook, {"name": "Ada"})

    assert again.status_code == 202
    assert again.json() == {"workflow_id": first.json()["workflow_id"], "duplicate": True}
    assert Workflow.objects.count() == 1
    assert send(hook, {"name": "Ada"}, id="msg-2").json()["duplicate"] is False


@pytest.mark.parametrize(
    "wrong",
    [
        {"webhook-signature": "v1,bm90IGl0"},
        {"webhook-signature": "nonsense"},
        {"webhook-signature": "v1,é"},
        {"webhook-signature": ""},
        {"webhook-id": "another"},
        {"webhook-timestamp": "nan"},
    ],
)
def test_a_message_with_a_wrong_signature_is_refused(hook, wrong):
    answer = send(hook, {"name": "Ada"}, **wrong)

    assert (answer.status_code, answer.json()["code"]) == (401, "hook_refused")
    assert not Workflow.objects.exists()


def test_an_old_signature_is_refused(hook):
    old = datetime.now(UTC) - timedelta(minutes=6)
    assert send(hook, {}, at=old).status_code == 401


def test_the_secret_of_another_trigger_is_refused(hook, foreign_workspace):
    other = create_trigger(
        workspace_id=foreign_workspace.pk, name="Theirs", kind="webhook", workflow="flow"
    )
    assert send(hook, {}, secret=other.secret).status_code == 401


def test_rotating_the_secret_invalidates_the_old_one(hook):
    old = hook.secret
    new = triggers.rotate_secret(hook.trigger).secret
    assert send(hook, {}, secret=old).status_code == 401
    assert send(hook, {}, secret=new).status_code == 202


def test_a_trigger_that_verifies_by_token_accepts_the_secret_itself(workspace):
    made = create_trigger(
        workspace_id=workspace.pk, name="Plain", kind="webhook", workflow="flow", verify="token"
    )
    path = made.trigger.path
    right = APIClient(headers={"Authorization": f"Bearer {made.secret}"})
    wrong = APIClient(headers={"Authorization": "Bearer hook_guess"})

    assert right.post(path, {}, format="json").status_code == 202
    assert wrong.post(path, {}, format="json").status_code == 401
    assert APIClient().post(path, {}, format="json").status_code == 401


def test_a_trigger_that_verifies_signatures_does_not_accept_the_secret_itself(hook):
    shown = APIClient(headers={"Authorization": f"Bearer {hook.secret}"})
    assert shown.post(hook.trigger.path, {}, format="json").status_code == 401


def test_a_message_has_a_maximum_size(hook):
    answer = send(hook, {"name": "x" * 300_000})
    assert (answer.status_code, answer.json()["code"]) == (413, "hook_too_large")


def test_an_unknown_address_is_not_found(db):
    assert APIClient().post("/hooks/nothing/", {}, format="json").status_code == 404


def test_wrong_signatures_are_throttled(hook, settings):
    settings.REQUESTS_PER_MINUTE = 10
    codes = {send(hook, {}, secret="whsec_bm90IGl0").status_code for _ in range(60)}
    assert codes == {401, 429}


def test_a_flood_of_messages_is_throttled(hook):
    codes = [send(hook, {}, id=f"m{n}").status_code for n in range(130)]
    assert codes[0] == 202
    assert codes[-1] == 429


def test_a_message_to_a_paused_trigger_can_be_sent_again(hook):
    timing.pause(hook.trigger)
    assert send(hook, {"name": "Ada"}).status_code == 409
    assert TriggerFiring.objects.get().outcome == "failed"
    timing.resume(hook.trigger)
    assert send(hook, {"name": "Ada"}).json()["duplicate"] is False


def test_a_message_that_is_not_json_is_refused(hook):
    at = datetime.now(UTC)
    headers = {
        "webhook-id": "m",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Signer(hook.secret).sign(msg_id="m", timestamp=at, data="{"),
    }
    client = APIClient(headers=headers)
    assert client.post(hook.trigger.path, "{", content_type="application/json").status_code == 400
