"""Tests of `manage.py sign_in_link`: the link leads to the server that runs."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from orchestrator.launcher.checks import claim_data_dir, running_address, sign_claim


@pytest.fixture(autouse=True)
def own_data_dir(settings, tmp_path):
    settings.DATA_DIR = tmp_path
    settings.PUBLIC_URL = "http://127.0.0.1:8000"


def link() -> str:
    out = StringIO()
    call_command("sign_in_link", "olive@example.com", stdout=out)
    return out.getvalue().strip()


@pytest.fixture(autouse=True)
def olive(owner):
    owner.email = "olive@example.com"
    owner.save()


def test_the_link_names_the_port_of_the_server_that_runs(settings, tmp_path):
    """It was started with `PORT=8123 make run`, and this process does not know that."""
    with claim_data_dir(tmp_path) as claim:
        sign_claim(claim, address="http://127.0.0.1:8123")

        assert link().startswith("http://127.0.0.1:8123/sign-in/")

    assert running_address(tmp_path) is None, "the server was stopped"
    assert link().startswith("http://127.0.0.1:8000/sign-in/")


def test_the_link_names_the_configured_address_where_nothing_was_ever_started():
    assert link().startswith("http://127.0.0.1:8000/sign-in/")


def test_an_unknown_user_is_an_error(db):
    with pytest.raises(CommandError, match="no such active user"):
        call_command("sign_in_link", "nobody@example.com")
