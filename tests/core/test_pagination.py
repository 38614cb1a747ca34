"""Tests that paged lists neither lose nor repeat rows."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from datetime import timedelta

import pytest
from django.utils import timezone

from tenants.keys import issue_key
from tenants.models import ApiKey

KEYS = "/api/v1/keys/"


@pytest.fixture
def many(api, workspace):
    """Create nine keys beside the client's own, most with the same timestamp."""
    for number in range(9):
        issue_key(workspace_id=workspace.pk, name=f"k{number}")
    moment = timezone.now()
    ApiKey.objects.update(created_at=moment)
    ApiKey.objects.filter(name="k0").update(created_at=moment - timedelta(days=1))
    ApiKey.objects.filter(name="k8").update(created_at=moment + timedelta(days=1))
    return [
        str(pk) for pk in ApiKey.objects.order_by("-created_at", "-pk").values_list("pk", flat=True)
    ]


def ids(page) -> list[str]:
    return [row["id"] for row in page["results"]]


def walk(api, url: str | None, direction: str) -> list[list[str]]:
    pages = []
    while url:
        page = api.get(url).json()
        pages.append(ids(page))
        url = page[direction]
    return pages


@pytest.mark.parametrize("limit", [1, 3, 4, 10, 50])
def test_forward_pages_hold_every_row_once_newest_first(api, many, limit):
    pages = walk(api, f"{KEYS}?limit={limit}", "next")

    assert [row for page in pages for row in page] == many
    assert all(len(page) <= limit for page in pages)


def test_backward_pages_are_the_same_pages(api, many):
    url, last = f"{KEYS}?limit=3", ""
    while url:
        last, url = url, api.get(url).json()["next"]

    forward = walk(api, f"{KEYS}?limit=3", "next")
    backward = walk(api, last, "previous")
    assert [row for page in reversed(backward) for row in page] == many
    assert backward[0] == forward[-1]


def test_a_row_added_meanwhile_does_not_shift_the_pages(api, many, workspace):
    first = api.get(f"{KEYS}?limit=4").json()
    issue_key(workspace_id=workspace.pk, name="late")
    ApiKey.objects.filter(name="late").update(created_at=timezone.now() + timedelta(days=2))

    assert ids(api.get(first["next"]).json()) == many[4:8]


def test_a_single_page_has_no_next_or_previous_page(api, many):
    page = api.get(KEYS).json()

    assert set(page) == {"results", "next", "previous"}
    assert (page["next"], page["previous"]) == (None, None)


def test_the_limit_has_a_maximum(api, workspace):
    ApiKey.objects.bulk_create(
        ApiKey(workspace=workspace, name="x", prefix="sy", digest=f"{n:064}") for n in range(210)
    )

    assert len(api.get(f"{KEYS}?limit=5000").json()["results"]) == 200


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-1", "limit=many", "limit=²", "cursor=!!", "cursor=WyJhIiwxXQ=="]
)
def test_an_invalid_cursor_or_limit_is_refused(api, query):
    assert api.get(f"{KEYS}?{query}").status_code == 400


def test_a_cursor_with_an_invalid_id_is_refused(api, workspace):
    from core.pagination import Cursor

    cursor = Cursor(moment=timezone.now(), pk="17x", newer=False).encode()

    assert api.get(KEYS, {"cursor": cursor}).status_code == 400


def test_a_deeply_nested_cursor_is_refused(api):
    cursor = urlsafe_b64encode(b"[" * 3_000).decode()

    assert api.get(KEYS, {"cursor": cursor}).json()["detail"].startswith("This cursor is not valid")


def test_a_page_costs_a_constant_number_of_queries(api, many, django_assert_num_queries):
    api.get(KEYS)
    with django_assert_num_queries(2):  # The key of the request, and the page.
        api.get(KEYS)
