"""Makes tools from Python functions: the schema comes from the type hints and the docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from types import MethodType
from typing import Any, TypeAlias, cast, get_args, get_type_hints, overload

from planck_nb.agent.calling.docstrings import documented
from planck_nb.agent.calling.json_schema import drop_infinite
from planck_nb.agent.calling.tool import DEFAULT_TIMEOUT, Tool, ToolContext, is_context
from planck_nb.agent.calling.worker_calls import Submits, call_on, check_function
from planck_nb.agent.effect import Effect, EffectKind
from planck_nb.ai.server_tools import SERVER_TOOLS, ServerTool
from planck_nb.base.errors import ToolError, UsageError, did_you_mean
from planck_nb.base.json_types import JsonObject

ToolLike: TypeAlias = Tool | Callable[..., object] | ServerTool | str
"""What a tool can be made from: a function, or a tool of the model's server or its name."""

EffectDeclaration: TypeAlias = Callable[[JsonObject], Iterable[Effect]] | Sequence[EffectKind]
"""A function that returns the effects of a call from its arguments, or the kinds of effect that every call has."""


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
    touches: EffectDeclaration | None = None,
    guidance: str = "",
    on: Submits | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
    touches: EffectDeclaration | None = None,
    guidance: str = "",
    on: Submits | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool from a Python function; use it as `@tool`, `@tool(name=…)` or `tool(function)`.

    The model sees the function's name, its docstring, and a JSON Schema made from the type hints; argument
    descriptions come from the docstring (Google, NumPy, reST or Epydoc style) or from `Annotated[…, Field(…)]`.
    Arguments are validated and converted by pydantic before the function runs. A parameter annotated `ToolContext`,
    whatever its name, is not shown to the model and receives the context of the call. The tool can still be called
    like the function.

    Args:
        function: The function, sync or async; it may be a generator, a method of an object, or an object with a
            `__call__` method. The model does not see arguments that `functools.partial` has bound.
        name: The name that the model sees; by default the function's name.
        description: The description that the model sees; by default the docstring without its sections.
        timeout: Seconds that a call may take, None for no limit.
        touches: What a call affects: a function that returns the effects from the arguments as the model wrote them,
            or a list of kinds such as `["read", "network"]`. None declares nothing.
        guidance: A sentence or two for the system prompt on how to use the tool well.
        on: Where calls run: anything with `submit`, such as a process pool of `concurrent.futures`, a Dask client or an
            ipyparallel executor, whose workers have planck_nb. Arguments are checked and approved here; results are
            converted there. Stopping a call that has begun gives it up; it ends by itself.

    Returns:
        The tool, or a decorator that makes it if no function is given.

    Raises:
        UsageError: If a JSON object cannot supply the function's parameters, `touches` has an unknown kind, or `on` is
            given for an async function.

    Example:
        >>> @tool
        ... def add(a: int, b: int) -> int:
        ...     "Add two numbers."
        ...     return a + b
        >>> add.name, add.description, list(add.parameters["properties"])
        ('add', 'Add two numbers.', ['a', 'b'])
        >>> add(1, 2)
        3
    """
    declared = None if touches is None else _declaration(touches)

    def make(function: Callable[..., Any]) -> Tool:
        made = _from_function(function, name=name, description=description, timeout=timeout, on=on)
        return replace(made, touches=declared, guidance=guidance)

    return make if function is None else make(function)


def as_tool(candidate: object) -> Tool:
    """Make a tool from a function, or from a server tool or its name; a tool stays as it is.

    Raises:
        UsageError: If the candidate is none of these.
    """
    if isinstance(candidate, Tool):
        return candidate
    if isinstance(candidate, ServerTool):
        return _on_server(candidate)
    if isinstance(candidate, str):
        if (server := ServerTool.parse(candidate)) is None:
            raise UsageError(
                f"There is no server tool {candidate!r}. {did_you_mean(candidate, SERVER_TOOLS)} "
                "Pass a Python function or a Tool for any other tool."
            )
        return _on_server(server)
    if callable(candidate):
        return tool(candidate)
    raise UsageError(f"A {type(candidate).__name__} is not a tool; pass a Python function or a Tool.")


def _on_server(server: ServerTool) -> Tool:
    def refuse(_args: JsonObject) -> object:
        raise ToolError(f"{server.name} is run by the model's server and cannot be called as a function.")

    return Tool(name=server.name, description=SERVER_TOOLS[server.name], execute_fn=refuse, server=server)


def by_name(candidates: Iterable[object]) -> dict[str, Tool]:
    """The tools by name; if two have the same name, the last one counts.

    Raises:
        UsageError: If a candidate is not a tool, or two different functions have the same name: neither was meant to
            replace the other.
    """
    found: dict[str, Tool] = {}
    for item in map(as_tool, candidates):
        if item.name in found and _are_different(found[item.name].function, item.function):
            raise UsageError(
                f"Two different functions make a tool named {item.name}; "
                'give one of them another name: tool(name="…")(function).'
            )
        found[item.name] = item
    return found


def _are_different(one: Callable[..., Any] | None, other: Callable[..., Any] | None) -> bool:
    """Whether these are two functions. Tools that are not made from one, such as the built-in ones, can be replaced."""
    if one is None or other is None or one is other:
        return False
    bound = isinstance(one, MethodType) and isinstance(other, MethodType)  # each attribute access makes a new one
    return not (bound and one == other)


def _declaration(touches: EffectDeclaration) -> Callable[[JsonObject], Iterable[Effect]]:
    if callable(touches):
        return touches
    known = get_args(EffectKind)
    kinds = (cast("EffectKind", touches),) if isinstance(touches, str) else tuple(touches)
    if unknown := [kind for kind in kinds if kind not in known]:
        raise UsageError(f"A tool cannot touch {unknown[0]!r}; touches is a function, or a list of {', '.join(known)}.")
    found = tuple(Effect(kind) for kind in kinds)
    return lambda _args: found


def _from_function(
    function: Callable[..., Any],
    *,
    name: str | None,
    description: str | None,
    timeout: float | None,
    on: Submits | None,
) -> Tool:
    from pydantic import ValidationError  # noqa: PLC0415 - 50 ms, paid with the first function tool

    flat = _flattened(function)
    called = name or _name_of(flat.func, function)
    docstring = documented(_docstring(flat.func))
    parameters, context_name = _parameters(called, flat)
    model, schema = _arguments_model(called, parameters, docstring.arguments)
    field_names = {info.alias or key: key for key, info in model.model_fields.items()}

    def bind(args: JsonObject, context: ToolContext) -> dict[str, Any]:
        try:
            values = model.model_validate(args)
        except ValidationError as error:
            problems = "; ".join(_problem(item) for item in error.errors(include_url=False))
            raise ToolError(f"Invalid arguments for {called}: {problems}.") from error
        bound = {key: getattr(values, attribute) for key, attribute in field_names.items()}
        return bound if context_name is None else {**bound, context_name: context}

    if on is not None:
        check_function(called, on, function)

        async def execute_elsewhere(args: JsonObject, context: ToolContext) -> object:
            return await call_on(on, called, function, bind(args, context), context)

        execute: Callable[..., object] = execute_elsewhere
    elif inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):

        async def execute_async(args: JsonObject, context: ToolContext) -> object:
            value = function(**bind(args, context))
            return await value if inspect.isawaitable(value) else value

        execute = execute_async
    else:

        def execute_sync(args: JsonObject, context: ToolContext) -> object:
            return function(**bind(args, context))

        execute = execute_sync

    return Tool(
        name=called,
        description=description or docstring.summary,
        parameters=schema,
        execute_fn=execute,
        timeout=timeout,
        function=function,
    )


def _flattened(function: Callable[..., Any]) -> partial[Any]:
    """The function within tools and `functools.partial` objects, with all arguments that these have bound."""
    args: tuple[Any, ...] = ()
    keywords: dict[str, Any] = {}
    while True:
        if isinstance(function, partial):
            args, keywords = (*function.args, *args), {**function.keywords, **keywords}
            function = function.func
        elif isinstance(function, Tool) and function.function is not None:
            function = function.function
        else:
            return partial(function, *args, **keywords)


def _name_of(bare: Callable[..., Any], given: Callable[..., Any]) -> str:
    """The name of a function, or of the class of a callable object. Raises `UsageError` if there is none."""
    found = getattr(bare, "__name__", type(bare).__name__)
    if not isinstance(found, str) or found == (lambda: None).__name__:
        raise UsageError(f'There is no name for a tool made of {given!r}; give it one: tool(name="…")(function).')
    return found


def _has_own_description(bare: Callable[..., Any]) -> bool:
    """Whether docstring and annotations are those of the object itself, not those of its method `__call__`."""
    return isinstance(bare, type) or inspect.isroutine(bare) or hasattr(bare, "__wrapped__")


def _docstring(bare: Callable[..., Any]) -> str:
    own = None if _has_own_description(bare) else type(bare).__call__.__doc__
    return inspect.cleandoc(own) if own else inspect.getdoc(bare) or ""


def _hints(bare: Callable[..., Any]) -> dict[str, Any]:
    """The resolved annotations of a function, class or callable object."""
    if isinstance(bare, type):
        made_by = get_type_hints(vars(bare).get("__init__", bare), include_extras=True)
        return get_type_hints(bare, include_extras=True) | made_by
    return get_type_hints(bare if _has_own_description(bare) else type(bare).__call__, include_extras=True)


def _parameters(called: str, function: partial[Any]) -> tuple[list[inspect.Parameter], str | None]:
    """The parameters that the model supplies, with resolved annotations, and the name of the one for the context.

    Arguments that are bound are left out: the program has chosen their values.
    """
    try:
        signature = inspect.signature(function)
        hints = _hints(function.func)
    except (TypeError, ValueError, NameError) as error:
        raise UsageError(f"{called} cannot be a tool: its signature cannot be read ({error}).") from error
    parameters: list[inspect.Parameter] = []
    context_name: str | None = None
    for parameter in signature.parameters.values():
        if parameter.name in function.keywords:
            continue
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise UsageError(
                f"{called} cannot be a tool: a model cannot pass the parameter {parameter.name!r} by name; "
                "use plain named parameters."
            )
        annotation = hints.get(parameter.name, Any)
        if is_context(annotation) and context_name is None:
            context_name = parameter.name
        else:
            parameters.append(parameter.replace(annotation=annotation))
    return parameters, context_name


def _arguments_model(
    called: str, parameters: list[inspect.Parameter], descriptions: dict[str, str]
) -> tuple[Any, JsonObject]:
    """Make a pydantic model with one field per parameter, and its JSON Schema.

    Fields are aliased, because pydantic does not accept every parameter name as the name of a field.
    """
    from pydantic import ConfigDict, Field, create_model  # noqa: PLC0415 - see above
    from pydantic.errors import PydanticUserError  # noqa: PLC0415

    fields: dict[str, Any] = {}
    for number, parameter in enumerate(parameters):
        default = ... if parameter.default is parameter.empty else parameter.default
        described: Any = {"description": text} if (text := descriptions.get(parameter.name)) else {}
        fields[f"field_{number}"] = (parameter.annotation, Field(default, alias=parameter.name, **described))
    try:
        model = create_model(called, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields)
        return model, _schema(model)
    except PydanticUserError as error:
        raise UsageError(
            f"{called} cannot be a tool: a model cannot write one of its parameter types as JSON; "
            f"use numbers, text, lists, dictionaries or pydantic models ({error.message.splitlines()[0]})"
        ) from error


def _schema(model: Any) -> JsonObject:  # noqa: ANN401 - a pydantic model class
    schema = model.model_json_schema(by_alias=True)
    _drop_titles(schema)
    drop_infinite(schema)
    schema.setdefault("properties", {})
    return dict(schema)


_DATA = frozenset({"default", "examples", "enum", "const"})
"""Keys of a schema that hold values, not schemas."""


def _drop_titles(node: object) -> None:
    """Remove the titles that pydantic adds to every node: they only repeat the names, and cost tokens."""
    if isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        for key, child in node.items():
            if key == "properties" and isinstance(child, dict):
                for schema in child.values():
                    _drop_titles(schema)
            elif key not in _DATA:
                _drop_titles(child)
    elif isinstance(node, list):
        for child in node:
            _drop_titles(child)


def _problem(error: Any) -> str:  # noqa: ANN401 - pydantic_core.ErrorDetails
    where = ".".join(str(step) for step in error["loc"])
    return f"{where}: {error['msg']}" if where else str(error["msg"])
