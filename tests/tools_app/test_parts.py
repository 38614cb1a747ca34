"""Tests of parts: recognised by their content, stored once and whole, or refused with a reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from agents.providers.base import Part
from core.exceptions import Invalid
from tests.tools_app.pictures import GIF, JPEG, WAV, WEBP, pdf, png
from tools_app import parts, storage
from tools_app.exceptions import QuotaExceeded
from tools_app.parts import find_part, load_content, parse_parts, path_of, read_part, store_part


@pytest.fixture
def data_dir(settings, tmp_path) -> Path:
    settings.DATA_DIR = str(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (png(30, 20), ("image", "image/png", 30, 20, None)),
        (GIF, ("image", "image/gif", 3, 2, None)),
        (JPEG, ("image", "image/jpeg", 7, 5, None)),
        (WEBP, ("image", "image/webp", 5, 7, None)),
        (pdf(3), ("file", "application/pdf", 0, 0, 3)),
        (pdf(4, packed=True), ("file", "application/pdf", 0, 0, 4)),
        (WAV, ("file", "audio/wav", 0, 0, None)),
    ],
)
def test_the_content_says_what_a_part_is(content: bytes, expected):
    part = read_part(content, "whatever.txt")

    assert (part.type, part.media_type, part.width, part.height, part.pages) == expected
    assert part.tokens > 0 or part.media_type == "audio/wav"
    assert parse_parts([part.as_json()]) == (part,)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"plain text", "not an image, a PDF or a sound file"),
        (png()[:-8], "not a complete PNG image"),
        (JPEG[:-2], "not a complete JPEG image"),
        (GIF[:-1], "not a complete GIF image"),
        (WEBP[:20], "not a complete WEBP image"),
        (b"%PDF-1.7\nhalf", "not a complete PDF file"),
        (png(9_000, 1), "at most 8,000 a side"),
        (pdf(601), "601 pages"),
        (b"", "not an image"),
    ],
)
def test_what_no_model_could_read_is_refused_with_the_reason(content: bytes, reason: str):
    with pytest.raises(Invalid, match=reason):
        read_part(content, "it.bin")


def test_a_part_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(parts, "MAX_IMAGE_BYTES", 50)
    with pytest.raises(Invalid, match="models are shown at most"):
        read_part(png(), "large.png")


def test_equal_content_is_stored_once_per_workspace_and_not_found_from_another(data_dir):
    mine, theirs, content = uuid4(), uuid4(), png()
    first, again = store_part(mine, content, "a.png"), store_part(mine, content, "b.png")
    stored = [one for one in (data_dir / "parts").rglob("*") if one.is_file()]

    assert first.sha256 == again.sha256
    assert [one.name for one in stored] == [first.sha256]
    assert load_content(mine, first.sha256) == content
    assert load_content(theirs, first.sha256) is None
    assert find_part(mine, f"file_{first.sha256}", "c.png")[0].name == "c.png"
    with pytest.raises(Invalid, match="no file"):
        find_part(theirs, f"file_{first.sha256}")
    for wrong in ("", "../../etc/passwd", "file_../x", "f" * 63):
        assert load_content(mine, wrong) is None


def test_parts_count_for_the_workspace(data_dir, settings):
    settings.WORKSPACE_STORAGE_MB, settings.DISK_RESERVE_MB = 1, 0
    workspace = uuid4()
    store_part(workspace, png(), "small.png")
    with pytest.raises(QuotaExceeded, match="this workspace"):
        store_part(workspace, pdf() + b"\0" * 1_100_000 + b"%%EOF", "large.pdf")

    account = storage.account_of(path_of(workspace, "0" * 64))
    assert account
    assert storage.measure(account.folder).files == 2  # The image and its folder.


KILLED = """
import os, sys, uuid
import django
django.setup()
from django.conf import settings
settings.DATA_DIR = sys.argv[1]
from tools_app import parts
os.fsync = lambda fd: os.kill(os.getpid(), 9)
parts.store_part(uuid.UUID(sys.argv[2]), bytes.fromhex(sys.argv[3]), "x.png")
"""


def test_a_process_that_dies_while_it_stores_leaves_no_half_part(data_dir):
    workspace, content = uuid4(), png(40, 40)
    command = [sys.executable, "-c", KILLED, str(data_dir), str(workspace), content.hex()]
    died = subprocess.run(command, check=False, env={**os.environ}, capture_output=True)
    assert died.returncode == -9, died.stderr.decode()

    digest = read_part(content).sha256
    assert load_content(workspace, digest) is None
    assert load_content(workspace, store_part(workspace, content).sha256) == content


def test_only_facts_of_stored_parts_are_taken_from_the_log():
    good = read_part(png(), "a.png").as_json()

    assert parse_parts(None) == parse_parts("x") == parse_parts([1, {}, {"sha256": "x"}]) == ()
    (part,) = parse_parts([{**good, "path": "uploads/a.png", "content": "evil"}])
    assert part == Part(**good)
    assert "not shown to this model" in part.description
