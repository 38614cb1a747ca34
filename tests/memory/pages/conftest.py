"""Fixtures and helpers for the memory pages."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from memory.documents import content_of
from memory.models import MemoryEntry
from tests.conftest import add_member


@pytest.fixture
def page(browser_client: Client) -> Client:
    return browser_client


@pytest.fixture
def viewer(workspace) -> Client:
    client = Client()
    client.force_login(add_member(workspace, "viewer"))
    return client


def url(entry: MemoryEntry, route: str = "memory_document") -> str:
    return reverse(route, args=[entry.pk])


def text(answer) -> str:
    return answer.content.decode()


def newest(entry: MemoryEntry) -> str:
    return content_of(MemoryEntry.objects.select_related("current").get(pk=entry.pk))
