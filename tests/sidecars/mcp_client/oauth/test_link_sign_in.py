"""Signing in to a server with OAuth: the person, the stored tokens, and everything that can go wrong."""

from __future__ import annotations

import asyncio
import json
import stat
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import httpx2
import pytest
from support.http_servers import app_server
from support.oauth_server import OAuthServer
from support.sidecar_links import FAST, Events

from planck_nb.agent.approval.secret_files import is_secret_path
from planck_nb.base.errors import ConfigError, SidecarError
from planck_nb.base.secrets import redact
from planck_nb.sidecars.mcp_client.link.link import SidecarLink
from planck_nb.sidecars.mcp_client.link.questions import Ask, Question, QuestionAnswer
from planck_nb.sidecars.mcp_client.link.settings import LinkCallbacks
from planck_nb.sidecars.mcp_client.mcp_servers import read_mcp_servers
from planck_nb.sidecars.mcp_client.oauth.sign_in import sign_in
from planck_nb.sidecars.mcp_client.oauth.token_file import TokenFile
from planck_nb.sidecars.mcp_client.sidecar_spec import OAuthClient, SidecarSpec


@pytest.fixture
async def server() -> AsyncIterator[OAuthServer]:
    made = OAuthServer()
    async with app_server(made.app, made.listener):
        yield made


@asynccontextmanager
async def linked(
    server: OAuthServer, folder: Path, ask: Ask | None, *, seconds: float = 20, oauth: OAuthClient | None = None
) -> AsyncIterator[tuple[SidecarLink, Events]]:
    """The link to the server, not started, and its events."""
    spec, events = SidecarSpec("notes", url=server.url, oauth=oauth or OAuthClient()), Events()
    callbacks = LinkCallbacks(ask=ask, on_event=events)
    link = SidecarLink(spec, timing=FAST, callbacks=callbacks, auth=sign_in(spec, folder / "sign-in", seconds=seconds))
    try:
        yield link, events
    finally:
        await link.stop()


async def visit(url: str) -> str:
    """Where a browser is sent after the person has signed in; it does not go there."""
    async with httpx2.AsyncClient() as browser:
        return (await browser.get(url)).headers["location"]


class Person:
    """Plays the person; keeps the questions."""

    def __init__(self, answer: Callable[[Question], Awaitable[QuestionAnswer | None]] | None = None) -> None:
        self.asked: list[Question] = []
        self._answer = answer

    async def __call__(self, question: Question) -> QuestionAnswer | None:
        self.asked.append(question)
        return await (self._answer or self.come_back)(question)

    @staticmethod
    async def come_back(question: Question) -> QuestionAnswer:
        """Sign in, in a browser on this machine."""
        async with httpx2.AsyncClient() as browser:
            page = await browser.get(await visit(question.url))
        assert "You can close this page" in page.text
        await asyncio.Event().wait()  # the question is open until the link has heard of the browser
        raise AssertionError


async def paste(question: Question) -> QuestionAnswer:
    """Sign in, in a browser on another machine, and paste the address at which it ended."""
    return QuestionAnswer("accept", {"address": f"  {await visit(question.url)}\n"})


