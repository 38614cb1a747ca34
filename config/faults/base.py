"""What every error raised on purpose has."""

from __future__ import annotations

from typing import ClassVar


class Fault(Exception):
    """Something went wrong inside Switchyard."""

    code: ClassVar[str] = "fault"
    status: ClassVar[int] = 500

    def __init__(self, detail: str = "") -> None:
        self.detail = detail or (self.__doc__ or "").strip()
        super().__init__(self.detail)


class CannotStart(Fault):
    """Switchyard cannot start."""

    code = "cannot_start"
