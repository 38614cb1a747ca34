"""Tests of the command that erases a workspace."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from core.ids import uuid7
from tenants.models import Workspace
from tools_app.files import SessionFolder, shared_dir


@pytest.fixture
def files(workspace, foreign_workspace, settings, tmp_path):
    """Create one file in each of two workspaces."""
    settings.DATA_DIR = tmp_path
    made = []
    for place in (workspace, foreign_workspace):
        folder = SessionFolder(workspace_id=place.pk, session_id=uuid7()).make()
        (folder / "note").write_text("kept")
        shared_dir(place.pk).mkdir(parents=True)
        made.append(folder / "note")
    return made


@pytest.mark.django_db(transaction=True)
def test_only_the_rows_and_files_of_that_workspace_are_erased(
    workspace, foreign_workspace, files, capsys
):
    call_command("erase_workspace", workspace.slug, "--yes")

    assert Workspace.objects.get() == foreign_workspace
    assert [file.exists() for file in files] == [False, True]
    assert [shared_dir(one.pk).exists() for one in (workspace, foreign_workspace)] == [False, True]


def test_nothing_is_erased_without_the_yes_option(workspace, files, capsys):
    call_command("erase_workspace", workspace.slug)

    assert "Add --yes" in capsys.readouterr().out
    assert Workspace.objects.filter(pk=workspace.pk).exists()
    assert files[0].exists()


def test_an_unknown_workspace_is_an_error(db):
    with pytest.raises(CommandError, match="no workspace 'nowhere'"):
        call_command("erase_workspace", "nowhere")
