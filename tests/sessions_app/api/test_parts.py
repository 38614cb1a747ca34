"""Tests of images and files in messages over REST and in the chat."""

from __future__ import annotations

from base64 import b64encode

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from sessions_app.models import SessionEvent
from sessions_app.resources import parts
from tests.tools_app.pictures import pdf, png


def url(session, path: str = "messages/") -> str:
    return f"/api/v1/sessions/{session.pk}/{path}"


def sent(session) -> list[dict]:
    event = session.events.filter(type=SessionEvent.Type.USER_MESSAGE).latest("seq")
    return event.payload["attachments"]


def test_an_upload_is_attached_by_its_id_and_kept_as_a_file(api, session):
    form = {"file": SimpleUploadedFile("report.pdf", pdf(3))}
    file_id = api.post(url(session, "files/"), form, format="multipart").json()["file_id"]
    body = {
        "text": "Sum up",
        "attachments": [{"type": "file", "file_id": file_id, "name": "r.pdf"}],
    }

    assert api.post(url(session), body, format="json").status_code == 202
    (attached,) = sent(session)
    assert (attached["media_type"], attached["pages"]) == ("application/pdf", 3)
    assert attached["path"].startswith("uploads/")
    assert b"".join(api.get(url(session, f"files/{attached['path']}")).streaming_content) == pdf(3)


def test_a_file_that_no_model_could_be_shown_has_no_id(api, session):
    form = {"file": SimpleUploadedFile("notes.txt", b"hello")}

    assert api.post(url(session, "files/"), form, format="multipart").json()["file_id"] is None


def test_a_picture_comes_as_a_data_url_and_the_log_holds_its_hash_only(api, session):
    data = f"data:image/png;base64,{b64encode(png(30, 20)).decode()}"
    body = {"text": "What is this?", "attachments": [{"type": "image", "url": data}]}

    assert api.post(url(session), body, format="json").status_code == 202
    (attached,) = sent(session)
    assert (attached["type"], attached["width"], attached["height"]) == ("image", 30, 20)
    assert "base64" not in str(attached)
    listed = api.get(url(session)).json()["results"][0]["attachments"]
    assert listed == [attached]
    shown = [
        p for p in api.get(url(session, "context/")).json()["parts"] if p["name"] == "messages"
    ]
    assert shown


def test_a_broken_picture_is_refused_with_its_reason(api, session):
    body = {
        "text": "Hi",
        "attachments": [{"name": "a.png", "data": b64encode(png()[:-8]).decode()}],
    }
    refused = api.post(url(session), body, format="json")

    assert refused.status_code == 400
    assert "a.png is broken: it is not a complete PNG image." in refused.json()["detail"]
    assert not session.events.exists()


def test_a_file_that_is_too_large_is_refused_with_its_reason(api, session, monkeypatch):
    monkeypatch.setattr("tools_app.parts.MAX_IMAGE_BYTES", 50)
    body = {"text": "Hi", "attachments": [{"name": "a.png", "data": b64encode(png()).decode()}]}
    refused = api.post(url(session), body, format="json")

    assert refused.status_code == 400
    assert "models are shown at most" in refused.json()["detail"]


def test_a_large_pdf_of_the_session_stays_a_file_for_tools(api, session, monkeypatch):
    monkeypatch.setattr("tools_app.parts.MAX_FILE_BYTES", 60)
    form = {"file": SimpleUploadedFile("big.pdf", pdf(9))}
    stored = api.post(url(session, "files/"), form, format="multipart").json()
    body = {"text": "Hi", "attachments": [{"name": "big.pdf", "path": "big.pdf"}]}

    assert stored["file_id"] is None
    assert api.post(url(session), body, format="json").status_code == 202
    assert sent(session) == [{"name": "big.pdf", "path": "big.pdf", "media_type": "", "size": 0}]


def test_the_chat_shows_a_picture_and_the_pages_of_a_pdf(browser_client, session, api):
    images = [{"type": "image", "data": b64encode(png(30, 20)).decode(), "name": "cat.png"}]
    files = [{"type": "file", "data": b64encode(pdf(3)).decode(), "name": "report.pdf"}]
    body = {"text": "What is this?", "attachments": [*images, *files]}
    api.post(url(session), body, format="json")
    picture = sent(session)[0]["sha256"]
    page = browser_client.get(f"/chat/{session.pk}/").text

    assert f'<img class="file-picture" src="/chat/{session.pk}/part/{picture}/"' in page
    assert "3 pages" in page
    shown = browser_client.get(f"/chat/{session.pk}/part/{picture}/")
    assert (shown.content, shown["Content-Type"]) == (png(30, 20), "image/png")
    assert shown["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert browser_client.get(f"/chat/{session.pk}/part/{'0' * 64}/").status_code == 404


def test_what_a_clients_tool_returns_is_stored_by_hash(session):
    output = {"text": "A chart", "parts": [{"type": "image", "data": b64encode(png()).decode()}]}
    taken = parts.take_output(session, output)

    assert taken["text"] == "A chart"
    assert "data" not in taken["parts"][0]
    assert len(taken["parts"][0]["sha256"]) == 64
    assert parts.take_output(session, "plain") == "plain"


@pytest.mark.parametrize("count", [1, 30])
def test_a_request_holds_the_newest_parts_up_to_its_bound(session, monkeypatch, count: int):
    from agents.model_catalog import find_model
    from agents.providers.base import Message
    from tools_app.parts import store_part

    monkeypatch.setattr(parts, "MAX_REQUEST_BYTES", 10 * len(png(9, 9)))
    stored = [store_part(session.workspace_id, png(9, 9, seed=nth)) for nth in range(count)]
    messages = [Message(role="user", text=str(n), parts=(p,)) for n, p in enumerate(stored)]
    model = find_model("gemini", "gemini-3.8-flash")
    filled = parts.with_contents(messages, session.workspace_id, model)

    assert [m.text.split("\n")[0] for m in filled] == [str(n) for n in range(count)]
    kept = [bool(message.parts) for message in filled]
    assert kept == [n >= count - 10 for n in range(count)] or sum(kept) >= 9
    assert kept[-1]
