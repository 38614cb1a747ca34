"""The tools that agents read the database with. Its text may be anyone's, so it taints a session."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

from pydantic import Field

from sql_tools import database
from tools_app.registry import Arguments, ToolContext, tool

sql_tool = partial(tool, category="sql", read_only=True, seconds=30)


class NoArguments(Arguments):
    """Listing needs nothing."""


class DescribeTable(Arguments):
    table: str = Field(min_length=1, max_length=128, description="The name of a table or view.")


class Query(Arguments):
    query: str = Field(min_length=1, max_length=10_000, description="One SELECT statement.")
    most: int = Field(default=50, ge=1, le=1_000, description="The most rows to return.")


@sql_tool(title="List tables")
def sql_tables(arguments: NoArguments, context: ToolContext) -> list[str]:
    """List the tables and views of the database."""
    database.check_may_read(context.workspace_id)
    return database.list_tables()


@sql_tool(title="Describe a table")
def sql_describe(arguments: DescribeTable, context: ToolContext) -> list[dict[str, Any]]:
    """List the columns of a table with their types."""
    database.check_may_read(context.workspace_id)
    return [asdict(column) for column in database.describe_table(arguments.table)]


@sql_tool(title="Query the database")
def sql_query(arguments: Query, context: ToolContext) -> dict[str, Any]:
    """Run one SELECT and return its first rows. `more` says whether there are others."""
    database.check_may_read(context.workspace_id)
    return database.run_query(arguments.query, most=arguments.most).as_json()
