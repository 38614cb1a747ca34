"""Rows with names: held while they change, one of each name."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from agents.environment_input import EnvironmentInput
from agents.environments import create_environment
from agents.models import Environment
from agents.named_rows import hold, read_change, write
from config.faults import Conflict, NotFound

BOX = EnvironmentInput(name="box")


@pytest.fixture
def box(workspace) -> Environment:
    return write(Environment(workspace=workspace), BOX, what="An environment")


def test_a_name_is_given_once_in_a_workspace(box, foreign_workspace):
    with pytest.raises(Conflict, match="A box is named 'box' already"):
        write(Environment(workspace_id=box.workspace_id), BOX, what="A box")

    assert create_environment(workspace_id=foreign_workspace.pk, fields={"name": "box"}).pk


def test_another_lack_is_not_told_as_a_name_that_is_taken(db):
    with pytest.raises(IntegrityError):
        write(Environment(workspace_id=None), BOX, what="An environment")


def test_a_change_builds_on_the_row_as_it_is_now(box):
    Environment.objects.filter(pk=box.pk).update(network="full")

    with transaction.atomic():
        held = hold(box)
        given = read_change(EnvironmentInput, held, {"limits": {"pids": 9}}, replace=False)
        anew = read_change(EnvironmentInput, held, {"name": "anew"}, replace=True)

    assert (given.name, given.network, given.limits.pids) == ("box", "full", 9)
    assert (anew.name, anew.network) == ("anew", "none")


def test_a_row_that_was_deleted_meanwhile_cannot_be_changed(box):
    Environment.objects.filter(pk=box.pk).delete()

    with pytest.raises(NotFound), transaction.atomic():
        hold(box)
