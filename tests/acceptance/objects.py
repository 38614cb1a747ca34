"""Creates the objects that routes name, in a given workspace."""

from __future__ import annotations

import json
from collections.abc import Callable

from django.apps import apps

from agents.models import AgentVersion, CanvasRevision, DraftChange
from memory.models import MemoryVersion
from orchestrator.models import Step, Workflow
from orchestrator.tasks.artifacts import COLLECT, collect
from orchestrator.tasks.sandbox import TaskSandbox
from sessions_app.models import ContextSnapshot, ResourceAttachment, Run, SavedView, Session
from sessions_app.resources.files import store_file
from tenants.models import WebhookDelivery, Workspace
from tests.factories import make
from tests.tools_app.pictures import png
from tools_app.files import SessionFolder, write_file
from tools_app.parts import store_part

Arguments = dict[str, object]
Make = Callable[[Workspace], Arguments]


def ids(**labels: str) -> Make:
    """Return a factory of route arguments: the ids of new rows of the named models."""
    return lambda workspace: {
        name: make(apps.get_model(label), workspace).pk for name, label in labels.items()
    }


def version(workspace: Workspace) -> Arguments:
    made = AgentVersion.objects.get(pk=make(AgentVersion, workspace).pk)
    return {"agent_id": made.agent_id, "number": made.number}


def canvas_revision(workspace: Workspace) -> Arguments:
    made = CanvasRevision.objects.get(pk=make(CanvasRevision, workspace).pk)
    return {"agent_id": made.agent_id, "number": made.number}


def canvas_run(workspace: Workspace) -> Arguments:
    revision = CanvasRevision.objects.get(pk=make(CanvasRevision, workspace).pk)
    params = {"agent": str(revision.agent_id), "revision": revision.number, "input": None}
    run = Workflow.objects.create(
        workspace=workspace, key=f"run-{revision.pk}", name="canvas", params=params,
        agent_id=revision.agent_id,
    )  # fmt: skip
    Step.objects.create(workflow=run, position=0, name="start", status="complete", result="1")
    return {"agent_id": revision.agent_id, "run_id": run.pk}


def canvas_node(workspace: Workspace) -> Arguments:
    return {**canvas_run(workspace), "node": "start"}


def draft_change(workspace: Workspace) -> Arguments:
    made = DraftChange.objects.get(pk=make(DraftChange, workspace).pk)
    return {"agent_id": made.agent_id, "change_id": made.pk}


def response(workspace: Workspace) -> Arguments:
    """Return the id of a run, which is a response to clients of OpenAI's API."""
    session = make(Session, workspace)
    return {"response_id": Run.objects.create(workspace=workspace, session_id=session.pk).pk}


def queued(workspace: Workspace) -> Arguments:
    session = make(Session, workspace)
    run = Run.objects.create(workspace=workspace, session_id=session.pk)
    return {"session_id": session.pk, "run_id": run.pk}


def resource(workspace: Workspace) -> Arguments:
    made = ResourceAttachment.objects.get(pk=make(ResourceAttachment, workspace).pk)
    return {"session_id": made.session_id, "resource_id": made.pk}


def file(workspace: Workspace) -> Arguments:
    session = Session.objects.get(pk=make(Session, workspace).pk)
    store_file(session, "notes.md", [b"ours"])
    return {"session_id": session.pk, "path": "notes.md"}


def picture(workspace: Workspace) -> Arguments:
    session = Session.objects.get(pk=make(Session, workspace).pk)
    store_file(session, "a.png", [b"ours"])
    return {"session_id": session.pk, "path": "a.png"}


def part(workspace: Workspace) -> Arguments:
    session_id = make(Session, workspace).pk
    return {"session_id": session_id, "digest": store_part(workspace.pk, png()).sha256}


def artifact(workspace: Workspace) -> Arguments:
    workflow = Workflow.objects.get(pk=make(Workflow, workspace).pk)
    folder = SessionFolder(workspace_id=workspace.pk, session_id=workflow.pk)
    write_file(folder, "report.txt", b"ours")
    here = TaskSandbox(workspace_id=workspace.pk, workflow_id=workflow.pk, token="t")
    Step.objects.create(
        workflow=workflow,
        position=99,
        name=COLLECT,
        status=Step.Status.COMPLETE,
        result=json.dumps(collect(here, {})),
    )
    return {"pk": workflow.pk, "path": "report.txt"}


def snapshot(workspace: Workspace) -> Arguments:
    made = ContextSnapshot.objects.get(pk=make(ContextSnapshot, workspace).pk)
    return {"session_id": made.session_id, "snapshot_id": made.pk}


def memory_version(workspace: Workspace) -> Arguments:
    made = MemoryVersion.objects.get(pk=make(MemoryVersion, workspace).pk)
    return {"entry_id": made.entry_id, "number": made.number}


def webhook_delivery(workspace: Workspace) -> Arguments:
    made = WebhookDelivery.objects.get(pk=make(WebhookDelivery, workspace).pk)
    return {"webhook_id": made.webhook_id, "pk": made.pk}


def shared_view(workspace: Workspace) -> Arguments:
    made = make(SavedView, workspace)
    SavedView.objects.filter(pk=made.pk).update(is_shared=True)
    return {"view_id": made.pk}


def own_workspace(workspace: Workspace) -> Arguments:
    return {"workspace_id": workspace.pk}
