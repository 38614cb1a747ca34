"""Writes mails to files that only this server's user can read, if there is no mail server."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from django.core.mail.backends.filebased import EmailBackend


class PrivateFileBackend(EmailBackend):
    """Django's backend with private files: the mails hold links that sign people in."""

    stream: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        Path(self.file_path).chmod(0o700)

    def open(self) -> bool:
        if self.stream is not None:
            return False
        private = partial(os.open, mode=0o600)
        path = self._get_filename()  # type: ignore[attr-defined]
        self.stream = open(path, "ab", opener=private)  # noqa: SIM115
        return True
