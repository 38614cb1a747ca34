"""Registers what Switchyard does not find by itself. Tools and workflows need no line here."""

from __future__ import annotations

from agents.canvas.graph import register_node
from sql_tools import nodes, pages
from sql_tools.api import TablesView
from tenants.plugin_routes import register_page, register_route

register_page(pages.tables, title="Database", icon="table-properties", needs="build")
register_route(TablesView, path="tables/", needs="build")
register_node("sql_table", nodes.table, config=nodes.TableConfig, about="The rows of a query.")
