"""URL patterns of the sessions pages."""

from __future__ import annotations

from django.urls import include, path

from sessions_app.pages import (
    approvals,
    artifacts,
    chat,
    chats,
    context,
    feedback,
    models,
    outcome,
    schedules,
    session,
    sessions,
)

#: Below `sessions/<id>/`.
session_urlpatterns = [
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
    path("approvals/", approvals.approvals, name="approvals"),
    path("approvals/<uuid:approval_id>/answer/", approvals.answer, name="approval_answer"),
    path("chat/", chat.chat, name="chat"),
    path("chat/list/", chats.chat_list, name="chat_list"),
    path("chat/bulk/", chats.chat_bulk, name="chat_bulk"),
    path("chat/frame/", artifacts.content_frame, name="content_frame"),
    path("chat/<uuid:session_id>/files/<path:path>", artifacts.chat_file, name="chat_file"),
    path("chat/models/", models.chat_models, name="chat_models"),
    path("chat/<uuid:session_id>/model/", models.chat_model, name="chat_model"),
    path("chat/<uuid:session_id>/options/", chats.chat_options, name="chat_options"),
    path("chat/<uuid:session_id>/part/<slug:digest>/", chats.chat_part, name="chat_part"),
    path("chat/<uuid:session_id>/export/", chats.chat_export, name="chat_export"),
    path("settings/feedback/", feedback.feedback, name="feedback"),
    path("shared/<str:token>/", chats.chat_shared, name="chat_shared"),
    path("chat/<uuid:session_id>/", chat.chat_session, name="chat_session"),
    path("chat/<uuid:session_id>/lines/", chat.chat_lines, name="chat_lines"),
    path("chat/<uuid:session_id>/stop/", chat.chat_stop, name="chat_stop"),
    path("chat/<uuid:session_id>/answer/", chat.chat_answer, name="chat_answer"),
    path("chat/<uuid:session_id>/newest/", chat.chat_newest, name="chat_newest"),
    path("chat/<uuid:session_id>/show/", chat.chat_show, name="chat_show"),
    path("chat/<uuid:session_id>/retry/", chat.chat_retry, name="chat_retry"),
    path("chat/<uuid:session_id>/withdraw/", chat.chat_withdraw, name="chat_withdraw"),
    path("chat/<uuid:session_id>/context/", context.chat_context, name="chat_context"),
    path("chat/<uuid:session_id>/compact/", context.chat_compact, name="chat_compact"),
    path("chat/<uuid:session_id>/undo/", context.chat_undo, name="chat_undo"),
    path("sessions/", sessions.sessions, name="sessions"),
    path("schedules/", schedules.schedules, name="schedules"),
    path("schedules/new/", schedules.schedule_new, name="schedule_new"),
    path("schedules/preview/", schedules.schedule_preview, name="schedule_preview"),
    path("schedules/<uuid:schedule_id>/", schedules.schedule, name="schedule"),
    path("schedules/<uuid:schedule_id>/pause/", schedules.schedule_pause, name="schedule_pause"),
    path("schedules/<uuid:schedule_id>/resume/", schedules.schedule_resume, name="schedule_resume"),
    path("schedules/<uuid:schedule_id>/run/", schedules.schedule_run, name="schedule_run"),
    path("schedules/<uuid:schedule_id>/delete/", schedules.schedule_delete, name="schedule_delete"),
    path("sessions/views/", sessions.view_save, name="session_view_save"),
    path("sessions/views/<uuid:view_id>/delete/", sessions.view_delete, name="session_view_delete"),
    path("sessions/<uuid:session_id>/", include(session_urlpatterns)),
]
