"""Errors that the memory app raises."""

from __future__ import annotations

from core.exceptions import Conflict, Fault, StaleWrite


class MemoryConflict(StaleWrite):
    """Someone else changed this document first. Read the newer version, then write again."""

    code = "memory_conflict"


class MemoryTooLarge(Fault):
    """A memory document can have at most 100,000 bytes. Split it into several."""

    code = "memory_too_large"
    status = 413


class ExportTooLarge(Conflict):
    """This memory is too large for one request. Send a POST to export it with a workflow."""

    code = "export_too_large"


class ConsolidationOver(Conflict):
    """This consolidation was decided already."""

    code = "consolidation_over"


class ModelUnavailable(Fault):
    """The embedded sentence model is not installed. Documents are found by their words."""

    code = "model_unavailable"
    status = 503
