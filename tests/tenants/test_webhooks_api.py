"""Tests of webhooks over REST and on the command line."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command
from standardwebhooks import Webhook as Signer

from tenants.models import Webhook, WebhookDelivery
from tenants.notifications.webhooks import announce
from tests.conftest import key_client

HOOKS = "/api/v1/webhooks/"
URL = "https://example.com/hook"


def add(api, **fields):
    return api.post(HOOKS, {"url": URL, "events": ["*"], **fields}, format="json")


def test_the_secret_is_shown_once_and_stored_encrypted(api, owner):
    made = add(api, description="CI").json()

    assert Signer(made["secret"])
    assert made["created_by"] == str(owner.pk)
    for path in (HOOKS, f"{HOOKS}{made['id']}/"):
        assert made["secret"] not in api.get(path).content.decode()
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT secret FROM webhooks")
        assert made["secret"] not in cursor.fetchone()[0]


def test_a_webhook_without_events_receives_all(api):
    made = api.post(HOOKS, {"url": URL}, format="json")

    assert (made.status_code, made.json()["events"]) == (201, ["*"])
    path = f"{HOOKS}{made.json()['id']}/"
    api.patch(path, {"events": ["run.*"]}, format="json")
    assert api.patch(path, {"active": True}, format="json").json()["events"] == ["run.*"]


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "ftp://example.com"},
        {"url": "https://user@example.com/"},
        {"url": "nonsense"},
        {"url": "https://example.com/a b"},
        {"url": "https://[::1"},
        {"url": ""},
        {"events": []},
        {"events": ["DROP TABLE"]},
        {"events": ["run.%"]},
        {"events": ["*"] * 2 + [f"a.b{n}" for n in range(60)]},
    ],
)
def test_invalid_input_creates_no_webhook(api, fields):
    assert add(api, **fields).status_code == 400
    assert not Webhook.objects.exists()


def test_an_unknown_event_type_is_refused_with_a_list_of_known_types(api):
    answer = add(api, events=["run.*", "run.finished"])

    assert answer.status_code == 400
    assert "'run.finished'" in answer.json()["detail"]
    assert "run.completed" in answer.json()["detail"]
    assert add(api, events=["workflow.complete", "*.failed", "approval.*"]).status_code == 201


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "0x7f.1", "2130706433", "[::1]", "localhost", "a.localhost", "169.254.169.254"],
)
def test_a_private_address_is_refused_at_once(api, host):
    answer = add(api, url=f"http://{host}/")

    assert answer.status_code == 422
    assert answer.json()["code"] == "egress_refused"


@pytest.mark.parametrize(
    ("globs", "type", "count"),
    [
        (["*"], "run.failed", 1),
        (["run.*"], "run.failed", 1),
        (["run.*"], "runs.failed", 0),
        (["session.status_idle"], "session.status_idle", 1),
        (["session.status_idle"], "session.statusxidle", 0),
        (["run.failed", "workflow.*"], "workflow.step.done", 1),
        (["run.failed"], "run.failed.twice", 0),
    ],
)
def test_patterns_select_the_events_that_are_sent(api, workspace, globs, type, count):
    add(api, events=globs)

    assert announce(workspace.pk, type, {}) == count


def test_events_of_other_workspaces_are_not_sent(api, workspace, foreign_workspace):
    add(api)

    assert announce(foreign_workspace.pk, "run.failed", {}) == 0


def test_a_webhook_can_be_changed_disabled_and_enabled(api, workspace):
    one = add(api).json()
    path = f"{HOOKS}{one['id']}/"
    announce(workspace.pk, "run.failed", {})
    off = api.patch(path, {"active": False, "events": ["run.*"]}, format="json").json()

    assert off["active"] is False
    assert off["disabled_reason"]
    assert WebhookDelivery.objects.get().status == "failed"
    assert announce(workspace.pk, "run.failed", {}) == 0
    assert api.post(f"{path}ping/").status_code == 400
    assert api.patch(path, {"active": True}, format="json").json()["disabled_reason"] == ""
    assert announce(workspace.pk, "run.failed", {}) == 1
    assert api.patch(path, {"url": "http://127.0.0.1/"}, format="json").status_code == 422


def test_deliveries_are_listed_and_replayed(api, workspace):
    one = add(api).json()
    announce(workspace.pk, "run.failed", {"n": 1})
    path = f"{HOOKS}{one['id']}/deliveries/"
    (listed,) = api.get(path).json()["results"]
    WebhookDelivery.objects.update(status="failed", next_attempt_at=None, attempts=11)

    assert listed["body"]["data"] == {"n": 1}
    answer = api.post(f"{path}{listed['id']}/replay/")
    assert answer.status_code == 202
    assert (answer.json()["status"], answer.json()["attempts"]) == ("pending", 0)
    assert answer.json()["id"] == listed["id"]


def test_a_webhook_can_be_pinged_and_its_secret_rotated(api):
    one = add(api).json()
    ping = api.post(f"{HOOKS}{one['id']}/ping/")
    rotated = api.post(f"{HOOKS}{one['id']}/rotate/").json()

    assert (ping.status_code, ping.json()["type"]) == (202, "webhook.ping")
    assert rotated["secret"] != one["secret"]


def test_only_admins_can_use_webhooks(workspace, api):
    one = add(api).json()
    for scope in ("read", "run"):
        client = key_client(workspace, scope)
        assert client.get(HOOKS).status_code == 403
        assert client.get(f"{HOOKS}{one['id']}/deliveries/").status_code == 403
        assert client.post(f"{HOOKS}{one['id']}/ping/").status_code == 403


def test_removing_a_webhook_erases_its_deliveries(api, workspace):
    one = add(api).json()
    announce(workspace.pk, "run.failed", {})

    assert api.delete(f"{HOOKS}{one['id']}/").status_code == 204
    assert not WebhookDelivery.objects.exists()


def test_the_command_lists_pings_and_replays_webhooks(api, workspace, capsys):
    one = add(api).json()
    call_command("webhooks", "list", "--workspace", workspace.slug)
    call_command("webhooks", "ping", one["id"])
    delivery = WebhookDelivery.objects.get()
    call_command("webhooks", "replay", str(delivery.pk))

    output = capsys.readouterr().out
    assert URL in output
    assert one["secret"] not in output
    assert output.count(str(delivery.pk)) == 2
    with pytest.raises(CommandError, match="no such webhook"):
        call_command("webhooks", "ping", str(delivery.pk))
