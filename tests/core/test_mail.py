"""Tests of mails that are written to files."""

from __future__ import annotations

import stat
from pathlib import Path

from django.core.mail import send_mail


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_servers_user_can_read_mails_in_files(settings, tmp_path):
    folder = tmp_path / "mail"
    folder.mkdir(mode=0o755)
    settings.EMAIL_BACKEND = "core.mail.PrivateFileBackend"
    settings.EMAIL_FILE_PATH = folder

    send_mail("Sign in", "https://yard.example/sign-in/secret/", None, ["ada@example.com"])

    [written] = folder.iterdir()
    assert "sign-in/secret" in written.read_text()
    assert (mode_of(folder), mode_of(written)) == (0o700, 0o600)
