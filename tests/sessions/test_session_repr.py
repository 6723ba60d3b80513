from __future__ import annotations

from pathlib import Path

from support.stored import converse

from planck_nb.ai.messages import UserMessage
from planck_nb.sessions import Session


async def test_a_session_shows_what_it_is_and_holds(tmp_path: Path) -> None:
    directory = tmp_path / "<b>&"
    with Session.create(directory, name="sales") as session:
        await converse(session)
        await session.append("a2", UserMessage("hello"))
        assert repr(session) == f"<Session sales {session.id}>"
        html = session._repr_html_()
        assert html == session._repr_html_()
        assert "<b>" not in html
        assert "&lt;b&gt;&amp;" in html
        for key, value in {"Name": "sales", "Id": session.id, "Agents": "2", "Messages": "5"}.items():
            assert f"<tr><th>{key}</th><td>{value}</td></tr>" in html
    assert repr(session) == f"<Session sales {session.id} closed>"
    assert session._repr_html_() == html
    assert Session.read(directory, "sales")._repr_html_() == html


async def test_a_session_that_cannot_be_read_or_counted_soon_shows_its_name_only(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="large") as session:
        await session.append("a", UserMessage("x" * 2_000_000))
        assert "Messages" not in session._repr_html_()
    session.path.unlink()
    assert "<td>large</td>" in session._repr_html_()
    assert "Messages" not in session._repr_html_()
