"""Any value is described within bounds, and its own code can do no harm."""

from __future__ import annotations

import argparse
import array
import collections
import dataclasses
import datetime as dt
import decimal
import doctest
import email
import functools
import http.cookies
import importlib
import inspect
import io
import re
import sys
import threading
import time
import types
import urllib.parse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from pydantic import BaseModel

from planck_nb.jupyter.values import describe_value, kind_of

pa = pytest.importorskip("pyarrow")


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Account:
    name: str
    password: str
    rows: Any = None


class Order(BaseModel):
    id: int
    lines: list[str]


class Plain:
    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)


PLAIN: list[tuple[object, str]] = [
    (1, "1"),
    (None, "None"),
    (True, "True"),
    (1.5, "1.5"),
    ("two\nlines", "two\nlines"),
    ([1, "a", None], "[1, 'a', None]"),
    ((1,), "(1,)"),
    ({"EUR": 0.92, "GBP": [1, 2]}, "{'EUR': 0.92, 'GBP': [1, 2]}"),
    ({"b", "a", "c"}, "{'a', 'b', 'c'}"),
    (set(), "set()"),
    (frozenset({1}), "frozenset({1})"),
    (collections.deque([1, 2]), "deque([1, 2])"),
    (collections.OrderedDict(a=1), "OrderedDict({'a': 1})"),
    (collections.defaultdict(list, a=[1]), "defaultdict(<class 'list'>, {'a': [1]})"),
    (collections.Counter("aab"), "Counter({'a': 2, 'b': 1})"),
    (b"\x00\x01", r"b'\x00\x01'"),
    (bytearray(b"ab"), "b'ab'"),
    (Point(1, 2), "Point(x=1, y=2)"),
    (Order(id=1, lines=["a"]), "Order(id=1, lines=['a'])"),
    (Plain(a=1, _b=2), "Plain(a=1)"),
    (Plain(frame=pd.DataFrame({"a": [1]})), "Plain(frame=<DataFrame 1 \u00d7 1>)"),
    ([object()], "[<object object>]"),
    (dt.date(2026, 1, 2), "datetime.date(2026, 1, 2)"),
    (decimal.Decimal("1.10"), "Decimal('1.10')"),
    (np.float64(1.5), "np.float64(1.5)"),
    (pd.Timestamp("2026-01-02"), "Timestamp('2026-01-02 00:00:00')"),
    (Account, "<class 'test_describe_value.Account'>"),
    (10**100_000, "<int of 332,193 bits>"),
]


@pytest.mark.parametrize(("value", "text"), PLAIN, ids=lambda value: type(value).__name__)
def test_plain_values_are_as_repr_writes_them(value: object, text: str) -> None:
    assert describe_value(value).replace(f"{__name__}.", "test_describe_value.") == text


TABLES: list[tuple[Any, str, str]] = [
    (
        pd.DataFrame({"city": ["Oslo", None], "rain": [1.5, float("nan")], "n": [1, 2]}, index=["x", "y"]),
        "DataFrame 2 \u00d7 3",
        "columns:\n  city: STRING, 1 missing\n  rain: float64, 1 missing\n  n: int64\nrows:\n   city  rain  n\n",
    ),
    (pd.DataFrame(), "DataFrame 0 \u00d7 0", "no rows"),
    (pd.DataFrame({"a": [1]})[:0], "DataFrame 0 \u00d7 1", "columns:\n  a: int64\nno rows"),
    (pd.Series([1.0, None], name="s"), "Series 2", ", float64, named 's', 1 missing\n0  1\n1  nan"),
    (pd.Index([1, 2]), "Index 2", ", int64\n0  1\n1  2"),
    (
        pl.DataFrame({"a": [1, None], "b": ["x", "y"]}),
        "DataFrame 2 \u00d7 2",
        " (polars)\ncolumns:\n  a: Int64, 1 missing\n  b: String\nrows:\n   a  b\n   1  x\nNone  y",
    ),
    (pl.Series("s", [1, None]), "Series 2", " (polars), Int64, named 's', 1 missing\n0  1\n1  None"),
    (
        pa.table({"a": [1, None]}),
        "Table 2 \u00d7 1",
        " (pyarrow)\ncolumns:\n  a: int64, 1 missing\nrows:\n   a\n   1\nNone",
    ),
    (np.eye(2), "ndarray 2 \u00d7 2", ", float64\n[1.0, 0.0]\n[0.0, 1.0]"),
    (np.array([1.0, np.nan]), "ndarray 2", ", float64, 1 missing\n[1.0, nan]"),
    (np.zeros((100, 100)), "ndarray 100 \u00d7 100", ", float64\nfirst values: [0.0, 0.0, "),
    (np.array(3), "ndarray", ", int64\n3"),
]


