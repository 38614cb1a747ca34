"""Describes a database's schema as text, so that two databases can be compared."""

from __future__ import annotations

from typing import Any

#: One query per kind of object; each yields (name, definition).
QUERIES = {
    "tables": """
        SELECT c.relname, concat_ws(' ', c.relpersistence, array_to_string(c.reloptions, ','))
        FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
    """,
    "columns": """
        SELECT c.relname || '.' || a.attname,
               concat_ws(' ', format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
                         pg_get_expr(d.adbin, d.adrelid), a.attstorage)
        FROM pg_attribute a
        JOIN pg_class c ON c.oid = a.attrelid
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
          AND a.attnum > 0 AND NOT a.attisdropped
    """,
    "constraints": """
        SELECT conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 't'
    """,
    "indexes": """
        SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid)
        FROM pg_index JOIN pg_class c ON c.oid = indexrelid
        WHERE c.relnamespace = 'public'::regnamespace
    """,
    "functions": """
        SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid)
        FROM pg_proc p LEFT JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e'
        WHERE p.pronamespace = 'public'::regnamespace AND d.objid IS NULL AND p.prokind = 'f'
    """,
    "triggers": """
        SELECT tgrelid::regclass || '.' || tgname, pg_get_triggerdef(oid)
        FROM pg_trigger WHERE NOT tgisinternal
    """,
    "sequences": """
        SELECT sequencename::text, concat_ws(' ', data_type, increment_by)
        FROM pg_sequences WHERE schemaname = 'public'
    """,
}


def schema_of(cursor: Any) -> dict[str, dict[str, str]]:
    """Return every table, column, constraint, index, function and trigger by kind and name."""
    schema = {}
    for kind, query in QUERIES.items():
        cursor.execute(query)
        schema[kind] = dict(cursor.fetchall())
    return schema


def differences(one: dict[str, dict[str, str]], other: dict[str, dict[str, str]]) -> list[str]:
    """Return a line for everything that only one of two schemas has, or that differs."""
    return [
        f"{kind} {name}: {one[kind].get(name)!r} != {other[kind].get(name)!r}"
        for kind in one
        for name in sorted(one[kind].keys() | other[kind].keys())
        if one[kind].get(name) != other[kind].get(name)
    ]
