"""Tests of the vault: secrets are used where they may be and shown nowhere."""

from __future__ import annotations

import base64
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from core.exceptions import Invalid, NotFound
from tenants import vault
from tenants.exceptions import SecretMissing, SecretRefused
from tenants.models import Secret
from tenants.vault import MASK, mask, mask_json, remember
from tests.conftest import add_member, key_client

VAULT, PAGE = "/api/v1/vault/", "/settings/vault/"
VALUE = 'tok"en/with spaces 0123456789'


def test_a_secret_is_encrypted_at_rest_and_revealed_in_its_own_workspace_only(
    workspace, foreign_workspace
):
    vault.add(workspace.pk, "TOKEN", VALUE)
    with connection.cursor() as cursor:
        cursor.execute("SELECT value FROM vault_secrets")
        stored = cursor.fetchone()[0]

    assert "tok" not in stored
    assert vault.reveal(workspace.pk, "TOKEN") == VALUE
    assert Secret.objects.get().last_used_at is not None
    with pytest.raises(SecretMissing, match="no secret named TOKEN"):
        vault.reveal(foreign_workspace.pk, "TOKEN")


def test_only_vault_placeholders_are_filled(workspace):
    vault.add(workspace.pk, "A", "one")
    vault.add(workspace.pk, "B_2", "{{vault:A}}")

    filled = vault.fill(workspace.pk, "Bearer {{vault:A}} {{ vault:B_2 }} {{other}} {vault:A}")

    assert filled == "Bearer one {{vault:A}} {{other}} {vault:A}"
    assert vault.names_in("{{vault:A}}{{vault:B_2}}{{vault:A}}") == ["A", "B_2"]
    with pytest.raises(SecretMissing):
        vault.fill(workspace.pk, "{{vault:NONE}}")


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("api.example.com", True),
        ("API.example.com", True),
        ("a.b.example.org", True),
        ("example.org", False),
        ("api.example.com.evil.test", False),
        ("", False),
    ],
)
def test_a_secret_bound_to_hosts_is_refused_for_other_hosts(workspace, host, allowed):
    vault.add(workspace.pk, "TOKEN", VALUE, hosts=["api.example.com", "*.Example.org"])

    if allowed:
        assert vault.reveal(workspace.pk, "TOKEN", host=host) == VALUE
    else:
        with pytest.raises(SecretRefused):
            vault.reveal(workspace.pk, "TOKEN", host=host)


def test_replacing_the_value_keeps_the_hosts(workspace):
    vault.replace(vault.add(workspace.pk, "TOKEN", "old", hosts=["a.example"]), "new")

    assert Secret.objects.get().hosts == ["a.example"]
    assert vault.reveal(workspace.pk, "TOKEN", host="a.example") == "new"


@pytest.mark.parametrize("name", ["API_KEY", "api_key", "github-token", "token.v2"])
def test_a_placeholder_accepts_every_valid_name(workspace, name):
    vault.add(workspace.pk, name, VALUE)

    assert vault.fill(workspace.pk, f"Bearer {{{{vault:{name}}}}}") == f"Bearer {VALUE}"
    assert vault.names_in(f"{{{{vault:{name}}}}}") == [name]


@pytest.mark.parametrize("name", ["", "1A", "A B", "A/B", ".a", "A" * 65, "A\n", "{{vault:A}}"])
def test_an_invalid_name_is_refused(workspace, name):
    with pytest.raises(Invalid):
        vault.add(workspace.pk, name, VALUE)


def test_a_deleted_secret_is_missing(workspace):
    vault.add(workspace.pk, "TOKEN", VALUE)
    vault.delete(workspace.pk, "TOKEN")

    with pytest.raises(SecretMissing):
        vault.reveal(workspace.pk, "TOKEN")
    with pytest.raises(NotFound):
        vault.delete(workspace.pk, "TOKEN")


def test_a_revealed_secret_is_masked_in_every_encoding(workspace, foreign_workspace):
    remember(workspace.pk, VALUE)
    text = f'{VALUE} tok\\"en/with spaces 0123456789 tok%22en%2Fwith%20spaces%200123456789'

    assert mask(workspace.pk, text) == f"{MASK} {MASK} {MASK}"
    assert mask_json(workspace.pk, {VALUE: [VALUE, 1]}) == {MASK: [MASK, 1]}
    assert mask(foreign_workspace.pk, VALUE) == VALUE


