"""A canvas node that runs a query under the policy of the canvas's agent and returns a table."""

from __future__ import annotations

from pydantic import Field

from core.validation import Input
from orchestrator.canvas.run import NodeRun
from sql_tools.tables import as_markdown


class TableConfig(Input):
    query: str = Field(min_length=1, max_length=10_000)
    most: int = Field(default=20, ge=1, le=1_000)


def table(config: TableConfig, node: NodeRun) -> str:
    return as_markdown(node.use_tool("sql_query", {"query": config.query, "most": config.most}))
