"""Tests of what holds for every page: titles, forms, no inline scripts, error pages."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.template.loader import render_to_string
from django.test import Client

from core.templatetags.frame import icon, initials, relative

PAGES = [
    "/",
    "/settings/workspace/",
    "/settings/members/",
    "/settings/keys/",
    "/settings/keys/new/",
    "/settings/account/",
    "/password/",
    "/workspaces/new/",
]
PUBLIC_PAGES = ["/sign-in/", "/sign-up/", "/password/reset/", "/password/reset/sent/"]


def every_page(signed_in: Client) -> dict[str, str]:
    outside = Client()
    return {url: signed_in.get(url).text for url in PAGES} | {
        url: outside.get(url).text for url in PUBLIC_PAGES
    }


def test_every_page_has_a_unique_title(browser_client):
    titles = [
        re.findall("<title>(.*)</title>", page) for page in every_page(browser_client).values()
    ]

    assert all(len(found) == 1 for found in titles)
    assert len({found[0] for found in titles}) == len(titles)


def test_every_page_has_one_first_heading(browser_client):
    for url, page in every_page(browser_client).items():
        assert len(re.findall("<h1", page)) == 1, url


def test_no_page_has_an_inline_script_style_or_handler(browser_client):
    for url, page in every_page(browser_client).items():
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page), url


def test_every_form_that_changes_something_carries_a_token(browser_client):
    forms = [
        (url, form)
        for url, page in every_page(browser_client).items()
        for form in re.findall(r'<form[^>]*method="post".*?</form>', page, re.DOTALL)
    ]

    assert len({url for url, _ in forms}) > 8
    assert [url for url, form in forms if "csrfmiddlewaretoken" not in form] == []


def test_a_page_takes_the_same_queries_for_any_number_of_members(
    browser_client, workspace, django_assert_max_num_queries
):
    from tests.conftest import add_member

    for number in range(5):
        add_member(workspace, "viewer", f"v{number}@example.com")
    # The layout counts approvals and unread messages and reads the credits.
    with django_assert_max_num_queries(9):
        browser_client.get("/settings/members/")


def test_members_see_a_missing_page_with_the_navigation(browser_client):
    answer = browser_client.get("/nowhere/")

    assert answer.status_code == 404
    assert "This page doesn't exist" in answer.text
    assert 'class="rail"' in answer.text


def test_signed_out_visitors_see_a_missing_page_with_a_sign_in_link(client, db):
    answer = client.get("/nowhere/")

    assert answer.status_code == 404
    assert 'class="rail"' not in answer.text
    assert "/sign-in/" in answer.text


@pytest.mark.parametrize("template", ["400.html", "500.html"])
def test_the_error_pages_need_no_context_and_no_database(template):
    assert "</html>" in render_to_string(template)


def test_the_settings_menu_links_only_to_pages_that_the_member_may_open(client, workspace):
    from tests.conftest import add_member

    client.force_login(add_member(workspace, "viewer"))
    page = client.get("/settings/workspace/").text
    column = set(re.findall(r'href="(/settings/[a-z]+/)"', page))

    assert len(column) > 8
    assert {url: client.get(url).status_code for url in column} == dict.fromkeys(column, 200)


def test_a_forbidden_page_says_why_and_what_to_do(client, workspace):
    from tests.conftest import add_member

    client.force_login(add_member(workspace, "viewer"))
    answer = client.get("/settings/keys/new/")

    assert answer.status_code == 403
    assert "An admin can change your role" in answer.text


def test_an_unknown_icon_raises_an_error():
    with pytest.raises(ImproperlyConfigured, match=r"frontend/icons\.json"):
        icon("no-such-icon")


@pytest.mark.parametrize(
    ("name", "letters"),
    [("Olive Okafor", "OO"), ("Acme", "AC"), ("owner@localhost", "OL"), ("x", "X"), ("", "")],
)
def test_a_name_is_abbreviated_to_two_letters(name, letters):
    assert initials(name) == letters


@pytest.mark.parametrize(
    ("distance", "words"),
    [
        (timedelta(seconds=3), "just now"),
        (timedelta(seconds=40), "40 s ago"),
        (timedelta(minutes=5), "5 min ago"),
        (timedelta(hours=23, minutes=59), "23 h ago"),
        (timedelta(days=41), "41 d ago"),
        (timedelta(days=400), "12 Oct 2025"),
        (timedelta(days=-7) + timedelta(seconds=1), "in 7 d"),
    ],
)
def test_times_are_shown_relative_to_now(distance, words):
    now = datetime(2026, 11, 16, tzinfo=UTC)

    assert relative(now - distance, now) == words
