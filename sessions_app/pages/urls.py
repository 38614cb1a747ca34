"""The addresses of the pages of sessions."""

from __future__ import annotations

from django.urls import include, path

from sessions_app.pages import (  # noqa: F401 - at_home adds its parts to Home
    agents,
    answers,
    approvals,
    at_home,
    budgets,
    builder,
    chat,
    context,
    outcome,
    palette,
    saved_views,
    schedules,
    session,
    sessions,
    usage,
)

#: Below `sessions/<id>/`.
of_one_session = [
    path("", session.session_page, name="session_page"),
    path("timeline/", session.session_timeline, name="session_timeline"),
    path("context/", session.session_window, name="session_window"),
    path("tree/", session.session_branches, name="session_branches"),
    path("files/", session.session_folder, name="session_folder"),
    path("outcome/", outcome.session_outcome, name="session_outcome"),
    path("events/", session.session_log, name="session_log"),
    path("replay/", session.session_replay, name="session_replay"),
    path("fork/", session.session_fork, name="session_fork_page"),
    path("preview/", sessions.session_preview, name="session_preview"),
    path("children/", sessions.session_children, name="session_children"),
]

urlpatterns = [
    path("palette/", palette.palette, name="palette"),
    path("approvals/", approvals.approvals, name="approvals"),
    path("approvals/<uuid:approval_id>/answer/", approvals.answer, name="approval_answer"),
    path("chat/", chat.chat, name="chat"),
    path("chat/<uuid:session_id>/", chat.chat_session, name="chat_session"),
    path("chat/<uuid:session_id>/stop/", answers.chat_stop, name="chat_stop"),
    path("chat/<uuid:session_id>/answer/", answers.chat_answer, name="chat_answer"),
    path("chat/<uuid:session_id>/retry/", answers.chat_retry, name="chat_retry"),
    path("chat/<uuid:session_id>/withdraw/", answers.chat_withdraw, name="chat_withdraw"),
    path("chat/<uuid:session_id>/context/", context.chat_context, name="chat_context"),
    path("chat/<uuid:session_id>/compact/", context.chat_compact, name="chat_compact"),
    path("chat/<uuid:session_id>/undo/", context.chat_undo, name="chat_undo"),
    path("agents/", agents.agents, name="agents"),
    path("agents/new/", agents.agent_new, name="agent_new"),
    path("agents/<uuid:agent_id>/build/", builder.agent_build, name="agent_build"),
    path("agents/<uuid:agent_id>/build/side/", builder.agent_build_side, name="agent_build_side"),
    path("agents/<uuid:agent_id>/build/save/", builder.agent_build_save, name="agent_build_save"),
    path("agents/<uuid:agent_id>/build/undo/", builder.agent_build_undo, name="agent_build_undo"),
    path(
        "agents/<uuid:agent_id>/build/publish/",
        builder.agent_build_publish,
        name="agent_build_publish",
    ),
    path(
        "agents/<uuid:agent_id>/build/discard/",
        builder.agent_build_discard,
        name="agent_build_discard",
    ),
    path(
        "agents/<uuid:agent_id>/build/preview/",
        builder.agent_build_preview,
        name="agent_build_preview",
    ),
    path("sessions/", sessions.sessions, name="sessions"),
    path("schedules/", schedules.schedules, name="schedules"),
    path("schedules/new/", schedules.schedule_new, name="schedule_new"),
    path("schedules/preview/", schedules.schedule_preview, name="schedule_preview"),
    path("schedules/<uuid:schedule_id>/", schedules.schedule, name="schedule"),
    path("schedules/<uuid:schedule_id>/pause/", schedules.schedule_pause, name="schedule_pause"),
    path("schedules/<uuid:schedule_id>/resume/", schedules.schedule_resume, name="schedule_resume"),
    path("schedules/<uuid:schedule_id>/run/", schedules.schedule_run, name="schedule_run"),
    path("schedules/<uuid:schedule_id>/delete/", schedules.schedule_delete, name="schedule_delete"),
    path("usage/", usage.usage, name="analytics"),
    path("settings/budgets/", budgets.budgets, name="budgets"),
    path("settings/budgets/ledger/", budgets.ledger, name="ledger"),
    path("settings/budgets/credits/", budgets.credits_add, name="credits_add"),
    path("settings/budgets/set/", budgets.budget_set, name="budget_set"),
    path("settings/budgets/<uuid:budget_id>/", budgets.budget_change, name="budget_change"),
    path("settings/budgets/<uuid:budget_id>/remove/", budgets.budget_remove, name="budget_remove"),
    path("settings/budgets/prices/", budgets.price_set, name="price_set"),
    path(
        "settings/budgets/prices/<uuid:price_id>/remove/", budgets.price_remove, name="price_remove"
    ),
    path("sessions/views/", saved_views.view_save, name="session_view_save"),
    path(
        "sessions/views/<uuid:view_id>/delete/",
        saved_views.view_delete,
        name="session_view_delete",
    ),
    path("sessions/<uuid:session_id>/", include(of_one_session)),
]