@pytest.mark.slow
async def test_a_person_signs_in_once_and_tokens_are_renewed(server: OAuthServer, tmp_path: Path) -> None:
    person = Person()
    async with linked(server, tmp_path, person) as (link, _):
        await link.start()
        assert (await link.call("whoami", {})).text == "signed in"
    (question,) = person.asked
    assert question.sidecar == "notes"
    assert question.url.startswith(f"{server.address}/authorize?")
    assert "asks you to sign in at 127.0.0.1" in question.message
    assert question.problem_of({}) == ""
    redirect = parse_qs(urlsplit(question.url).query)["redirect_uri"]
    assert redirect[0].startswith("http://127.0.0.1:")

    folder = tmp_path / "sign-in"
    (file,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert is_secret_path("/home/ada/.planck/sign-in/0123.json")
    stored = json.loads(file.read_text())
    token = stored["tokens"]["access_token"]
    assert redact(f"it wrote {token}") == "it wrote [a token of the sidecar notes]"

    # Another kernel uses the same tokens; one that has ended is renewed, each time without the person.
    async with linked(server, tmp_path, None) as (link, _):
        await link.start()
    assert server.exchanges == ["authorization_code"]
    file.write_text(json.dumps({**stored, "expires": time.time() - 1}))
    async with linked(server, tmp_path, None) as (link, _):
        await link.start()
        assert (await link.call("whoami", {})).text == "signed in"
    assert server.exchanges == ["authorization_code", "refresh_token"]
    assert json.loads(file.read_text())["tokens"]["access_token"] != token

    # A server that forgot the tokens asks again, in the middle of a session, too.
    person.asked.clear()
    async with linked(server, tmp_path, person) as (link, _):
        await link.start()
        server.forget()
        assert (await link.call("whoami", {})).text == "signed in"
    assert len(person.asked) == 1
    assert server.registered == 1


@pytest.mark.slow
async def test_the_browser_is_answered_while_input_blocks_the_event_loop(server: OAuthServer, tmp_path: Path) -> None:
    async def typed(question: Question) -> QuestionAnswer:
        """Answer as at `input`, which returns once the person has seen in the browser that they can go back."""
        came_back = await visit(question.url)
        with urlopen(came_back, timeout=30) as page:  # noqa: ASYNC210 - blocks the event loop, as `input` does
            assert b"go back to the notebook" in page.read()
        return QuestionAnswer("accept", {})

    async with linked(server, tmp_path, typed) as (link, _):
        await link.start()
        assert (await link.call("whoami", {})).text == "signed in"


@pytest.mark.slow
async def test_a_server_that_forgot_the_registration_gets_a_new_one(server: OAuthServer, tmp_path: Path) -> None:
    async with linked(server, tmp_path, paste) as (link, _):
        await link.start()
    server.forget()
    server.clients.clear()
    async with linked(server, tmp_path, _decline) as (link, _):  # because the page says that the client is not known
        with pytest.raises(SidecarError, match="declined"):
            await link.start()
    async with linked(server, tmp_path, paste) as (link, _):
        await link.start()
    assert server.registered == 2


async def test_the_address_of_a_browser_on_another_machine_is_pasted(server: OAuthServer, tmp_path: Path) -> None:
    async with linked(server, tmp_path, paste) as (link, _):
        await link.start()
        assert (await link.call("whoami", {})).text == "signed in"


@pytest.mark.slow
async def test_time_limits_wait_for_the_person(server: OAuthServer, tmp_path: Path) -> None:
    async def slow(question: Question) -> QuestionAnswer:
        await asyncio.sleep(3.1)  # longer than the start may take
        return await paste(question)

    spec = SidecarSpec("notes", url=server.url)
    timing = replace(FAST, start=3)
    link = SidecarLink(spec, timing=timing, callbacks=LinkCallbacks(ask=slow), auth=sign_in(spec, tmp_path))
    await link.start()
    await link.stop()


async def test_a_client_that_was_registered_by_hand(server: OAuthServer, tmp_path: Path) -> None:
    server.clients["by-hand"] = "the-secret-of-the-client"
    client = OAuthClient("by-hand", "the-secret-of-the-client", issuer=server.address)
    async with linked(server, tmp_path, paste, oauth=client) as (link, _):
        await link.start()
    assert server.registered == 0
    assert "the-secret" not in repr(link.spec)


async def _none(_: Question) -> None:
    return None


async def _decline(_: Question) -> QuestionAnswer:
    return QuestionAnswer("decline")


async def _broken(_: Question) -> QuestionAnswer:
    raise RuntimeError("the view is gone")


async def _other(question: Question) -> QuestionAnswer:
    address = (await visit(question.url)).replace("state=", "state=x")
    return QuestionAnswer("accept", {"address": address})


async def _later(_: Question) -> QuestionAnswer:
    return QuestionAnswer("accept")


async def _denied(question: Question) -> QuestionAnswer:
    return QuestionAnswer("accept", {"address": await visit(f"{question.url}&deny=1")})


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (None, "The sidecar notes requires a person to sign in, and there is none; start it in a notebook with `"),
        (_none, "The sidecar notes requires a person to sign in, and there is none"),
        (_decline, "The sign-in to the sidecar notes was declined; start it again to sign in."),
        (_broken, "The sidecar notes requires a sign-in that cannot be shown: RuntimeError: the view is gone."),
        (_other, "The address that was pasted does not belong to this sign-in to the sidecar notes"),
        (_later, "The sign-in to the sidecar notes took more than 0.3 s; start it again."),
        (_denied, "The server of the sidecar notes refused the sign-in: access_denied She said⟨U+202E⟩ no. Start it"),
    ],
)  # fmt: skip
async def test_without_a_sign_in_there_is_one_sentence(
    server: OAuthServer, tmp_path: Path, ask: Ask | None, sentence: str
) -> None:
    async with linked(server, tmp_path, ask, seconds=0.3 if ask is _later else 20) as (link, events):
        with pytest.raises(SidecarError) as caught:
            await link.start()
        assert str(caught.value).startswith(sentence)
        assert link.status().state == "failed"
        assert events.kinds == ["starting", "failed"]  # the person is not asked again
    assert not server.exchanges


