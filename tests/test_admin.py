"""Tests that staff can view every table efficiently and without seeing secrets."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from core.admin import BoundedPaginator
from core.ids import uuid7
from tenants.billing.credits import get_balance
from tenants.models import (
    ApiKey,
    CreditEntry,
    Invitation,
    Membership,
    SignInAttempt,
    SignInLink,
    User,
    Workspace,
)
from tests.factories import make, our_models

MODELS = our_models()
REGISTERED = [model for model in MODELS if model in admin.site._registry]

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("staff@example.com"))
    return client


def url(model: type[Model], page: str, *args: object) -> str:
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"
    return reverse(name, args=args)


def cost(client: Client, path: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(path)
    assert answer.status_code == 200, path
    return len(queries)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_every_model_is_registered_with_search_and_filters(model):
    registered = admin.site._registry.get(model)

    assert registered is not None, f"{model._meta.label} has no staff page"
    assert registered.search_fields
    assert registered.list_filter
    assert len(registered.list_display) > 1


EACH = pytest.mark.parametrize("model", REGISTERED, ids=lambda model: model._meta.label)


@EACH
def test_each_list_opens_with_a_constant_number_of_queries(staff, workspace, model):
    path = url(model, "changelist")
    staff.get(path)  # Content types are read once per process.
    rows = [make(model, workspace)]
    one = cost(staff, path)
    rows += [make(model, workspace) for _ in range(4)]

    assert cost(staff, path) == one
    assert staff.get(path, {"q": "x"}).status_code == 200
    assert_no_secret(staff.get(path).content.decode(), rows)


@EACH
def test_each_form_opens_with_a_constant_number_of_queries(staff, workspace, model):
    row = make(model, workspace)
    path = url(model, "change", row.pk)
    assert_no_secret(staff.get(path).content.decode(), [row])
    one = cost(staff, path)
    for _ in range(4):
        make(model, workspace)

    assert cost(staff, path) == one


def assert_no_secret(text: str, rows: list[Model]) -> None:
    for row in rows:
        hidden = [
            getattr(row, name, None) for name in ("digest", "secret", "value", "body", "password")
        ]
        assert not any(str(value) in text for value in hidden if value)


@EACH
def test_each_form_for_a_new_row_opens_where_staff_may_add_one(staff, model):
    answer = staff.get(url(model, "add"))
    may_add = admin.site._registry[model].has_add_permission(answer.wsgi_request)

    assert answer.status_code == (200 if may_add else 403)


def test_only_staff_can_open_the_admin(client, browser_client):
    path = reverse("admin:index")
    to_sign_in = client.get(path, follow=True)

    assert to_sign_in.redirect_chain[-1][0] == f"{reverse('sign_in')}?next={path}"
    assert browser_client.get(path, follow=True).status_code == 403


def act(staff: Client, model: type[Model], action: str, *rows: Model) -> None:
    data = {"action": action, "_selected_action": [str(row.pk) for row in rows]}
    assert staff.post(url(model, "changelist"), data, follow=True).status_code == 200


def test_staff_revoke_keys(staff, workspace):
    key, other = make(ApiKey, workspace), make(ApiKey, workspace)
    act(staff, ApiKey, "revoke", key)

    assert set(ApiKey.objects.valid()) == {other}


def test_keys_of_people_deleted_by_staff_are_invalid(staff, workspace):
    for _ in range(3):
        make(ApiKey, workspace)
    one, two, other = ApiKey.objects.all()
    staff.post(url(User, "delete", one.created_by.pk), {"post": "yes"})
    chosen = {"action": "delete_selected", "_selected_action": str(two.created_by.pk)}
    staff.post(url(User, "changelist"), {**chosen, "post": "yes"})

    assert set(User.objects.filter(pk__in=[one.created_by.pk, two.created_by.pk])) == set()
    assert set(ApiKey.objects.valid()) == {other}


def test_staff_can_deactivate_people_but_not_themselves(staff, workspace):
    person, self = make(User, workspace), User.objects.get(email="staff@example.com")
    act(staff, User, "switch_off", person, self)

    assert set(User.objects.filter(is_active=False)) == {person}
    act(staff, User, "switch_on", person)
    assert not User.objects.filter(is_active=False).exists()


def test_staff_can_withdraw_invitations_use_up_links_and_reset_failed_sign_ins(staff, workspace):
    act(staff, Invitation, "withdraw", make(Invitation, workspace))
    act(staff, SignInLink, "use_up", make(SignInLink, workspace))
    act(staff, SignInAttempt, "forgive", make(SignInAttempt, workspace))

    assert not Invitation.objects.exists()
    assert not SignInLink.objects.filter(used_at=None).exists()
    assert not SignInAttempt.objects.exists()


def test_staff_add_a_person_and_a_membership(staff, workspace):
    form = {
        "email": "new@example.com",
        "name": "New",
        "usable_password": "true",
        "password1": "correct horse 9",
        "password2": "correct horse 9",
    }
    assert staff.post(url(User, "add"), form).status_code == 302
    person = User.objects.get(email="new@example.com")
    assert person.check_password("correct horse 9")

    form = {"user": str(person.pk), "workspace": str(workspace.pk), "role": "viewer"}
    assert staff.post(url(Membership, "add"), form).status_code == 302
    assert str(Membership.objects.get(user=person).created_by) == "staff@example.com"


def test_staff_rename_a_workspace(staff, workspace):
    form = {"name": "Depot", "slug": "depot"}

    assert staff.post(url(Workspace, "change", workspace.pk), form).status_code == 302
    workspace.refresh_from_db()
    assert workspace.name == "Depot"


def test_a_list_counts_only_so_many_rows(staff, monkeypatch):
    monkeypatch.setattr(BoundedPaginator, "MOST", 2)
    for name in ("one", "two", "three"):
        Workspace.objects.create(name=name, slug=name)

    assert staff.get(url(Workspace, "changelist")).context["cl"].paginator.count == 2


def test_staff_add_credits_to_any_workspace_once(staff, foreign_workspace):
    before = get_balance(foreign_workspace.pk).ceiling
    path = url(CreditEntry, "add")
    once = staff.get(path).context["adminform"].form["once"].value()
    given = {"workspace": foreign_workspace.pk, "kind": "grant", "amount": "25", "note": "Paid"}

    for _ in range(2):
        assert staff.post(path, {**given, "once": once}).status_code == 302

    assert get_balance(foreign_workspace.pk).ceiling == before + 25
    entry = CreditEntry.objects.get(pk=once)
    assert (entry.note, entry.created_by.email) == ("Paid", "staff@example.com")


@pytest.mark.parametrize(
    ("kind", "amount", "status"),
    [
        ("grant", "-5", 200),
        ("grant", "0", 200),
        ("grant", "1e9", 200),
        ("charge", "5", 200),
        ("adjustment", "-5", 302),
    ],
)
def test_staff_add_only_amounts_that_the_ledger_takes(staff, workspace, kind, amount, status):
    given = {"workspace": workspace.pk, "kind": kind, "amount": amount, "once": uuid7()}

    assert staff.post(url(CreditEntry, "add"), given).status_code == status
    assert CreditEntry.objects.filter(pk=given["once"]).exists() == (status == 302)


def test_staff_without_the_permission_add_no_credits(workspace):
    client = Client()
    client.force_login(User.objects.create_user("help@example.com", is_staff=True))
    given = {"workspace": workspace.pk, "kind": "grant", "amount": "25", "once": uuid7()}

    assert client.post(url(CreditEntry, "add"), given).status_code == 403
    assert not CreditEntry.objects.filter(pk=given["once"]).exists()
