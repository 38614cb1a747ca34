"""The engine's functions as `sql/workflows.sql` has them, for the migrations that replace some."""

import re
from pathlib import Path

ENGINE = (Path(__file__).parent.parent / "sql" / "workflows.sql").read_text()


def replaced(*names: str) -> str:
    """These functions, each in the place of the one before."""
    return "\n".join(map(_one, names))


def _one(name: str) -> str:
    whole = rf"^CREATE FUNCTION {name}\(.*?^(?:END )?\$\$;$"
    (found,) = re.findall(whole, ENGINE, re.DOTALL | re.MULTILINE)
    return str(found).replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)