@pytest.mark.slow
async def test_a_person_who_declines_in_a_session_is_not_asked_again(server: OAuthServer, tmp_path: Path) -> None:
    answers = [paste, _decline]
    asked: list[Question] = []

    async def ask(question: Question) -> QuestionAnswer | None:
        asked.append(question)
        return await answers[len(asked) - 1](question)

    async with linked(server, tmp_path, ask) as (link, events):
        await link.start()
        server.forget()
        with pytest.raises(SidecarError, match="was declined"):
            await link.call("whoami", {})
        await events.until("failed")
    assert len(asked) == 2


@pytest.mark.slow
async def test_other_pages_cannot_end_a_sign_in(server: OAuthServer, tmp_path: Path) -> None:
    async def ask(question: Question) -> QuestionAnswer:
        back = await visit(question.url)
        base, _, query = back.partition("?")
        async with httpx2.AsyncClient() as browser:
            for address in (
                f"{base}?code=evil&state=x",
                f"{base}?error=no&state=x",
                base,
                back.replace(base, f"{base}x"),
            ):
                assert (await browser.get(address)).status_code == 404
            assert (await browser.post(back)).status_code == 501
            with suppress(httpx2.TransportError):
                await browser.get(back, headers={"Long": "x" * 100_000})
            assert (await browser.get(f"{base}?{query}")).status_code == 200
        return QuestionAnswer("accept")

    async with linked(server, tmp_path, ask) as (link, _):
        await link.start()


def test_tokens_belong_to_one_address_and_are_not_read_if_others_can(tmp_path: Path) -> None:
    file = TokenFile(tmp_path, "https://one.example/mcp")
    file.update(tokens={"access_token": "x"})
    assert file.read()["tokens"] == {"access_token": "x"}
    assert TokenFile(tmp_path, "https://two.example/mcp").read() == {}
    file.path.rename(TokenFile(tmp_path, "https://two.example/mcp").path)
    assert TokenFile(tmp_path, "https://two.example/mcp").read() == {}
    file.update(tokens={"access_token": "y"})
    file.path.chmod(0o644)
    assert file.read() == {}
    file.update(client={"client_id": "z"})
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert "tokens" not in file.read()
    file.path.write_text("[damaged")
    assert file.read() == {}
    with pytest.raises(SidecarError, match="cannot be stored"):
        TokenFile(file.path, "https://one.example/mcp").update(tokens={})


def test_a_spec_with_a_token_has_no_sign_in(tmp_path: Path) -> None:
    assert sign_in(SidecarSpec("x", command="server"), tmp_path) is None
    assert sign_in(SidecarSpec("x", url="https://a.example/mcp", token="t"), tmp_path) is None
    headers = {"authorization": "Basic x"}
    assert sign_in(SidecarSpec("x", url="https://a.example/mcp", headers=headers), tmp_path) is None
    assert sign_in(SidecarSpec("x", url="https://a.example/mcp"), tmp_path) is not None


def test_files_describe_a_client_that_was_registered_by_hand() -> None:
    def read(**oauth: object) -> SidecarSpec | str:
        entry = {"x": {"url": "https://a.example/mcp", "oauth": oauth}}
        report = read_mcp_servers({"mcpServers": entry}, environment={"SECRET": "s3cr3t-value-1"})
        return report.specs[0] if report.specs else report.problems[0]

    spec = read(clientId="me", clientSecret="${SECRET}", issuer="https://login.example", callbackPort=8_123)
    assert isinstance(spec, SidecarSpec)
    assert spec.oauth == OAuthClient("me", "s3cr3t-value-1", "", 8_123, "https://login.example")
    assert "s3cr3t-value-1" in spec.secrets()
    assert "without the `issuer` that may get it" in str(read(clientId="me", clientSecret="x"))
    assert "an `issuer` that is not an address" in str(read(issuer="login.example"))
    assert "not a number from 0 to 65535" in str(read(callbackPort=70_000))
    assert "a `callbackPort` that is not a number" in str(read(callbackPort="1"))
    assert "a `clientId` that is not a string" in str(read(clientId=1))
    assert "without an address such as" in str(read(clientMetadataUrl="http://a.example/client.json"))
    report = read_mcp_servers({"mcpServers": {"x": {"url": "https://a.example/mcp", "oauth": "yes"}}})
    assert "has an `oauth` that is not an object" in report.problems[0]
    with pytest.raises(ConfigError):
        SidecarSpec("x", url="https://a.example/mcp", oauth=OAuthClient(callback_port=-1))
