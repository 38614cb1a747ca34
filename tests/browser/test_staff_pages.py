"""Tests of the accessibility of third-party pages: Django's admin and the API documentation."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Page
from pytest_django.live_server_helper import LiveServer

from tenants.models import User, Workspace
from tests.browser.axe import faults_of
from tests.browser.conftest import OpenContext
from tests.browser.every_page import sign_in_as
from tests.browser.looks import WIDE
from tests.factories import make, our_models

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]

#: Violations in third-party markup that our styles cannot fix.
KNOWN_VIOLATIONS = {
    "/api/docs/": {"nested-interactive"},
    reverse("admin:tenants_user_changelist"): {"aria-prohibited-attr"},
    reverse("admin:sessions_app_run_changelist"): {"link-name"},
}


def staff_window(open_context: OpenContext, live_server: LiveServer, workspace: Workspace) -> Page:
    for model in our_models():
        make(model, workspace)
    client = Client()
    client.force_login(User.objects.create_superuser("root@example.com", "correct horse 9"))
    context = open_context(viewport=WIDE)
    sign_in_as(context, client, live_server.url)
    return context.new_page()


def faults_at(page: Page, path: str) -> list[str]:
    """Return the violations in the light theme, and those of contrast in the dark one."""
    known = {
        rule
        for place, rules in KNOWN_VIOLATIONS.items()
        if path.startswith(place)
        for rule in rules
    }
    page.emulate_media(color_scheme="light")
    found = faults_of(page)
    page.emulate_media(color_scheme="dark")
    found += faults_of(page, only=["color-contrast"])
    return [one for one in found if one.split(": ")[1] not in known]


def ignore_inline_styles(complaints: list[str]) -> None:
    """Ignore inline styles of third-party scripts, which the content security policy refuses."""
    complaints[:] = [one for one in complaints if not one.startswith("Applying inline style")]


def test_every_admin_list_and_form_is_accessible(
    open_context: OpenContext,
    live_server: LiveServer,
    workspace: Workspace,
    complaints: list[str],
):
    page = staff_window(open_context, live_server, workspace)
    paths = [reverse("admin:index")]
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        paths.append(reverse(f"{name}_changelist"))
        one = model._base_manager.order_by("pk").first()
        if one is not None:
            paths.append(reverse(f"{name}_change", args=[one.pk]))
    wrong = []
    for path in paths:
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        wrong += faults_at(page, path)
    assert not wrong, "\n".join(wrong)
    ignore_inline_styles(complaints)


def test_the_api_documentation_is_accessible(
    open_context: OpenContext,
    live_server: LiveServer,
    workspace: Workspace,
    complaints: list[str],
):
    page = staff_window(open_context, live_server, workspace)
    page.goto("/api/docs/")
    page.locator(".opblock").first.wait_for()

    assert faults_at(page, "/api/docs/") == []
    ignore_inline_styles(complaints)
