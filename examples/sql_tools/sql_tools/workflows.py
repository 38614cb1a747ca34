"""A workflow that writes the result of a query to the memory of the workspace, as a report."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from core.validation import Input
from memory.documents import Marks, write_entry
from memory.models import MemoryEntry
from memory.ownership import Owner, person
from orchestrator.engine.definition import Event, Workflow, workflow
from orchestrator.engine.steps import Steps
from sql_tools import database
from sql_tools.tables import as_markdown


class ReportParams(Input):
    title: str = Field(default="Report", min_length=1, max_length=120, title="Title")
    query: str = Field(default="SELECT 1 AS one", min_length=1, max_length=10_000, title="Query")


@workflow(name="sql-report")
class SqlReport(Workflow):
    """Run a query and save its rows to memory as a table."""

    params = ReportParams
    about = ("title",)

    def run(self, event: Event, step: Steps) -> Any:
        params = ReportParams.model_validate(event.payload)
        self.report_progress("Reading the database", percent=10, step="query")
        result = step.do("query", lambda: read(event, params.query))
        path = step.do("save", lambda: save(event, params.title, as_markdown(result)))
        self.report_progress("Saved", percent=100, step="save", status="complete")
        return {"path": path, "rows": len(result["rows"]), "more": result["more"]}


def read(event: Event, query: str) -> dict[str, Any]:
    database.check_may_read(event.workspace_id)
    return database.run_query(query).as_json()


def save(event: Event, title: str, table: str) -> str:
    """Write the report. Every attempt of the workflow writes the same document."""
    scope, workspace_id = MemoryEntry.Scope.WORKSPACE, event.workspace_id
    path = f"reports/{event.created_at:%Y-%m-%d}-{str(event.id)[-6:]}.md"
    entry = write_entry(
        owner=Owner(workspace_id=workspace_id, scope=scope, owner_id=workspace_id),
        path=path,
        content=f"# {title}\n\n{table}\n",
        author=person(event.created_by_id),
        # Anyone may have written the rows, so agents that recall the report are told so.
        marks=Marks(trust=MemoryEntry.Trust.UNTRUSTED),
    )
    return entry.path