@pytest.mark.parametrize(("value", "kind", "text"), TABLES, ids=[kind for _, kind, _ in TABLES])
def test_tables_have_shape_types_missing_values_and_first_rows(value: Any, kind: str, text: str) -> None:
    strings = str(pd.DataFrame({"a": ["x"]}).dtypes["a"])  # object before pandas 3
    described = describe_value(value)
    assert kind_of(value) == kind
    assert described.removeprefix(kind).lstrip("\n").startswith(text.replace("STRING", strings))
    assert described.startswith(kind)


@pytest.mark.slow
def test_a_large_table_is_bounded_and_quick() -> None:
    frame = pd.DataFrame(np.zeros((20_000, 100)), columns=[f"column {number}" for number in range(100)])
    frame["long"] = "x" * 10_000
    begun = time.monotonic()
    text = describe_value(frame)
    assert time.monotonic() - begun < 5
    assert text.startswith("DataFrame 20,000 \u00d7 101\ncolumns:\n  column 0: float64\n")
    assert "and 41 more" in text
    assert len(text) < 5_000


def test_a_long_table_shows_its_first_rows() -> None:
    text = describe_value(pd.DataFrame({"n": range(1_000)}))
    assert "first 10 rows:" in text
    assert text.endswith("9  9")


def test_cells_are_one_line_and_short() -> None:
    text = describe_value(pd.DataFrame({"a": ["x\ny" + "z" * 1_000]}))
    assert "x\\nyz" in text
    assert len(text) < 300


class Raises:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Exits:
    def __repr__(self) -> str:
        raise SystemExit(3)


class Sleeps:
    def __repr__(self) -> str:
        time.sleep(600)
        return ""


class Spins:
    def __repr__(self) -> str:
        while True:
            pass


class Huge:
    def __repr__(self) -> str:
        return "x" * 50_000_000


class NoText:
    def __repr__(self) -> Any:
        return 5


class Recurses:
    def __repr__(self) -> str:
        return repr(self)


class LyingList(list):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 10**9

    def __iter__(self) -> Iterator[object]:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        raise RuntimeError("no")

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no")


class LyingDict(dict):  # type: ignore[type-arg]
    def items(self) -> NoReturn:
        raise RuntimeError("no")


class LyingText(str):
    __slots__ = ()

    def __len__(self) -> int:
        raise RuntimeError("no")

    def __str__(self) -> str:
        raise RuntimeError("no")


class ReturnsLyingText:
    def __repr__(self) -> str:
        return LyingText("written")


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError(name)


class NoAttributes(metaclass=Meta):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class AllAttributes:
    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: object) -> Any:
        return self

    def __repr__(self) -> str:
        return "everything"


