"""Tests of uploading, downloading and deleting files of a session over REST."""

from __future__ import annotations

import os

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from sessions_app.resources import files
from sessions_app.resources.files import session_folder
from tests.conftest import key_client
from tests.sessions_app.api.test_events import assert_problem
from tests.sessions_app.api.test_sessions import at
from tests.tools_app.conftest import data_dir

__all__ = ["data_dir"]
pytestmark = pytest.mark.usefixtures("data_dir")


def upload(api, session, name="notes.md", content=b"hello", **fields):
    body = {"file": SimpleUploadedFile(name, content), **fields}
    return api.post(at(session, "files/"), body, format="multipart")


def test_a_file_is_uploaded_listed_downloaded_and_deleted(api, session):
    answer = upload(api, session, path="docs/notes.md")
    assert (answer.status_code, answer.json()) == (
        201,
        {"path": "docs/notes.md", "size": 5, "created": True, "file_id": None},
    )
    assert upload(api, session, content=b"again", path="docs/notes.md").json()["created"] is False
    assert api.get(at(session, "files/")).json()["results"] == [
        {"name": "docs", "kind": "folder", "size": 0, "target": ""}
    ]
    listed = api.get(at(session, "files/"), {"path": "docs"}).json()["results"]
    assert [(one["name"], one["size"]) for one in listed] == [("notes.md", 5)]
    got = api.get(at(session, "files/docs/notes.md"))
    assert b"".join(got.streaming_content) == b"again"
    assert got["Content-Disposition"] == 'attachment; filename="notes.md"'
    assert got["Content-Type"] == "application/octet-stream"
    assert api.delete(at(session, "files/docs/notes.md")).status_code == 204
    assert_problem(api.get(at(session, "files/docs/notes.md")), 404, "not_found")
    assert api.delete(at(session, "files/docs")).status_code == 204
    assert api.get(at(session, "files/")).json()["results"] == []


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "~/x", "a\0b", "x" * 300])
def test_a_path_outside_the_session_folder_is_refused(api, session, path):
    assert_problem(upload(api, session, path=path), 400, "invalid")


def test_symbolic_links_are_not_followed(api, session, data_dir):
    files = session_folder(session).make()
    (data_dir / "secret").write_text("host")
    os.symlink(data_dir, files / "way")
    os.symlink(data_dir / "secret", files / "link")

    assert_problem(api.get(at(session, "files/link")), 404, "not_found")
    assert_problem(api.get(at(session, "files/way/secret")), 404, "not_found")
    assert_problem(upload(api, session, path="way/new"), 400, "invalid")
    assert_problem(upload(api, session, path="link"), 400, "invalid")
    assert api.delete(at(session, "files/link")).status_code == 204
    assert (data_dir / "secret").read_text() == "host"


def test_a_file_that_is_too_large_is_refused_and_not_stored(api, session, monkeypatch):
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 10)
    assert_problem(upload(api, session, content=b"x" * 11), 413, "file_too_large")
    assert list(session_folder(session).make().iterdir()) == []


def test_an_upload_is_refused_when_the_disk_is_nearly_full(api, session, settings):
    settings.DISK_RESERVE_MB = 10**12

    assert_problem(upload(api, session), 507, "disk_full")
    assert api.get(at(session, "files/")).json()["results"] == []


def test_an_upload_beyond_the_quota_is_refused_and_not_stored(api, session, settings):
    settings.SESSION_STORAGE_MB = 1

    assert_problem(upload(api, session, content=b"x" * 2_000_000), 507, "storage_quota")
    assert api.get(at(session, "files/")).json()["results"] == []
    assert upload(api, session).status_code == 201


def test_a_message_is_refused_when_the_disk_is_nearly_full_and_accepted_when_it_is_not(
    api, session, settings
):
    reserve, settings.DISK_RESERVE_MB = settings.DISK_RESERVE_MB, 10**12
    message = {"type": "user.message", "payload": {"text": "Hi"}}
    assert_problem(api.post(at(session, "events/"), message, format="json"), 507, "disk_full")
    assert session.events.count() == 0

    settings.DISK_RESERVE_MB = reserve
    assert api.post(at(session, "events/"), message, format="json").status_code == 202


def test_a_read_only_key_can_download_but_not_upload_or_delete(api, session, workspace):
    upload(api, session)
    reader = key_client(workspace, "read")
    got = reader.get(at(session, "files/notes.md"))
    assert (got.status_code, got.getvalue()) == (200, b"hello")
    assert_problem(upload(reader, session), 403, "forbidden")
    assert_problem(reader.delete(at(session, "files/notes.md")), 403, "forbidden")


def test_an_upload_without_a_file_is_refused(api, session):
    assert_problem(
        api.post(at(session, "files/"), {"path": "x"}, format="multipart"), 400, "invalid"
    )
