"""Tests of everything that this plugin adds, on SQLite and on PostgreSQL."""

from __future__ import annotations

import sqlite3
from types import SimpleNamespace

import psycopg
import pytest
from django.db import connection

from agents.canvas.revisions import Author, publish, save
from agents.definitions import create_agent
from core.plugins import plugins
from memory.documents import content_of
from memory.models import MemoryEntry
from orchestrator.engine.lifecycle import start_workflow
from sql_tools import database
from tests.orchestrator.conftest import now, serve
from tools_app.exceptions import ToolFailed
from tools_app.registry import registry
from tools_app.workspace_tools import tools_of_workspace

pytestmark = pytest.mark.django_db
ROWS = [(1, "Ada", "tea"), (2, "Bob | co", None), (3, "Eve", "x" * 1_000)]


@pytest.fixture
def shop(tmp_path, settings):
    """Open a small SQLite database to every workspace."""
    path = tmp_path / "shop.db"
    made = sqlite3.connect(path)
    made.execute("CREATE TABLE orders (id INTEGER NOT NULL, customer TEXT, item TEXT)")
    made.executemany("INSERT INTO orders VALUES (?, ?, ?)", ROWS)
    made.commit()
    made.close()
    settings.SQL_TOOLS_URL, settings.SQL_TOOLS_WORKSPACES = f"sqlite://{path}", ["*"]
    return path


