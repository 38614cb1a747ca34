"""The addresses of the pages of sessions."""

from __future__ import annotations

from django.urls import path

from sessions_app.pages import answers, chat, sessions

urlpatterns = [
    path("chat/", chat.chat, name="chat"),
    path("chat/<uuid:session_id>/", chat.chat_session, name="chat_session"),
    path("chat/<uuid:session_id>/stop/", answers.chat_stop, name="chat_stop"),
    path("chat/<uuid:session_id>/answer/", answers.chat_answer, name="chat_answer"),
    path("chat/<uuid:session_id>/retry/", answers.chat_retry, name="chat_retry"),
    path("chat/<uuid:session_id>/withdraw/", answers.chat_withdraw, name="chat_withdraw"),
    path("sessions/", sessions.sessions, name="sessions"),
]