class RaisesBadly:
    class Bad(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    def __repr__(self) -> str:
        raise self.Bad


def cyclic() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


HOSTILE: dict[str, tuple[Callable[[], object], str]] = {
    "raises": (Raises, "<Raises, cannot be shown: RuntimeError: no text>"),
    "exits": (Exits, "<Exits, cannot be shown: SystemExit: 3>"),
    "raises what raises": (RaisesBadly, "<RaisesBadly, cannot be shown: Bad>"),
    "sleeps": (Sleeps, "<Sleeps, cannot be shown: it took longer than 0."),
    "spins": (Spins, "<Spins, cannot be shown: it took longer than 0."),
    "no text": (NoText, "<NoText, cannot be shown: "),
    "recurses": (Recurses, "<Recurses, cannot be shown: "),
    "huge": (Huge, "xxx"),
    "lying list": (lambda: LyingList([1, 2]), "LyingList([1, 2])"),
    "lying dict": (lambda: LyingDict(a=1), "LyingDict({'a': 1})"),
    "lying text": (lambda: LyingText("abc"), "abc"),
    "returns lying text": (ReturnsLyingText, "written"),
    "no attributes": (NoAttributes, "NoAttributes()"),
    "class without attributes": (lambda: NoAttributes, "(cannot be shown: RuntimeError: "),
    "all attributes": (AllAttributes, "everything"),
    "in a list": (lambda: [1, Raises(), 2], "[1, <Raises, cannot be shown: RuntimeError: no text>, 2]"),
    "in a frame": (lambda: pd.DataFrame({"a": [Raises()]}), "DataFrame 1 \u00d7 1\ncolumns:\n  a: object\nrows:\n"),
    "in an array": (lambda: np.array([Raises()], dtype=object), "ndarray 1, object\nfirst values: [<Raises, "),
    "contains itself": (cyclic, "[[[[[[list(…)]]]]]]"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_values_do_no_harm(name: str) -> None:
    make, text = HOSTILE[name]
    value = make()
    kind_of(value)
    described = describe_value(value, seconds=0.4 if name in ("sleeps", "spins") else 2)
    assert type(described) is str
    assert described.startswith(text)
    assert len(described) < 5_000


def test_many_slow_values_share_one_deadline() -> None:
    kinds = [type(f"Slow{number}", (Sleeps,), {}) for number in range(30)]
    text = describe_value([kind() for kind in kinds], seconds=0.5)
    assert "<Slow29, cannot be shown: there was no time left>" in text


def test_code_that_spins_is_stopped() -> None:
    describe_value(Spins(), seconds=0.2)
    while any(thread.name == "planck-values" and _is_in(thread, "Spins") for thread in threading.enumerate()):
        time.sleep(0.01)  # the sleeping ones of other tests go on, which costs nothing


def _is_in(thread: threading.Thread, name: str) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if type(frame.f_locals.get("self")).__name__ == name:
            return True
        frame = frame.f_back
    return False


class Computes:
    """A collection that is computed when it is read."""

    def compute(self) -> NoReturn:
        raise AssertionError("it was computed")

    def __repr__(self) -> str:
        raise AssertionError("it was computed")

    def __len__(self) -> int:
        raise AssertionError("it was computed")


class OnDevice:
    shape = (2, 3)
    dtype = "float32"

    def __repr__(self) -> str:
        raise AssertionError("it was copied")


def test_lazy_values_are_described_and_not_computed(tmp_path: Path) -> None:
    numbers = iter([1, 2])
    lazy = pl.LazyFrame({"a": [1]}).map_batches(lambda _: pytest.fail("it was computed"))
    relation = duckdb.sql("SELECT error('it was computed')::INTEGER AS x")
    generator = (number for number in [1])
    with (tmp_path / "file").open("w") as file:
        for value in (numbers, lazy, Computes(), generator, file, map(str, [1])):
            assert describe_value(value).endswith("; not read, because reading it would use it up or compute it")
            kind_of(value)
    assert describe_value(relation) == "relation of DuckDB, not computed\ncolumns:\n  x: INTEGER"
    assert describe_value(OnDevice()) == "OnDevice 2 \u00d7 3, float32; its values are not read"
    assert describe_value([lazy, Computes(), OnDevice()]) == "[<LazyFrame>, <Computes>, <OnDevice>]"
    assert describe_value(Account("a", "b", relation)) == (
        "Account(name='a', password=<secret, not shown>, rows=<DuckDBPyRelation>)"
    )
    assert list(numbers) == [1, 2]
    assert list(generator) == [1]


def test_text_with_the_name_of_a_secret_is_not_shown() -> None:
    values = [
        {"password": "hunter2", "api_key": b"abc"},
        Account("a", "hunter2"),
        Plain(password="hunter2"),
        [{"nested": {"client_secret": "hunter2"}}],
        pd.DataFrame({"password": ["hunter2"]}),
        {"token": "a8f7e6d5c4b3a2918070"},
    ]
    for value in values:
        text = describe_value(value)
        assert "hunter2" not in text
        assert "a8f7" not in text
        assert "<secret, not shown>" in text


class Slotted:
    __slots__ = ("password", "user")

    def __init__(self) -> None:
        self.user, self.password = "ann", "hunter2"


@dataclasses.dataclass(slots=True)
class SlottedData:
    user: str = "ann"
    password: str = "hunter2"


@dataclasses.dataclass
class Setting:
    name: str
    value: str


class Client:
    def __repr__(self) -> str:
        return "Client(host='db.example', password='hunter2', retries=3)"


class Spoken:
    def __repr__(self) -> str:
        return "<Client api_key: hunter2>"


BESIDE: list[object] = [
    [("password", "hunter2")],
    [["password", "hunter2"], ["user", "ann"]],
    ("client_secret", "hunter2"),
    (("password", b"hunter2"),),
    {"name": "password", "value": "hunter2"},
    [{"setting": "db_password", "content": "hunter2", "note": "none"}],
    Setting("password", "hunter2"),
    SimpleNamespace(user="ann", password="hunter2"),
    argparse.Namespace(password="hunter2"),
    Slotted(),
    SlottedData(),
    Client(),
    [Client()],
    Spoken(),
    partial(print, password="hunter2"),
    partial(print, {"password": "hunter2"}),
    "user: ann\npassword: hunter2\n",
    "USER=ann\nDB_PASSWORD=hunter2\n",
    '{"user": "ann", "password": "hunter2"}',
    "postgres connection: host=db password=hunter2",
    b"USER=ann\nDB_PASSWORD=hunter2\n",
    bytearray(b"password: hunter2"),
    ["export DB_PASSWORD='hunter2'"],
    "--password=hunter2",
    pd.DataFrame({"setting": ["user", "password"], "value": ["ann", "hunter2"]}),
    pd.DataFrame({"value": ["ann", "hunter2"]}, index=["user", "password"]),
    pd.Series({"user": "ann", "password": "hunter2"}),
    pd.Series(["hunter2"], name="password"),
    pl.DataFrame({"name": ["password"], "value": ["hunter2"]}),
    pl.Series("password", ["hunter2"]),
    collections.OrderedDict(password="hunter2"),
    collections.deque([("password", "hunter2")]),
    "<config><user>ann</user><password>hunter2</password></config>",
    '<login password="hunter2"/>',
    '<add key="DbPassword" value="hunter2"/>',
    '<entry key="db.password">hunter2</entry>',
    "<dict><key>password</key><string>hunter2</string></dict>",
    "<password><![CDATA[hunter2]]></password>",
    '<input type="hidden" name="password" value="hunter2">',
    "machine db.example login ann password hunter2",
    "machine db.example\n  login ann\n  password hunter2",
    "db.example:5432:shop:ann:hunter2",
    "*:*:*:ann:hunter2",
    "user,password,city\nann,hunter2,Oslo\n",
    "user\tpassword\nann\thunter2",
    'user;"password"\nann;"hunter2"',
    r'{"body": "{\"user\": \"ann\", \"password\": \"hunter2\"}"}',
    "password:\n  hunter2\nuser: ann",
    "db:\n  password: |\n    hunter2",
    "- name: DB_PASSWORD\n  value: hunter2",
    '[{"name": "DB_PASSWORD", "value": "hunter2"}]',
    'password = """\nhunter2\n"""',
    "psql --password hunter2 shop",
    "mysql -password hunter2",
    "FROM python\nENV DB_PASSWORD hunter2\n",
    "CREATE USER ann IDENTIFIED BY 'hunter2'",
    "alter role ann with password 'hunter2'",
    "| name | value |\n|---|---|\n| password | hunter2 |",
    'os.environ["DB_PASSWORD"] = "hunter2"',
    "const password = `hunter2`",
    "password := hunter2",
    "$password = 'hunter2';",
    "spring.datasource.password=hunter2",
    'proxy_set_header X-Api-Key "hunter2";',
    pd.DataFrame([["ann", "hunter2"]], columns=pd.MultiIndex.from_tuples([("db", "user"), ("db", "password")])),
    pd.Series(["hunter2"], index=pd.MultiIndex.from_tuples([("db", "password")])),
    np.array([("ann", "hunter2")], dtype=[("user", "U9"), ("password", "U9")]),
    np.array([["user", "ann"], ["password", "hunter2"]]),
    np.rec.array([("hunter2",)], dtype=[("password", "U9")]),
    pa.table({"user": ["ann"], "password": ["hunter2"]}),
    pa.array([{"password": "hunter2"}]),
    pl.DataFrame({"login": [{"password": "hunter2"}]}),
    pd.DataFrame({"login": [{"password": "hunter2"}]}),
    pd.Series([("password", "hunter2")]),
    {("db", "password"): "hunter2"},
    {"password": {"value": "hunter2"}},
    {"password": ["hunter2", {"old": "hunter2"}]},
    {b"password": b"hunter2"},
    {"PASSWORD ": "hunter2"},
    [{"key": "password"}, {"password": "hunter2"}],
    urllib.parse.urlsplit("https://ann:hunter2@db.example/"),
    "https://ann:hunter2@db.example/",
    "https://db.example/?password=hunter2",
    array.array("u", "password=hunter2"),
    ValueError("password=hunter2"),
    re.compile("password=hunter2"),
    Path("/tmp/password=hunter2"),
    functools.partialmethod(print, password="hunter2"),
    inspect.signature(lambda password="hunter2": None),
    types.MappingProxyType({"password": "hunter2"}),
    collections.ChainMap({"password": "hunter2"}),
    collections.UserDict(password="hunter2"),
    {"a": 1, "password": "hunter2"}.items(),
    {"PassWord": "hunter2", "pass word": "hunter2", "pw": "hunter2", "passwort": "hunter2"},
    {"contraseña": "hunter2", "密码": "hunter2"},
    "password -> hunter2",
    np.array([("hunter2",)], dtype=[("password", "U9")])[0],
]


UNREAD: list[object] = [
    pd.Categorical(["password=hunter2"]),
    http.cookies.SimpleCookie("password=hunter2"),
    email.message_from_string("X-Auth-Token: hunter2hunter2345\n\nhello"),
    memoryview(b"password=hunter2"),
    io.StringIO("password=hunter2"),
    (lambda password="hunter2": None),
]


def test_a_number_beside_the_name_of_a_secret_is_not_shown() -> None:
    assert describe_value({"password": 12345678, "key": 123456789012345, "n": 12345678}) == (
        "{'password': <secret, not shown>, 'key': 123456789012345, 'n': 12345678}"
    )


@pytest.mark.parametrize("value", UNREAD, ids=lambda value: type(value).__name__)
def test_what_is_not_read_shows_no_secret(value: object) -> None:
    assert "hunter2" not in describe_value(value)


@pytest.mark.parametrize("value", BESIDE, ids=lambda value: type(value).__name__)
def test_a_value_beside_the_name_of_a_secret_is_not_shown(value: object) -> None:
    text = describe_value(value)
    assert "hunter2" not in text
    assert "<secret, not shown>" in text


@pytest.mark.parametrize(
    "value",
    [
        "def login(password): return check(password)",
        "The password is asked for, and the token count is 12.",
        "password=<your password>",
        [("month", "March"), ("key", "Oslo")],
        {"name": "orders", "value": "12"},
        "tokens: 1200, max_tokens=5",
        pd.DataFrame({"name": ["ann"], "value": ["12"]}),
    ],
)
def test_texts_about_secrets_are_shown(value: object) -> None:
    assert "not shown" not in describe_value(value)


def test_ordinary_keys_and_tokens_are_shown() -> None:
    values = {"key": "Oslo", "token": "the", "tokens": "12", "max_tokens": "5", "keys": "ab", "password_count": 3}
    assert "secret" not in describe_value(values)
    assert "the" in describe_value(pd.DataFrame({"token": ["the"]}))


@pytest.mark.slow
def test_long_texts_and_collections_are_cut() -> None:
    for value in ("x" * 10_000_000, list(range(1_000_000)), dict.fromkeys(range(1_000_000)), ["y" * 1_000_000] * 100):
        assert len(describe_value(value)) < 5_000
    assert "… 99" in describe_value(list(range(1_000_000)))


def test_the_text_has_no_addresses() -> None:
    assert "0x" not in describe_value(
        [object(), print, Plain, lambda: 1, type("T", (), {"__repr__": object.__repr__})()]
    )


def test_examples() -> None:
    for module in ("description", "kind_and_size"):
        assert doctest.testmod(importlib.import_module(f"planck_nb.jupyter.values.{module}")).failed == 0
