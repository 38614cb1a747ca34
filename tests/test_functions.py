"""The functions that the database runs are those that the files of SQL show."""

from __future__ import annotations

import re

import pytest
from django.db import connection

from config.env import ROOT
from config.sockets import APPS

FUNCTION = re.compile(r"CREATE FUNCTION (\w+)\(.*?AS \$\$(.*?)\$\$", re.DOTALL)
FILES = sorted(path for app in APPS for path in (ROOT / app / "sql").glob("*.sql"))


@pytest.mark.django_db
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_newest_migration_and_the_file_say_the_same(path):
    written = dict(FUNCTION.findall(path.read_text()))
    assert written

    with connection.cursor() as cursor:
        cursor.execute("SELECT proname, prosrc FROM pg_proc WHERE proname = ANY(%s)", [[*written]])
        known = dict(cursor.fetchall())

    assert known == written
