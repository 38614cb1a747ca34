"""Lists every route that names an object, with a factory for that object.

Every new route needs one line, or `test_foreign_objects.py` fails: in `OWNED` if its path names an
object, in `SOCKETS` if it is a WebSocket that does, in `open_routes.py` otherwise.
"""

from __future__ import annotations

from tests.acceptance.objects import (
    Make,
    artifact,
    canvas_node,
    canvas_revision,
    canvas_run,
    draft_change,
    file,
    ids,
    memory_version,
    own_workspace,
    part,
    picture,
    queued,
    resource,
    response,
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
WORKFLOW_PATHS = (
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
A_CONSOLIDATION = ids(consolidation_id="memory.Consolidation")
AN_AGENT = ids(agent_id="agents.Agent")
AN_ENVIRONMENT = ids(environment_id="agents.Environment")
CHAT_PATHS = (
    "",
    "stop/",
    "answer/",
    "retry/",
    "withdraw/",
    "options/",
    "export/",
    "model/",
    "show/",
)
SESSION_API = ("wake/", "interrupt/", "fork/", "export/", "context/", "tree/")
A_SERVER = ids(server_id="tools_app.McpServer")
MCP_PATHS = ("", "refresh/", "switch/", "delete/")
WEBHOOK_PATHS = ("", "switch/", "ping/", "rotate/", "remove/")
A_SCHEDULE = ids(schedule_id="sessions_app.Schedule")
SCHEDULE_PATHS = ("", "pause/", "resume/", "run/", "delete/")
DOCUMENT_PATHS = ("", "mark/", "delete/", "restore/", "redact/")
DRAFT_PATHS = ("", "publish/", "preview/", "changes/")
BUILD_PATHS = ("", "side/", "save/", "undo/", "publish/", "discard/", "preview/")
POLICY_PLACES = {
    "agent": "agents.Agent",
    "environment": "agents.Environment",
    "session": "sessions_app.Session",
}
SESSION_TABS = ("", "timeline/", "context/", "tree/", "files/", "outcome/", "events/", "replay/")
SESSION_PATHS = (*SESSION_TABS, "fork/", "preview/", "children/")
POLICY_PATHS = ("policy/", "policy/history/", "policy/revert/")

OWNED: dict[str, Make] = {
    "/ag-ui/<agent>/": ids(agent="agents.Agent"),
    "/v1/models/<model>": ids(model="agents.Agent"),
    "/v1/responses/<response_id>": response,
    "/v1/responses/<response_id>/cancel": response,
    **{
        f"/policies/{layer}/<subject_id>/{path}": ids(subject_id=label)
        for layer, label in POLICY_PLACES.items()
        for path in ("", "preview/")
    },
    **{f"/memory/<entry_id>/{path}": A_DOCUMENT for path in DOCUMENT_PATHS},
    **{f"/api/v1/agents/<agent_id>/{path}": AN_AGENT for path in POLICY_PATHS},
    **{f"/api/v1/environments/<environment_id>/{path}": AN_ENVIRONMENT for path in POLICY_PATHS},
    **{f"/api/v1/sessions/<session_id>/{path}": A_SESSION for path in POLICY_PATHS},
    **{f"/api/v1/workflows/<pk>/{path}": A_WORKFLOW for path in WORKFLOW_PATHS},
    "/api/v1/terminals/<pk>/": ids(pk="orchestrator.Terminal"),
    "/api/v1/terminals/<pk>/share/": ids(pk="orchestrator.Terminal"),
    "/terminals/<terminal_id>/": A_TERMINAL,
    "/terminals/<terminal_id>/close/": A_TERMINAL,
    "/api/v1/workflows/<pk>/artifacts/": A_WORKFLOW,
    "/api/v1/workflows/<pk>/artifacts/<path>": artifact,
    "/api/v1/agents/<agent_id>/policy/explain/": AN_AGENT,
    **{
        f"/api/v1/triggers/<pk>/{path}": ids(pk="orchestrator.WorkflowTrigger")
        for path in ("", "pause/", "resume/", "rotate/", "firings/")
    },
    **{
        f"/workflows/triggers/<trigger_id>/{path}": ids(trigger_id="orchestrator.WorkflowTrigger")
        for path in ("", "pause/", "resume/", "rotate/", "remove/")
    },
    "/api/v1/agents/<agent_id>/canvas/run/": AN_AGENT,
    "/api/v1/agents/<agent_id>/canvas/test/": AN_AGENT,
    "/api/v1/agents/<agent_id>/canvas/runs/<run_id>/": canvas_run,
    "/api/v1/agents/<agent_id>/canvas/runs/<run_id>/nodes/<node>/": canvas_node,
    "/agents/<agent_id>/canvas/": AN_AGENT,
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
    **{f"/chat/<session_id>/{path}": A_SESSION for path in CHAT_PATHS},
    **{f"/api/v1/sessions/<session_id>/{path}": A_SESSION for path in SESSION_API},
    **{f"/settings/mcp/<server_id>/{path}": A_SERVER for path in MCP_PATHS},
    **{f"/settings/webhooks/<webhook_id>/{path}": A_WEBHOOK for path in WEBHOOK_PATHS},
    **{
        f"/api/v1/schedules/<pk>/{path}": ids(pk="sessions_app.Schedule")
        for path in ("", "pause/", "resume/", "run/", "firings/")
    },
    **{f"/schedules/<schedule_id>/{path}": A_SCHEDULE for path in SCHEDULE_PATHS},
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
    "/api/v1/agents/<agent_id>/canvas/history/": AN_AGENT,
    "/api/v1/agents/<agent_id>/canvas/revisions/": AN_AGENT,
    "/api/v1/agents/<agent_id>/canvas/revisions/<number>/": canvas_revision,
    **{f"/api/v1/agents/<agent_id>/draft/{path}": AN_AGENT for path in DRAFT_PATHS},
    "/api/v1/agents/<agent_id>/draft/changes/<change_id>/undo/": draft_change,
    "/api/v1/environments/<pk>/": ids(pk="agents.Environment"),
    "/memory/consolidation/settings/<agent_id>/": AN_AGENT,
    "/memory/consolidation/<consolidation_id>/": A_CONSOLIDATION,
    "/memory/consolidation/<consolidation_id>/<decision>/": lambda workspace: {
        **A_CONSOLIDATION(workspace),
        "decision": "apply",
    },
    "/api/v1/agents/<agent_id>/consolidation/": AN_AGENT,
    "/api/v1/consolidations/<pk>/": ids(pk="memory.Consolidation"),
    "/api/v1/consolidations/<pk>/apply/": ids(pk="memory.Consolidation"),
    "/api/v1/consolidations/<pk>/discard/": ids(pk="memory.Consolidation"),
    "/api/v1/consolidations/<pk>/undo/": ids(pk="memory.Consolidation"),
    "/api/v1/memory/<pk>/": ids(pk="memory.MemoryEntry"),
    "/api/v1/memory/<entry_id>/versions/": A_DOCUMENT,
    "/api/v1/memory/<entry_id>/versions/<number>/": memory_version,
    "/api/v1/memory/<entry_id>/versions/<number>/restore/": memory_version,
    "/api/v1/memory/<entry_id>/restore/": A_DOCUMENT,
    "/api/v1/memory/<entry_id>/redact/": A_DOCUMENT,
    "/api/v1/sessions/<pk>/": ids(pk="sessions_app.Session"),
    "/chat/<session_id>/files/<path>": picture,
    "/api/v1/feedback/<pk>/": ids(pk="sessions_app.Feedback"),
    "/api/v1/sessions/<session_id>/feedback/<seq>/": lambda workspace: {
        **A_SESSION(workspace),
        "seq": "1",
    },
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
    "/api/v1/sessions/<session_id>/files/<path>": file,
    "/workflows/<workflow_id>/": ids(workflow_id="orchestrator.Workflow"),
    "/workflows/<workflow_id>/<act>/": lambda workspace: {
        **ids(workflow_id="orchestrator.Workflow")(workspace),
        "act": "pause",
    },
    "/sessions/views/<view_id>/delete/": shared_view,
    **{f"/sessions/<session_id>/{path}": A_SESSION for path in SESSION_PATHS},
    **{f"/agents/<agent_id>/build/{path}": AN_AGENT for path in BUILD_PATHS},
    "/chat/<session_id>/": A_SESSION,
    "/chat/<session_id>/lines/": A_SESSION,
    "/chat/<session_id>/part/<digest>/": part,
    "/chat/<session_id>/stop/": A_SESSION,
    "/chat/<session_id>/answer/": A_SESSION,
    "/chat/<session_id>/newest/": A_SESSION,
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
