"""Tests of named rows: locked while they change, with unique names."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from agents.environments import EnvironmentInput, create_environment
from agents.models import Environment
from core.db import lock_row, save_row
from core.exceptions import Conflict, NotFound
from core.validation import read_change

BOX = EnvironmentInput(name="box")


@pytest.fixture
def box(workspace) -> Environment:
    return save_row(Environment(workspace=workspace), BOX, what="An environment")


def test_a_name_is_unique_in_a_workspace(box, foreign_workspace):
    with pytest.raises(Conflict, match="A box is already named 'box'"):
        save_row(Environment(workspace_id=box.workspace_id), BOX, what="A box")

    assert create_environment(workspace_id=foreign_workspace.pk, fields={"name": "box"}).pk


def test_another_integrity_error_is_not_reported_as_a_taken_name(db):
    with pytest.raises(IntegrityError):
        save_row(Environment(workspace_id=None), BOX, what="An environment")


def test_a_change_builds_on_the_stored_row(box):
    Environment.objects.filter(pk=box.pk).update(network="full")

    with transaction.atomic():
        held = lock_row(box)
        given = read_change(EnvironmentInput, held, {"limits": {"pids": 9}}, replace=False)
        anew = read_change(EnvironmentInput, held, {"name": "anew"}, replace=True)

    assert (given.name, given.network, given.limits.pids) == ("box", "full", 9)
    assert (anew.name, anew.network) == ("anew", "none")


def test_a_row_that_was_deleted_meanwhile_cannot_be_changed(box):
    Environment.objects.filter(pk=box.pk).delete()

    with pytest.raises(NotFound), transaction.atomic():
        lock_row(box)
