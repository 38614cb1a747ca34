"""Every route that names an object, and how to make such an object in a workspace.

A new route needs one line, or `test_foreign_objects.py` fails: in `OWNED` when its path names an
object, in `SOCKETS` when it is such a WebSocket, in `open_routes.py` otherwise.
"""

from __future__ import annotations

from tests.acceptance.made import (
    Make,
    a_file,
    an_artifact,
    canvas_revision,
    draft_change,
    ids,
    memory_version,
    own_workspace,
    queued,
    resource,
    shared_view,
    snapshot,
    version,
    webhook_delivery,
)

AN_ITEM = ids(item_id="tenants.InboxItem")
A_WEBHOOK = ids(webhook_id="tenants.Webhook")
A_DOCUMENT = ids(entry_id="memory.MemoryEntry")
A_SESSION = ids(session_id="sessions_app.Session")

AN_APPROVAL = ids(pk="sessions_app.Approval")
A_WORKFLOW = ids(pk="orchestrator.Workflow")
A_TERMINAL = ids(terminal_id="orchestrator.Terminal")
WORKFLOW_DOORS = (
    "",
    "events/",
    "stream/",
    "approve/",
    "reject/",
    "pause/",
    "resume/",
    "terminate/",
    "restart/",
)
AN_AGENT = ids(agent_id="agents.Agent")
AN_ENVIRONMENT = ids(environment_id="agents.Environment")
CHAT_DOORS = ("", "stop/", "answer/", "retry/", "withdraw/")
SESSION_API = ("wake/", "interrupt/", "fork/", "export/", "context/", "tree/")
A_SERVER = ids(server_id="tools_app.McpServer")
MCP_DOORS = ("", "refresh/", "switch/", "delete/")
WEBHOOK_DOORS = ("", "switch/", "ping/", "rotate/", "remove/")
A_SCHEDULE = ids(schedule_id="sessions_app.Schedule")
SCHEDULE_DOORS = ("", "pause/", "resume/", "run/", "delete/")
DOCUMENT_DOORS = ("", "mark/", "delete/", "restore/", "redact/")
DRAFT_DOORS = ("", "publish/", "preview/", "changes/")
BUILD_DOORS = ("", "side/", "save/", "undo/", "publish/", "discard/", "preview/")
POLICY_PLACES = {
    "agent": "agents.Agent",
    "environment": "agents.Environment",
    "session": "sessions_app.Session",
}
SESSION_TABS = ("", "timeline/", "context/", "tree/", "files/", "outcome/", "events/", "replay/")
SESSION_DOORS = (*SESSION_TABS, "fork/", "preview/", "children/")
POLICY_DOORS = ("policy/", "policy/history/", "policy/revert/")

