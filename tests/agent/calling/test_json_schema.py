"""What checks arguments and answers against JSON Schemas."""

from __future__ import annotations

import subprocess
import sys

import pytest

from planck_nb.agent.calling.json_schema import errors_of, problem_of, validator
from planck_nb.base.errors import ToolError

CODE = """
import sys
from planck_nb.agent.calling.json_schema import problem_of, validator
problem_of({}), validator({})
assert "jsonschema" in sys.modules
print({"rfc3987_syntax", "lark"} & set(sys.modules))
"""


@pytest.mark.process
@pytest.mark.parametrize("before", ["", "sys.modules['lark'] = None; import jsonschema; del sys.modules['lark']"])
def test_no_parser_of_addresses_is_loaded_with_it(before: str) -> None:
    code = f"import sys; {before}\n{CODE}"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "set()\n"


def test_a_schema_is_checked_and_then_checks() -> None:
    assert problem_of({"type": "object"}) == ""
    assert "is not valid" in problem_of({"type": 3})
    assert [error.message for error in errors_of(validator({"type": "integer"}), "x")] == [
        "'x' is not of type 'integer'"
    ]
    inner = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}
    assert errors_of(validator(inner), 1) == []


def test_what_a_schema_does_not_hold_is_not_looked_for() -> None:
    with pytest.raises(ToolError, match=r"refers to file:///etc/hostname; write that out in the schema\."):
        errors_of(validator({"$ref": "file:///etc/hostname"}), 1)
