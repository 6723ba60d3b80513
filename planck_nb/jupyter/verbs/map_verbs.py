"""`%planck map`, which asks one prompt about every row."""

from __future__ import annotations

from collections.abc import Sequence
from keyword import iskeyword
from string import Formatter
from typing import TYPE_CHECKING, Any

from planck_nb.base.async_tasks import spawn
from planck_nb.base.errors import UsageError, did_you_mean
from planck_nb.base.visible import series
from planck_nb.jupyter.namespace import data_frames
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import AGENT_NAME, MODEL, OUTPUT
from planck_nb.jupyter.parsing.parameters import INTEGER, Extent, Kind, Option, Parameter, Suggestions
from planck_nb.jupyter.prompts.output_types import output_type
from planck_nb.jupyter.similar_words import nearest
from planck_nb.jupyter.values import kind_of
from planck_nb.jupyter.verbs.declaration import readable, verb
from planck_nb.jupyter.verbs.running_verbs import SUBJECT
from planck_nb.workspace import MapRun

if TYPE_CHECKING:
    import pandas as pd

_NAMED_COLUMNS = 8
_LISTS = (list, tuple)


def _tables(notebook: Notebook) -> Suggestions:
    """Return frames, columns and lists by name."""
    frames = data_frames(notebook.names)
    lists = {
        name: value
        for name, value in notebook.names.items()
        if name[:1] != "_" and (type(value) in _LISTS or type(value).__name__ == "Series")
    }
    return {name: kind_of(value) for name, value in (frames | lists).items()}


def _columns(notebook: Notebook) -> Suggestions:
    """Return all frames' columns."""
    frames = data_frames(notebook.names)
    return {column: f"column of {name}" for name, frame in frames.items() for column in _column_names(frame)}


def _column_names(frame: Any) -> list[str]:  # noqa: ANN401 - a frame from any package
    return [str(name) for name in getattr(frame, "column_names", frame.columns)]


def _find_table(notebook: Notebook, name: str) -> tuple[str, object]:
    tables = _tables(notebook)
    if name not in tables:
        hint = did_you_mean(name, tables) or "A data frame, a column or a list has the rows."
        raise UsageError(f"There is no table {name} in the notebook. {hint}")
    return name, notebook.names[name]


def _dollars(text: str) -> float:
    amount = float(text.removeprefix("$"))
    if not amount > 0:
        raise ValueError(text)
    return amount


def _variable(text: str) -> str:
    if not text.isidentifier() or iskeyword(text):
        raise ValueError(text)
    return text


_TABLE = Kind("TABLE", resolve=_find_table, suggest=_tables, fits=lambda notebook, text: text in _tables(notebook))
_COLUMN = Kind("COLUMN", suggest=_columns, fits=lambda notebook, text: bool(nearest(text, _columns(notebook))))


@verb(
    "map",
    SUBJECT,
    "ask a prompt about every row; the same again asks only the rest",
    Parameter("table", _TABLE, "a data frame, a column or a list of the notebook"),
    Parameter(
        "template",
        Kind("PROMPT", extent=Extent.TEXT),
        "the prompt, with {column} where a row's values belong",
        optional=True,
    ),
    Option("column", "c", _COLUMN, "the column whose values follow the prompt, or are the prompts themselves"),
    Option("agent", "a", AGENT_NAME, "the agent whose instructions, tools and model are used; not its conversation"),
    Option("model", "m", MODEL, "the model instead"),
    Option("output", None, OUTPUT, "structured answers: a pydantic model, dataclass or TypedDict of the notebook"),
    Option("into", "o", Kind("NAME", _variable), "a variable to store the table of answers in, instead of showing it"),
    Option("first", "n", INTEGER, "ask only so many, and say what the rest would cost"),
    Option("cost", None, Kind("USD", _dollars), "the most US dollars for all, earlier answers included"),
    Option("concurrency", None, INTEGER, "the most prompts at a time, by default 8"),
    Option("key", "k", _COLUMN, "the column by which a row is known, instead of its prompt"),
    Option("again", None, None, "ask again what was answered under other settings"),
    example="map tickets --first 5 Which product is meant? {text}",
    cell=True,
)
async def map_(
    notebook: Notebook,
    *,
    table: tuple[str, object],
    template: str | None,
    column: str | None,
    agent: str | None,
    model: str | None,
    output: str | None,
    into: str | None,
    first: int | None,
    cost: float | None,
    concurrency: int | None,
    key: str | None,
    again: bool,
) -> pd.DataFrame | None:
    """Ask all prompts, and return a table of the answers."""
    name, rows = table
    frame = _as_frame(name, rows)
    columns = _column_names(frame)
    for option in filter(None, (column, key)):
        if option not in columns:
            raise UsageError(f"{name} has no column {option}. {did_you_mean(option, columns)}")
    run = notebook.workspace.map(
        frame,
        template=_template(name, template, column, columns),
        key=key,
        agent=None if agent is None else notebook.controller.agent(agent),
        model=None if model is None else await notebook.workspace.find_model(model),
        output=None if output is None else output_type(output, notebook.names),
        first=first,
        cost=cost,
        again=again,
        **({} if concurrency is None else {"concurrency": concurrency}),
    )
    if into is None:
        await run
        return readable((await run.frame()).drop(columns="seconds", errors="ignore"))
    try:
        await run
        await _store(run, notebook, into)
    finally:  # a click on "Ask the rest" or "Ask them again" comes after the cell
        run.at_end.append(lambda: spawn(_store(run, notebook, into), name="planck map table"))
    return None


async def _store(run: MapRun, notebook: Notebook, name: str) -> None:
    notebook.put(name, await run.frame())


def _as_frame(name: str, rows: Any) -> Any:  # noqa: ANN401 - any table
    """Return a frame; a list's or column's variable names its column."""
    if hasattr(rows, "to_pandas") and hasattr(rows, "column_names"):  # an Arrow table
        return rows.to_pandas()
    if hasattr(rows, "columns"):
        return rows
    import pandas as pd  # noqa: PLC0415 - heavy

    return pd.DataFrame({name: list(rows)})


def _template(name: str, text: str | None, column: str | None, columns: list[str]) -> str:
    """Return the prompt with the columns in braces."""
    if not text and column is None and len(columns) == 1:
        column = columns[0]
    if not text:
        if column is None:
            raise UsageError(
                f"There is no prompt. Write it on the lines below `%%planck map {name}`, with braces around "
                f"columns; or choose the column that has the prompts with --column. {_listed(columns)}"
            )
        return f"{{{column}}}"
    try:
        fields = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
    except ValueError as error:
        raise UsageError(f"The prompt cannot be read: {error}. Write {{{{ and }}}} for braces.") from None
    for field in fields:
        if field.partition(".")[0].partition("[")[0] not in columns:
            raise UsageError(
                f"{name} has no column {field!r}. {did_you_mean(field, columns)} Write {{{{ and }}}} for braces."
            )
    if column is not None and fields:
        raise UsageError("The prompt has columns in braces already; leave --column out.")
    if column is None and not fields:
        if len(columns) > 1:
            raise UsageError(
                f"The prompt is the same for every row. Put a column in braces where its values belong. "
                f"{_listed(columns)}"
            )
        [column] = columns
    return text if fields else f"{text}\n\n{{{column}}}"


def _listed(columns: Sequence[str]) -> str:
    more = ["more"] if len(columns) > _NAMED_COLUMNS else []
    return f"The columns are {series([*columns[:_NAMED_COLUMNS], *more])}."