OWNED: dict[str, Make] = {
    **{
        f"/policies/{layer}/<subject_id>/{door}": ids(subject_id=label)
        for layer, label in POLICY_PLACES.items()
        for door in ("", "preview/")
    },
    **{f"/memory/<entry_id>/{door}": A_DOCUMENT for door in DOCUMENT_DOORS},
    **{f"/api/v1/agents/<agent_id>/{door}": AN_AGENT for door in POLICY_DOORS},
    **{f"/api/v1/environments/<environment_id>/{door}": AN_ENVIRONMENT for door in POLICY_DOORS},
    **{f"/api/v1/sessions/<session_id>/{door}": A_SESSION for door in POLICY_DOORS},
    **{f"/api/v1/workflows/<pk>/{door}": A_WORKFLOW for door in WORKFLOW_DOORS},
    "/api/v1/terminals/<pk>/": ids(pk="orchestrator.Terminal"),
    "/api/v1/terminals/<pk>/share/": ids(pk="orchestrator.Terminal"),
    "/terminals/<terminal_id>/": A_TERMINAL,
    "/terminals/<terminal_id>/close/": A_TERMINAL,
    "/api/v1/workflows/<pk>/artifacts/": A_WORKFLOW,
    "/api/v1/workflows/<pk>/artifacts/<path>": an_artifact,
    "/api/v1/agents/<agent_id>/policy/explain/": AN_AGENT,
    **{
        f"/api/v1/triggers/<pk>/{door}": ids(pk="orchestrator.WorkflowTrigger")
        for door in ("", "pause/", "resume/", "rotate/", "firings/")
    },
    **{
        f"/workflows/triggers/<trigger_id>/{door}": ids(trigger_id="orchestrator.WorkflowTrigger")
        for door in ("", "pause/", "resume/", "rotate/", "remove/")
    },
    "/api/v1/agents/<agent_id>/canvas/run/": AN_AGENT,
    "/api/v1/agents/<agent_id>/canvas/runs/": AN_AGENT,
    "/api/v1/sessions/<session_id>/policy/explain/": A_SESSION,
    "/api/v1/agents/<agent_id>/tools/": AN_AGENT,
    "/api/v1/tools/custom/<pk>/": ids(pk="tools_app.CustomTool"),
    "/api/v1/tools/mcp-servers/<pk>/": ids(pk="tools_app.McpServer"),
    "/api/v1/tools/mcp-servers/<pk>/refresh/": ids(pk="tools_app.McpServer"),
    "/api/v1/tools/mcp-servers/<pk>/test/": ids(pk="tools_app.McpServer"),
    "/settings/skills/<skill_id>/": ids(skill_id="tools_app.Skill"),
    "/settings/skills/<skill_id>/delete/": ids(skill_id="tools_app.Skill"),
    "/api/v1/skills/<pk>/": ids(pk="tools_app.Skill"),
    "/api/v1/vault/<pk>/": ids(pk="tenants.Secret"),
    "/settings/vault/<secret_id>/replace/": ids(secret_id="tenants.Secret"),
    "/settings/vault/<secret_id>/delete/": ids(secret_id="tenants.Secret"),
    "/api/v1/inbox/<pk>/": ids(pk="tenants.InboxItem"),
    "/api/v1/webhooks/<pk>/": ids(pk="tenants.Webhook"),
    "/api/v1/webhooks/<pk>/ping/": ids(pk="tenants.Webhook"),
    "/api/v1/webhooks/<pk>/rotate/": ids(pk="tenants.Webhook"),
    "/api/v1/webhooks/<webhook_id>/deliveries/": A_WEBHOOK,
    "/api/v1/webhooks/<webhook_id>/deliveries/<pk>/": webhook_delivery,
    "/api/v1/webhooks/<webhook_id>/deliveries/<pk>/replay/": webhook_delivery,
    "/inbox/<item_id>/": AN_ITEM,
    "/inbox/<item_id>/unread/": AN_ITEM,
    "/settings/webhooks/deliveries/<delivery_id>/replay/": ids(
        delivery_id="tenants.WebhookDelivery"
    ),
    "/api/v1/keys/<pk>/": ids(pk="tenants.ApiKey"),
    **{f"/chat/<session_id>/{door}": A_SESSION for door in CHAT_DOORS},
    **{f"/api/v1/sessions/<session_id>/{door}": A_SESSION for door in SESSION_API},
    **{f"/settings/mcp/<server_id>/{door}": A_SERVER for door in MCP_DOORS},
    **{f"/settings/webhooks/<webhook_id>/{door}": A_WEBHOOK for door in WEBHOOK_DOORS},
    **{
        f"/api/v1/schedules/<pk>/{door}": ids(pk="sessions_app.Schedule")
        for door in ("", "pause/", "resume/", "run/", "firings/")
    },
    **{f"/schedules/<schedule_id>/{door}": A_SCHEDULE for door in SCHEDULE_DOORS},
    "/settings/budgets/<budget_id>/": ids(budget_id="tenants.Purse"),
    "/settings/budgets/<budget_id>/remove/": ids(budget_id="tenants.Purse"),
    "/settings/budgets/prices/<price_id>/remove/": ids(price_id="tenants.Price"),
    "/settings/environments/<environment_id>/": AN_ENVIRONMENT,
    "/settings/environments/<environment_id>/delete/": AN_ENVIRONMENT,
    "/settings/tools/<tool_id>/": ids(tool_id="tools_app.CustomTool"),
    "/settings/tools/<tool_id>/delete/": ids(tool_id="tools_app.CustomTool"),
    "/api/v1/budgets/<pk>/": ids(pk="tenants.Purse"),
    "/api/v1/credits/entries/<pk>/": ids(pk="tenants.CreditEntry"),
    "/api/v1/prices/<pk>/": ids(pk="tenants.Price"),
    "/api/v1/members/<pk>/": ids(pk="tenants.Membership"),
    "/api/v1/invitations/<pk>/": ids(pk="tenants.Invitation"),
    "/settings/members/<membership_id>/role/": ids(membership_id="tenants.Membership"),
    "/settings/members/<membership_id>/remove/": ids(membership_id="tenants.Membership"),
    "/settings/invitations/<invitation_id>/withdraw/": ids(invitation_id="tenants.Invitation"),
    "/settings/keys/<key_id>/revoke/": ids(key_id="tenants.ApiKey"),
    "/api/v1/agents/<pk>/": ids(pk="agents.Agent"),
    "/api/v1/agents/<agent_id>/versions/": ids(agent_id="agents.Agent"),
    "/api/v1/agents/<agent_id>/versions/<number>/": version,
    "/api/v1/agents/<agent_id>/canvas/": AN_AGENT,
    "/api/v1/agents/<agent_id>/canvas/publish/": AN_AGENT,
    "/api/v1/agents/<agent_id>/canvas/revisions/": AN_AGENT,
    "/api/v1/agents/<agent_id>/canvas/revisions/<number>/": canvas_revision,
    **{f"/api/v1/agents/<agent_id>/draft/{door}": AN_AGENT for door in DRAFT_DOORS},
    "/api/v1/agents/<agent_id>/draft/changes/<change_id>/undo/": draft_change,
    "/api/v1/environments/<pk>/": ids(pk="agents.Environment"),
    "/api/v1/memory/<pk>/": ids(pk="memory.MemoryEntry"),
    "/api/v1/memory/<entry_id>/versions/": A_DOCUMENT,
    "/api/v1/memory/<entry_id>/versions/<number>/": memory_version,
    "/api/v1/memory/<entry_id>/versions/<number>/restore/": memory_version,
    "/api/v1/memory/<entry_id>/restore/": A_DOCUMENT,
    "/api/v1/memory/<entry_id>/redact/": A_DOCUMENT,
    "/api/v1/sessions/<pk>/": ids(pk="sessions_app.Session"),
    "/api/v1/sessions/<session_id>/events/": A_SESSION,
    "/api/v1/sessions/<session_id>/messages/": A_SESSION,
    "/api/v1/sessions/<session_id>/stream/": A_SESSION,
    "/api/v1/sessions/<session_id>/wake/": A_SESSION,
    "/api/v1/sessions/<session_id>/interrupt/": A_SESSION,
    "/api/v1/sessions/<session_id>/fork/": A_SESSION,
    "/api/v1/sessions/<session_id>/export/": A_SESSION,
    "/api/v1/sessions/<session_id>/context/": A_SESSION,
    "/api/v1/sessions/<session_id>/tree/": A_SESSION,
    "/api/v1/sessions/<session_id>/compact/": A_SESSION,
    "/chat/<session_id>/context/": A_SESSION,
    "/chat/<session_id>/compact/": A_SESSION,
    "/chat/<session_id>/undo/": A_SESSION,
    "/api/v1/sessions/<session_id>/snapshots/": A_SESSION,
    "/api/v1/sessions/<session_id>/snapshots/<snapshot_id>/undo/": snapshot,
    "/api/v1/sessions/<session_id>/queue/": A_SESSION,
    "/api/v1/sessions/<session_id>/resources/": A_SESSION,
    "/api/v1/sessions/<session_id>/files/": A_SESSION,
    "/api/v1/sessions/<session_id>/files/<path>": a_file,
    "/workflows/<workflow_id>/": ids(workflow_id="orchestrator.Workflow"),
    "/workflows/<workflow_id>/<act>/": lambda workspace: {
        **ids(workflow_id="orchestrator.Workflow")(workspace),
        "act": "pause",
    },
    "/sessions/views/<view_id>/delete/": shared_view,
    **{f"/sessions/<session_id>/{door}": A_SESSION for door in SESSION_DOORS},
    **{f"/agents/<agent_id>/build/{door}": AN_AGENT for door in BUILD_DOORS},
    "/chat/<session_id>/": A_SESSION,
    "/chat/<session_id>/stop/": A_SESSION,
    "/chat/<session_id>/answer/": A_SESSION,
    "/chat/<session_id>/retry/": A_SESSION,
    "/chat/<session_id>/withdraw/": A_SESSION,
    "/api/v1/sessions/<session_id>/queue/<run_id>/": queued,
    "/api/v1/sessions/<session_id>/resources/<resource_id>/": resource,
    "/api/v1/sessions/<session_id>/resources/<resource_id>/refresh/": resource,
    "/api/v1/runs/<pk>/": ids(pk="sessions_app.Run"),
    "/api/v1/runs/<pk>/cancel/": ids(pk="sessions_app.Run"),
    "/api/v1/runs/<pk>/retry/": ids(pk="sessions_app.Run"),
    "/api/v1/tools/executions/<pk>/": ids(pk="sessions_app.ToolExecution"),
    "/api/v1/tools/executions/<pk>/retry/": ids(pk="sessions_app.ToolExecution"),
    "/api/v1/tools/executions/<pk>/verify/": ids(pk="sessions_app.ToolExecution"),
    "/api/v1/approvals/<pk>/": AN_APPROVAL,
    "/approvals/<approval_id>/answer/": ids(approval_id="sessions_app.Approval"),
}

SOCKETS: dict[str, Make] = {
    "/ws/inbox/<workspace_id>/": own_workspace,
    "/ws/sessions/<session_id>/": A_SESSION,
    "/ws/agents/<agent_id>/canvas/": AN_AGENT,
    "/ws/agents/<agent_id>/draft/": AN_AGENT,
    "/ws/terminals/<terminal_id>/": A_TERMINAL,
    "/ws/workflows/<workflow_id>/": ids(workflow_id="orchestrator.Workflow"),
}
