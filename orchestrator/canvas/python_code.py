"""Python that a canvas runs in the sandbox: the command that runs it, and the result in its output.

The command is readable, because a person may be asked to approve it.
"""

from __future__ import annotations

import json
from typing import Any

from core.exceptions import Invalid
from orchestrator.exceptions import NonRetryableError

CODE_SECONDS = 60
#: What a command of the sandbox may hold.
LONGEST_COMMAND = 30_000
END = "END_OF_CANVAS_CODE"
#: Begins the line of the output that holds the result.
MARK = "canvas-result:"
#: How much of the output of failed code is shown.
SHOWN = 2_000


def command_of(code: str, data: Any) -> str:
    """Return the command that calls `main` of the code with the data, and prints its result."""
    if END in code:
        raise Invalid(f"The code cannot contain {END}.")
    given = json.dumps(data, ensure_ascii=True)
    command = (
        f"python3 - <<'{END}'\n{code}\n\n"
        f"import json as _json\n"
        f"_result = _json.dumps(main(_json.loads({given!r})))\n"
        f'print("\\n{MARK}" + _result)\n{END}'
    )
    if len(command) > LONGEST_COMMAND:
        raise Invalid(
            f"The code and its data have {len(command):,} characters together. "
            f"At most {LONGEST_COMMAND:,} can be run."
        )
    return command


def result_of(said: str) -> Any:
    """Return what `main` returned. Raise with the end of the output if the code failed."""
    output, _, _ = said.rpartition("[exit code ")
    _, mark, result = output.rpartition(f"\n{MARK}")
    if not said.endswith("[exit code 0]") or not mark:
        raise NonRetryableError(f"The code failed:\n{said[-SHOWN:]}")
    try:
        return json.loads(result)
    except ValueError as error:
        raise NonRetryableError("The result of the code is too long or no JSON.") from error
