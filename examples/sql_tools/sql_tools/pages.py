"""The page on which builders look at the tables and try a query."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from sql_tools import database
from tenants.authentication import authorised
from tools_app.exceptions import ToolFailed

LONGEST_QUERY = 10_000


@require_safe
def tables(request: HttpRequest) -> HttpResponse:
    _, workspace_id = authorised(request, "build")
    query = request.GET.get("query", "").replace("\0", "")[:LONGEST_QUERY]
    shown: dict[str, object] = {"query": query, "tables": [], "error": ""}
    try:
        database.check_may_read(workspace_id)
        shown["tables"] = [(name, database.describe_table(name)) for name in database.list_tables()]
        shown["result"] = database.run_query(query) if query.strip() else None
    except ToolFailed as fault:
        shown["error"] = fault.detail
    return render(request, "sql_tools/tables.html", shown)