@pytest.fixture
def postgres(transactional_db, settings):
    """Open the test database itself, with a table of its own."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE shop_orders (id int NOT NULL, customer text)")
        cursor.execute("INSERT INTO shop_orders VALUES (1, 'Ada')")
    facts = connection.get_connection_params()
    names = {"dbname", "user", "password", "host", "port"}
    settings.SQL_TOOLS_URL = psycopg.conninfo.make_conninfo(
        **{name: value for name, value in facts.items() if name in names and value}
    )
    settings.SQL_TOOLS_WORKSPACES = ["*"]
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE shop_orders")


@pytest.fixture
def use(workspace):
    """Call a tool of this plugin."""
    context = SimpleNamespace(check_stopped=lambda: None, workspace_id=workspace.pk)
    return lambda name, **given: registry[name].call(given, context)


def test_the_plugin_is_loaded():
    assert plugins["sql_tools"].error == ""


def test_the_tools_list_describe_and_query(shop, use):
    assert use("sql_tables") == ["orders"]
    assert use("sql_describe", table="orders")[0] == {
        "name": "id",
        "type": "INTEGER",
        "may_be_null": False,
    }
    result = use("sql_query", query="SELECT * FROM orders ORDER BY id")
    assert result["columns"] == ["id", "customer", "item"]
    assert result["rows"][0] == [1, "Ada", "tea"]
    assert len(result["rows"][2][2]) == database.LONGEST_CELL + 1
    assert not result["more"]


def test_a_query_returns_no_more_rows_than_its_bounds_allow(shop, use, settings):
    asked = use("sql_query", query="SELECT * FROM orders", most=2)
    settings.SQL_TOOLS_ROWS = 1
    bound = use("sql_query", query="SELECT * FROM orders", most=2)

    assert (len(asked["rows"]), asked["more"]) == (2, True)
    assert (len(bound["rows"]), bound["more"]) == (1, True)


def test_a_query_that_takes_too_long_is_ended(shop, use, settings):
    settings.SQL_TOOLS_SECONDS = 0.2
    endless = (
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n"
    )

    with pytest.raises(ToolFailed, match="interrupted"):
        use("sql_query", query=endless)


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM orders",
        "SELECT 1; DELETE FROM orders",
        "WITH gone AS (SELECT 1) DELETE FROM orders",
        "PRAGMA writable_schema = 1",
        "ATTACH DATABASE '/tmp/other.db' AS other",
    ],
)
def test_sqlite_cannot_be_changed(shop, use, query):
    with pytest.raises(ToolFailed):
        use("sql_query", query=query)

    assert use("sql_query", query="SELECT count(*) FROM orders")["rows"] == [[3]]


@pytest.mark.django_db(transaction=True)
def test_postgres_is_read(postgres, use):
    assert "shop_orders" in use("sql_tables")
    assert use("sql_describe", table="shop_orders")[1]["type"] == "text"
    assert use("sql_query", query="SELECT customer FROM shop_orders")["rows"] == [["Ada"]]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM shop_orders",
        "WITH gone AS (DELETE FROM shop_orders RETURNING id) SELECT * FROM gone",
        "SELECT 1; SET TRANSACTION READ WRITE; DELETE FROM shop_orders",
        "SELECT 1; COMMIT; DELETE FROM shop_orders",
        "EXPLAIN ANALYZE DELETE FROM shop_orders",
    ],
)
def test_postgres_cannot_be_changed(postgres, use, query):
    with pytest.raises(ToolFailed):
        use("sql_query", query=query)

    assert use("sql_query", query="SELECT count(*) FROM shop_orders")["rows"] == [[1]]


def test_a_workspace_that_the_operator_did_not_name_reads_nothing(shop, use, settings, workspace):
    settings.SQL_TOOLS_WORKSPACES = ["another"]
    with pytest.raises(ToolFailed, match="No database is open"):
        use("sql_query", query="SELECT 1")

    settings.SQL_TOOLS_WORKSPACES = [workspace.slug]
    assert use("sql_query", query="SELECT 1")["rows"] == [[1]]


def test_an_unreachable_database_tells_nothing_about_the_operators_machine(shop, use):
    shop.unlink()

    with pytest.raises(ToolFailed, match=r"^The database cannot be reached\.$"):
        use("sql_tables")


def test_the_workflow_saves_a_report(shop, workspace, owner):
    params = {"title": "Orders", "query": "SELECT id, customer FROM orders ORDER BY id"}
    made, _ = start_workflow(workspace.pk, "sql-report", params, created_by_id=owner.pk)
    serve()

    output = now(made).output
    entry = MemoryEntry.objects.for_workspace(workspace.pk).get(path=output["path"])
    assert output["rows"] == 3
    assert entry.trust == MemoryEntry.Trust.UNTRUSTED, "anyone may have written the rows"
    assert "| 2 | Bob \\| co |" in content_of(entry)


def test_the_node_returns_a_table(shop, workspace, owner):
    fields = {"name": "Walker", "provider": "demo", "model": "demo"}
    agent = create_agent(workspace_id=workspace.pk, fields=fields, created_by=owner)
    config = {"query": "SELECT customer FROM orders WHERE id = {{input.id}}"}
    nodes = [
        {"id": "start", "type": "trigger"},
        {"id": "orders", "type": "sql_table", "config": config},
        {"id": "end", "type": "output"},
    ]
    edges = [{"source": "start", "target": "orders"}, {"source": "orders", "target": "end"}]
    save(agent, nodes=nodes, edges=edges, revision=0, author=Author())
    publish(agent, tools=tools_of_workspace(workspace.pk))

    params = {"agent": str(agent.pk), "input": {"id": 1}}
    made, _ = start_workflow(workspace.pk, "canvas", params, created_by_id=owner.pk)
    serve()

    assert now(made).output["output"] == "| customer |\n| --- |\n| Ada |"


def test_the_page_shows_tables_and_runs_a_query(shop, browser_client):
    page = browser_client.get("/plugins/sql_tools/", {"query": "SELECT customer FROM orders"})

    text = page.content.decode()
    assert "customer (TEXT)" in text
    assert "<td>Bob | co</td>" in text
    assert 'href="/plugins/sql_tools/"' in browser_client.get("/").content.decode()
    refused = browser_client.get("/plugins/sql_tools/", {"query": "DROP TABLE orders"})
    assert "Only a SELECT is possible" in refused.content.decode()


def test_the_route_lists_the_tables(shop, api, client):
    listed = api.get("/plugins/sql_tools/tables/").json()

    assert [table["name"] for table in listed] == ["orders"]
    assert client.get("/plugins/sql_tools/tables/").status_code == 401
