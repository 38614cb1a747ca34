"""Tests of environments: validation, changes and deletion."""

from __future__ import annotations

import pytest

from agents.definitions import change_agent
from agents.environments import (
    change_environment,
    create_environment,
    default_environment,
    delete_environment,
    environment_or_default,
    find_environment,
)
from agents.models import Environment
from core.exceptions import Conflict, Invalid, NotFound

FULL = {
    "name": "box",
    "kind": "container",
    "network": "allowlist",
    "allowed_hosts": ["API.example.com.", "*.example.org", "bücher.example", "10.0.0.7"],
    "image": "example/python:3.11-slim",
    "mounts": [
        {
            "kind": "repo_mount",
            "source_ref": "https://x.example/r",
            "mount_path": "/workspace/repo/",
        }
    ],
    "limits": {"memory_mb": 2048},
}


def test_an_environment_is_stored_normalised(workspace, owner):
    made = create_environment(workspace_id=workspace.pk, fields=FULL, created_by=owner)

    stored = Environment.objects.get(pk=made.pk)
    assert stored.allowed_hosts == [
        "api.example.com",
        "*.example.org",
        "xn--bcher-kva.example",
        "10.0.0.7",
    ]
    assert stored.limits == {
        "cpu_seconds": 300,
        "memory_mb": 2048,
        "pids": 128,
        "wall_seconds": 600,
    }
    assert stored.mounts[0]["mount_path"] == "/workspace/repo"
    assert stored.created_by == owner


def test_the_network_is_none_by_default(workspace):
    assert create_environment(workspace_id=workspace.pk, fields={"name": "box"}).network == "none"


def test_a_null_image_is_stored_as_empty(workspace):
    made = create_environment(workspace_id=workspace.pk, fields={"name": "plain", "image": None})

    assert made.image == ""


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"name": ""}, "name"),
        ({"name": "\x00"}, "NUL"),
        ({"kind": "moon"}, "kind"),
        ({"network": "some"}, "network"),
        ({"network": "allowlist"}, "at least one host"),
        ({"allowed_hosts": ["*"]}, "choose the network `full`"),
        ({"allowed_hosts": ["https://example.com"]}, "is not a valid host"),
        ({"allowed_hosts": ["example.com:443"]}, "is not a valid host"),
        ({"allowed_hosts": ["a*.example.com"]}, "is not a valid host"),
        ({"allowed_hosts": ["example..com"]}, "is not a valid host"),
        ({"allowed_hosts": ["-example.com"]}, "is not a valid host"),
        ({"allowed_hosts": ["exam\nple.com"]}, "is not a valid host"),
        ({"allowed_hosts": ["x" * 300]}, "is not a valid host"),
        ({"allowed_hosts": "example.com"}, "a list"),
        ({"image": "--privileged"}, "image"),
        ({"image": "a b"}, "image"),
        ({"image": "busybox\n"}, "image"),
        ({"limits": {"pids": 1}}, "limits.pids"),
        ({"limits": {"disk": 1}}, "limits.disk"),
        ({"mounts": [{"kind": "vault", "mount_path": "vaults"}]}, "absolute"),
        ({"mounts": [{"kind": "vault", "mount_path": "/a/../etc"}]}, "absolute"),
        (
            {"mounts": [{"kind": "vault", "source_ref": "A", "mount_path": "/etc/x"}]},
            "/vaults/NAME",
        ),
        (
            {
                "mounts": [
                    {
                        "kind": "local_file",
                        "source_ref": "/etc/passwd",
                        "mount_path": "/workspace/x",
                    }
                ]
            },
            "source_ref must",
        ),
        (
            {
                "mounts": [
                    {
                        "kind": "workspace_directory",
                        "source_ref": "../..",
                        "mount_path": "/workspace/data",
                    }
                ]
            },
            "source_ref must",
        ),
        (
            {"mounts": [{"kind": "session_runtime_memory", "mount_path": "/runtime"}] * 2},
            "same mount_path",
        ),
        ({"colour": "red"}, "colour"),
    ],
)
def test_an_invalid_environment_is_refused(workspace, fields, complaint):
    with pytest.raises(Invalid, match=complaint):
        create_environment(workspace_id=workspace.pk, fields={"name": "box", **fields})
    assert Environment.objects.filter(workspace=workspace).count() == 1


def test_a_change_keeps_omitted_fields(workspace):
    box = create_environment(workspace_id=workspace.pk, fields=FULL)

    changed = change_environment(box, {"network": "none", "limits": {"pids": 9}})

    assert (changed.network, changed.image) == ("none", FULL["image"])
    assert (changed.limits["pids"], changed.limits["memory_mb"]) == (9, 2048)
    assert change_environment(box, {"name": "box"}, replace=True).image == ""


def test_a_change_is_validated_as_a_whole(workspace):
    box = create_environment(workspace_id=workspace.pk, fields=FULL)

    with pytest.raises(Invalid, match="at least one host"):
        change_environment(box, {"allowed_hosts": []})


def test_a_name_is_unique_in_its_workspace_only(workspace, foreign_workspace):
    create_environment(workspace_id=workspace.pk, fields={"name": "box"})
    other = create_environment(workspace_id=workspace.pk, fields={"name": "crate"})
    create_environment(workspace_id=foreign_workspace.pk, fields={"name": "box"})

    with pytest.raises(Conflict, match="already named 'box'"):
        create_environment(workspace_id=workspace.pk, fields={"name": "box"})
    with pytest.raises(Conflict, match="already named 'box'"):
        change_environment(other, {"name": "box"})


def test_an_unused_environment_can_be_deleted(workspace):
    box = create_environment(workspace_id=workspace.pk, fields={"name": "box"})

    delete_environment(box)

    with pytest.raises(NotFound):
        find_environment(workspace.pk, "box")


def test_an_environment_used_by_a_version_cannot_be_deleted(workspace, agent):
    box = create_environment(workspace_id=workspace.pk, fields={"name": "box"})
    change_agent(agent, {"environment": box.pk})
    change_agent(agent, {"environment": None})

    with pytest.raises(Conflict, match="Scout"):
        delete_environment(box)
    assert find_environment(workspace.pk, str(box.pk)) == box


def test_the_default_keeps_its_name_and_cannot_be_deleted(workspace):
    default = find_environment(workspace.pk, "local-default")

    with pytest.raises(Conflict):
        change_environment(default, {"name": "mine"})
    with pytest.raises(Conflict):
        delete_environment(default)
    assert change_environment(default, {"network": "full"}).network == "full"
    assert default_environment(workspace.pk).network == "full"


def test_the_default_environment_is_used_when_none_is_chosen(workspace, foreign_workspace):
    box = create_environment(workspace_id=workspace.pk, fields={"name": "box"})

    assert environment_or_default(workspace.pk, box.pk) == box
    assert environment_or_default(workspace.pk, None).name == "local-default"
    assert environment_or_default(foreign_workspace.pk, box.pk).workspace == foreign_workspace
    Environment.objects.filter(workspace=workspace, name="local-default").delete()
    assert environment_or_default(workspace.pk, None).limits == box.limits
    assert list(Environment.objects.for_workspace(workspace.pk)) == [box]


def test_a_missing_default_environment_is_created_again(workspace):
    Environment.objects.filter(workspace=workspace).delete()

    assert default_environment(workspace.pk).network == "none"
    assert default_environment(workspace.pk) == find_environment(workspace.pk, "local-default")
