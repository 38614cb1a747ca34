"""How much one run of an agent may use, and how much what it starts in a sandbox may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field

from agents.inputs import Input, read_input

if TYPE_CHECKING:
    from agents.models import AgentVersion


class Limits(Input):
    """The bounds of one run. Reaching one ends the run and says which it was."""

    model_config = ConfigDict(strict=True)

    max_model_calls: int = Field(
        default=30, ge=1, le=1_000, description="Calls of the model in one run."
    )
    max_tool_calls: int = Field(
        default=100, ge=0, le=10_000, description="Calls of tools in one turn."
    )
    max_seconds: int = Field(
        default=1_800, ge=1, le=86_400, description="Seconds that one run may take."
    )
    max_tokens_total: int = Field(
        default=1_000_000,
        ge=1_000,
        le=1_000_000_000,
        description="Tokens in and out, over all calls of the model in one run.",
    )
    max_depth: int = Field(
        default=3, ge=0, le=10, description="Sub-agents of sub-agents, this far down."
    )
    max_children: int = Field(
        default=10, ge=0, le=1_000, description="Sub-agents of one session at once."
    )
    max_children_total: int = Field(
        default=100,
        ge=0,
        le=10_000,
        description="Sub-agents of one session, ever; of the one at the top, with all below them.",
    )
    compact_at_percent: int = Field(
        default=75,
        ge=20,
        le=95,
        description="The share of the model's window from which on the context is compacted.",
    )
    recall_memory: bool = Field(
        default=True, description="Look into memory for what bears on each message."
    )
    save_before_compacting: bool = Field(
        default=True, description="Save what matters to memory before a compaction."
    )


class SandboxLimits(Input):
    """The bounds of one command in a sandbox, enforced by the kernel."""

    model_config = ConfigDict(strict=True)

    cpu_seconds: int = Field(default=300, ge=1, le=86_400, description="Processor time.")
    memory_mb: int = Field(default=1_024, ge=64, le=1_048_576, description="Memory in MiB.")
    pids: int = Field(default=128, ge=4, le=32_768, description="Processes and threads at once.")
    wall_seconds: int = Field(default=600, ge=1, le=86_400, description="Time by the clock.")


def read_limits(fields: object) -> Limits:
    return read_input(Limits, fields)


def limits_of(version: AgentVersion) -> Limits:
    """The bounds of this version; what it does not say has the default."""
    return read_limits(_known(Limits, version.limits))


def _known(model: type[Input], stored: dict[str, Any]) -> dict[str, Any]:
    """A limit that a later release dropped must not stop the agents that still name it."""
    return {name: value for name, value in stored.items() if name in model.model_fields}
