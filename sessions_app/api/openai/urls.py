"""URL patterns of the OpenAI door, below /v1/. OpenAI's paths end without a slash."""

from __future__ import annotations

from django.urls import path

from sessions_app.api.openai import chat, models, responses

urlpatterns = [
    path("models", models.ModelsView.as_view(), name="openai-models"),
    path("models/<path:model>", models.ModelView.as_view(), name="openai-model"),
    path("chat/completions", chat.ChatCompletionsView.as_view(), name="openai-chat"),
    path("responses", responses.ResponsesView.as_view(), name="openai-responses"),
    path("responses/<str:response_id>", responses.ResponseView.as_view(), name="openai-response"),
    path(
        "responses/<str:response_id>/cancel",
        responses.CancelView.as_view(),
        name="openai-response-cancel",
    ),
]
