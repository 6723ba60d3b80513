"""The type that `--output` names: a class of the notebook, or an expression of such, as in `list[Invoice]`."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Mapping
from typing import Any

from planck_nb.agent.output import output_spec
from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.jupyter.values.kind_and_size import kind_of

_BUILT_IN = {name: getattr(builtins, name) for name in ("bool", "dict", "float", "int", "list", "set", "str", "tuple")}


def output_type(written: str, namespace: Mapping[str, object]) -> Any:  # noqa: ANN401 - a type, or a JSON Schema
    """Find the type of a structured answer.

    Only names, attributes, brackets and `|` count: nothing is called.

    Args:
        written: What was written after `--output`.
        namespace: The variables of the notebook.

    Returns:
        The type, or the JSON Schema, if the variable is a dictionary.

    Raises:
        UsageError: There is no such type, or no JSON can be read into it.
    """
    try:
        tree = ast.parse(written.strip(), mode="eval").body
        found = _evaluated(tree, namespace)
    except UsageError:
        raise
    except Exception:  # noqa: BLE001 - the classes' own code makes `List[Invoice]`
        raise _unusable(written, "is not the name of a type") from None
    if not isinstance(found, dict) and not _is_type(found):
        raise _unusable(written, f"is a value of type {kind_of(found)}")
    try:
        output_spec(found)
    except UsageError:
        raise _unusable(written, "is a type that JSON cannot be parsed into") from None
    return found


def _unusable(written: str, problem: str) -> UsageError:
    return UsageError(
        f"--output needs a pydantic model, a dataclass, a TypedDict or a JSON Schema of the notebook; "
        f"{written} {problem}."
    )


def _evaluated(node: ast.expr, namespace: Mapping[str, object]) -> Any:  # noqa: ANN401
    match node:
        case ast.Name(id=name):
            if name not in namespace and name not in _BUILT_IN:
                known = [known for known, value in namespace.items() if known[0] != "_" and isinstance(value, type)]
                raise UsageError(f"There is no type named {name}. {did_you_mean(name, known)}".rstrip())
            return namespace[name] if name in namespace else _BUILT_IN[name]
        case ast.Attribute(value=inner, attr=name):
            return getattr(_evaluated(inner, namespace), name)
        case ast.Subscript(value=inner, slice=key):
            return _evaluated(inner, namespace)[_evaluated(key, namespace)]
        case ast.Tuple(elts=elements):
            return tuple(_evaluated(element, namespace) for element in elements)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _evaluated(left, namespace) | _evaluated(right, namespace)
        case ast.Constant(value=str() | int() | None as value):
            return value
        case _:
            raise TypeError("not a type")


def _is_type(found: object) -> bool:
    """Whether it is a class, or what the brackets of one make."""
    return isinstance(found, type | types.GenericAlias | types.UnionType) or type(found).__module__ == "typing"
