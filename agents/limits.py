"""The limits of one run of an agent, and of one command in a sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ConfigDict, Field

from core.validation import Input, read_input

if TYPE_CHECKING:
    from agents.models import AgentVersion


class Limits(Input):
    """The limits of one run. A run that reaches one ends and names it."""

    model_config = ConfigDict(strict=True)

    max_model_calls: int = Field(default=30, ge=1, le=1_000, description="Model calls in one run.")
    max_tool_calls: int = Field(default=100, ge=0, le=10_000, description="Tool calls in one turn.")
    max_parallel_calls: int = Field(
        default=8, ge=1, le=32, description="Tool calls of one step that run at the same time."
    )
    max_seconds: int = Field(
        default=1_800, ge=1, le=86_400, description="Duration of one run, in seconds."
    )
    max_tokens_total: int = Field(
        default=1_000_000,
        ge=1_000,
        le=1_000_000_000,
        description="Input and output tokens over all model calls of one run.",
    )
    max_depth: int = Field(
        default=3, ge=0, le=10, description="How deep sub-agents may start sub-agents."
    )
    max_children: int = Field(
        default=10, ge=0, le=1_000, description="Sub-agents of one session at the same time."
    )
    max_children_total: int = Field(
        default=100,
        ge=0,
        le=10_000,
        description="Sub-agents of one session in total; a root session counts those below it too.",
    )
    compact_at_percent: int = Field(
        default=75,
        ge=20,
        le=95,
        description="The percentage of the model's window at which the context is compacted.",
    )
    recall_memory: bool = Field(
        default=True, description="Search memory for content relevant to each message."
    )
    save_before_compacting: bool = Field(
        default=True, description="Save important facts to memory before a compaction."
    )


class SandboxLimits(Input):
    """The limits of one command in a sandbox, enforced by the kernel."""

    model_config = ConfigDict(strict=True)

    cpu_seconds: int = Field(default=300, ge=1, le=86_400, description="CPU time in seconds.")
    memory_mb: int = Field(default=1_024, ge=64, le=1_048_576, description="Memory in MiB.")
    pids: int = Field(
        default=128, ge=4, le=32_768, description="Processes and threads at the same time."
    )
    wall_seconds: int = Field(default=600, ge=1, le=86_400, description="Elapsed time in seconds.")


def limits_of(version: AgentVersion) -> Limits:
    """Return the limits of a version, with defaults for those it does not set.

    Limits that this release does not know are dropped, so that older agents keep working.
    """
    stored = version.limits.items()
    return read_input(
        Limits, {name: value for name, value in stored if name in Limits.model_fields}
    )