def test_each_line_of_a_longer_secret_is_masked_alone_and_as_base64(workspace):
    value = "\n".join(f"line {nth} of the secret" for nth in range(9)) + "\nab"
    remember(workspace.pk, value)
    wrapped = base64.encodebytes(value.encode()).decode()

    assert mask(workspace.pk, "it has line 4 of the secret, ab") == f"it has {MASK}, ab"
    assert set(mask(workspace.pk, wrapped).split()) <= {MASK, f"{MASK}=", f"{MASK}=="}


def test_a_value_is_never_in_a_response(api, workspace, owner):
    made = api.post(VAULT, {"name": "TOKEN", "value": VALUE, "hosts": ["a.example"]}, format="json")
    assert made.status_code == 201
    body = made.json()
    assert (body["name"], body["hosts"], body["used_by"]) == ("TOKEN", ["a.example"], [])
    assert body["created_by"] == str(owner.pk)
    path = f"{VAULT}{body['id']}/"

    assert api.post(VAULT, {"name": "TOKEN", "value": "x"}, format="json").status_code == 409
    changed = api.patch(path, {"value": "another one", "hosts": []}, format="json")
    answers = [made, changed, api.get(path), api.get(VAULT)]
    assert all("tok" not in one.text and "another" not in one.text for one in answers)
    assert all("value" not in one.json() for one in answers)
    assert vault.reveal(workspace.pk, "TOKEN") == "another one"
    assert api.delete(path).status_code == 204
    assert not Secret.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_second_of_two_concurrent_secrets_with_one_name_is_refused(api, workspace, monkeypatch):
    both_checked, check_hosts = threading.Barrier(2, timeout=60), vault.checked_hosts

    def wait_for_both(hosts):
        both_checked.wait()
        return check_hosts(hosts)

    def add(value: str) -> int:
        try:
            body = {"name": "TOKEN", "value": value}
            return api.post(VAULT, body, format="json").status_code
        finally:
            connection.close()

    monkeypatch.setattr(vault, "checked_hosts", wait_for_both)
    with ThreadPoolExecutor(2) as pool:
        answers = dict(zip(("one", "two"), pool.map(add, ("one", "two")), strict=True))

    assert sorted(answers.values()) == [201, 409]
    assert answers[vault.reveal(workspace.pk, "TOKEN")] == 201


def test_the_vault_is_for_admins(workspace):
    secret = vault.add(workspace.pk, "TOKEN", VALUE)
    program = key_client(workspace, scope="run")

    assert program.get(VAULT).status_code == 403
    assert program.post(VAULT, {"name": "B", "value": "x"}, format="json").status_code == 403
    assert program.delete(f"{VAULT}{secret.pk}/").status_code == 403


def test_the_page_adds_replaces_and_deletes_secrets(browser_client, workspace):
    form = {"name": "TOKEN", "value": VALUE, "hosts": "a.example, b.example"}
    page = browser_client.post(f"{PAGE}new/", form, follow=True)
    secret = Secret.objects.get()
    assert "a.example, b.example only" in page.text
    assert "tok" not in page.text.replace("csrfmiddlewaretoken", "")

    browser_client.post(f"{PAGE}{secret.pk}/replace/", {"value": "next"})
    assert vault.reveal(workspace.pk, "TOKEN", host="a.example") == "next"
    refused = browser_client.post(f"{PAGE}new/", form)
    assert refused.status_code == 400
    assert "already exists" in refused.text
    assert "tok" not in refused.text.replace("csrfmiddlewaretoken", "")
    browser_client.post(f"{PAGE}{secret.pk}/delete/")
    assert not Secret.objects.exists()


def test_a_builder_is_told_to_ask_an_admin(client, workspace):
    vault.add(workspace.pk, "TOKEN", VALUE)
    client.force_login(add_member(workspace, "builder"))

    page = client.get(PAGE)
    assert "Ask an admin to view or change the secrets" in page.text
    assert "TOKEN" not in page.text


def test_a_sandbox_can_only_send_secrets_bound_to_the_host(workspace):
    vault.add(workspace.pk, "LOOSE", "a loose word")
    vault.add(workspace.pk, "BOUND", "a bound word", hosts=["api.example.com"])

    assert vault.fill_bound(workspace.pk, "Bearer {{vault:BOUND}}", "api.example.com") == (
        "Bearer a bound word"
    )
    with pytest.raises(SecretRefused, match="not limited to a host"):
        vault.fill_bound(workspace.pk, "{{vault:LOOSE}}", "api.example.com")
    with pytest.raises(SecretRefused, match="may only be sent"):
        vault.fill_bound(workspace.pk, "{{vault:BOUND}}", "evil.example.com")
