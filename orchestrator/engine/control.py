"""How a workflow's thread is taken off its code. Not exceptions that an author would catch."""

from __future__ import annotations


class Parked(BaseException):
    """The workflow waits, was paused, or somebody else holds it: nothing more to do here."""


class Held(BaseException):
    """This branch waits, at this position; others may go on."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


class Undoing(BaseException):
    """The code has come as far as it did before: what it did is to be undone now."""
