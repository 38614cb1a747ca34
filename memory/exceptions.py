"""Errors that the memory app raises."""

from __future__ import annotations

from core.exceptions import Fault, StaleWrite


class MemoryConflict(StaleWrite):
    """Someone else changed this document first. Read the newer version, then write again."""

    code = "memory_conflict"


class MemoryTooLarge(Fault):
    """A memory document can have at most 100,000 bytes. Split it into several."""

    code = "memory_too_large"
    status = 413


class ModelUnavailable(Fault):
    """The embedded sentence model is not installed. Documents are found by their words."""

    code = "model_unavailable"
    status = 503
