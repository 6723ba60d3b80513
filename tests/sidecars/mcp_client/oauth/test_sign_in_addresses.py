"""Addresses that a server names for its sign-in: which get requests, which a person sees, and which get secrets."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from planck_nb.ai.server_address import shown_host
from planck_nb.base.errors import SidecarSignInError
from planck_nb.sidecars.mcp_client.link.questions import Question, QuestionAnswer
from planck_nb.sidecars.mcp_client.oauth.address_kinds import AddressKind, kind_of
from planck_nb.sidecars.mcp_client.oauth.checked_requests import CheckedTransport, SignInNetwork
from planck_nb.sidecars.mcp_client.oauth.oauth import OAuthSignIn
from planck_nb.sidecars.mcp_client.oauth.token_file import TokenFile
from planck_nb.sidecars.mcp_client.sidecar_spec import OAuthClient, SidecarSpec
from planck_nb.sidecars.mcp_client.transports.http_transport import BoundedTransport

SERVER = "https://mcp.example/mcp"
LOGIN = "https://login.example"
PUBLIC = "93.184.216.34"
TOKEN = "the-token-of-a-person"
METADATA = "/.well-known/oauth-authorization-server"


def described(issuer: str = LOGIN, **changes: Any) -> dict[str, Any]:
    """What an authorization server says about itself; None takes a field away."""
    document = {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "registration_endpoint": f"{issuer}/register",
        "code_challenge_methods_supported": ["S256"],
        **changes,
    }
    return {name: value for name, value in document.items() if value is not None}


class Peer:
    """The other end of a connection."""

    def __init__(self, address: str) -> None:
        self._address = address

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        return (self._address, 443) if name == "server_addr" else None


@dataclass
class Internet:
    """A server that requires a sign-in, and whatever hosts it names; nothing leaves the process.

    `addresses` has for each host what successive look-ups find, `peer` is the address from which the server answers,
    and `pages` has answers by URL, in addition to those of an authorization server that works.
    """

    url: str = SERVER
    peer: str = PUBLIC
    challenge: str | None = None
    issuers: Sequence[str] = (LOGIN,)
    metadata: Mapping[str, Any] | None = field(default_factory=described)
    addresses: dict[str, list[list[str]]] = field(default_factory=dict)
    pages: dict[str, httpx2.Response] = field(default_factory=dict)
    requests: list[httpx2.Request] = field(default_factory=list)
    """The sign-in's own requests, as they were sent: with an IP address for a host."""

    lookups: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=lambda: {TOKEN})

    async def resolve(self, host: str, port: int) -> list[str]:
        self.lookups.append(host)
        answers = self.addresses.get(host, [[PUBLIC]])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if not answer:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return answer

    async def serve(self, request: httpx2.Request) -> httpx2.Response:
        """Answer as the MCP server."""
        extensions = {"network_stream": Peer(self.peer)}
        if request.headers.get("authorization", "").removeprefix("Bearer ") in self.tokens:
            return httpx2.Response(200, json={"signed": "in"}, extensions=extensions)
        where = f' resource_metadata="{self.challenge}"' if self.challenge else ""
        return httpx2.Response(401, headers=[(b"www-authenticate", f"Bearer{where}".encode())], extensions=extensions)

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request of the sign-in."""
        self.requests.append(request)
        named = str(request.url.copy_with(host=urlsplit(f"//{request.headers['host']}").hostname))
        if named in self.pages:
            return self.pages[named]
        path = request.url.path
        if path.startswith("/.well-known/oauth-protected-resource"):
            return httpx2.Response(200, json={"resource": self.url, "authorization_servers": list(self.issuers)})
        if path == METADATA:
            return httpx2.Response(404) if self.metadata is None else httpx2.Response(200, json=self.metadata)
        if path == "/register":
            return httpx2.Response(201, json={**json.loads(await request.aread()), "client_id": "me"})
        if path == "/token":
            return httpx2.Response(200, json={"access_token": TOKEN, "token_type": "Bearer", "refresh_token": "again"})
        return httpx2.Response(404)

    @property
    def contacted(self) -> set[str]:
        """The IP addresses and names of hosts that got requests of the sign-in."""
        return {part for request in self.requests for part in (request.url.host, request.headers["host"])}


class Reader:
    """A person who confirms some hosts, and signs in wherever the address leads."""

    def __init__(self, *confirmed: str) -> None:
        self.confirmed = confirmed
        self.questions: list[Question] = []
        self.failure: SidecarSignInError | None = None

    async def ask(self, question: Question) -> QuestionAnswer | None:
        self.questions.append(question)
        if not question.url:
            typed = next((host for host in self.confirmed if host in question.message), "")
            return QuestionAnswer("accept", {"host": f" {typed}\n"}) if typed else QuestionAnswer("decline")
        query = {name: value for name, [value] in parse_qs(urlsplit(question.url).query).items()}
        return QuestionAnswer("accept", {"address": f"{query['redirect_uri']}?code=c&state={query['state']}"})

    def waiting(self) -> AbstractContextManager[None]:
        return nullcontext()

    def failed(self, error: SidecarSignInError) -> None:
        self.failure = error


async def sign_in(
    internet: Internet, folder: Path, person: Reader | None = None, *, oauth: OAuthClient | None = None
) -> httpx2.Response:
    """Send a request to the server, with the sign-in that it requires."""
    spec = SidecarSpec("notes", url=internet.url, oauth=oauth or OAuthClient())
    network = SignInNetwork(internet.resolve, lambda: httpx2.MockTransport(internet.answer))
    auth = OAuthSignIn(spec, person or Reader(), folder, seconds=20, network=network)
    transport = BoundedTransport(httpx2.MockTransport(internet.serve))
    async with httpx2.AsyncClient(auth=auth, transport=transport) as client:
        return await client.post(internet.url, json={}, headers={"mcp-protocol-version": "2025-11-25"})


def at(host: str, *addresses: str) -> dict[str, list[list[str]]]:
    return {host: [list(addresses)]}


def names(*issuers: str) -> dict[str, Any]:
    """A server that names an authorization server which would work."""
    return {"issuers": issuers, "metadata": described(issuers[0])}


INTERNAL = [
    "10.0.0.7",
    "172.16.3.4",
    "172.31.255.254",
    "192.168.1.1",
    "100.64.0.9",
    "198.18.0.4",
    "127.0.0.1",
    "127.8.9.10",
    "::1",
    "fc00::1",
    "fd12:3456::1",
    "fec0::1",
    "::ffff:10.0.0.7",
    "::ffff:127.0.0.1",
    "::127.0.0.1",
    "64:ff9b::10.0.0.7",
    "64:ff9b:1::7f00:1",
    "2002:7f00:1::",
    "2001:db8::1",
]
UNUSABLE = [
    "169.254.169.254",
    "169.254.1.2",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "0.0.0.0",
    "0.1.2.3",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::ffff:169.254.169.254",
    "64:ff9b::169.254.169.254",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "fd20:ce::254",
    "ff02::1",
    "no address",
]

# Each: what the server does, the words that say why not, and what must not be contacted.
BAD: list[tuple[dict[str, Any], str, str]] = [
    *(({"addresses": at("login.example", address)}, "is internal", address) for address in INTERNAL),
    *(({"addresses": at("login.example", address)}, "no sign-in can have", address) for address in UNUSABLE),
    *(
        ({"challenge": challenge}, words, host)
        for challenge, words, host in (
            ("http://login.example/resource", "not encrypted", "login.example"),
            ("http://127.0.0.1:8888/api", "not encrypted", "127.0.0.1"),
            ("https://127.0.0.1:8888/api", "is internal", "127.0.0.1"),
            ("https://[::1]:8888/api", "is internal", "::1"),
            ("https://[::ffff:10.0.0.7]/", "is internal", "::ffff:10.0.0.7"),
            ("https://[::ffff:a9fe:a9fe]/", "no sign-in can have", "::ffff:a9fe:a9fe"),
            ("https://169.254.169.254/latest/meta-data/", "no sign-in can have", "169.254.169.254"),
            ("https://2130706433/", "written in another form", "2130706433"),
            ("https://0x7f000001/", "written in another form", "0x7f000001"),
            ("https://0x7f.1/", "written in another form", "0x7f.1"),
            ("https://127.1/", "written in another form", "127.1"),
            ("https://10.0.0.7./", "written in another form", "10.0.0.7."),
            ("https://login.example.0x/", "written in another form", "login.example.0x"),
            ("https://0177.0.0.1/", "which failed", "0177.0.0.1"),
            ("https://127。0。0。1/", "is internal", "127.0.0.1"),
            ("https://user:word@login.example/", "user name", "login.example"),
            ("https://login.example@evil.example/", "user name", "evil.example"),
            ("https://login.example\\\\@evil.example/", "user name", "evil.example"),
            ("ftp://login.example/", "not one of https", "login.example"),
            ("file:///etc/passwd", "not one of https", ""),
            ("/resource", "not one of https", ""),
            ("https:///resource", "not one of https", ""),
            ("https://[fe80::1%25eth0]/", "no sign-in can have", "fe80::1"),
            ("https://[", "characters", "%5B"),
            ("https://%31%32%37.0.0.1/", "written in another form", "%31%32%37.0.0.1"),
            ("https://[::1", "which failed", "::1"),
        )
    ),
    *(
        ({"issuers": [issuer], "addresses": at("intra.example", "10.1.1.1")}, words, host)
        for issuer, words, host in (
            ("http://login.example", "not encrypted", "login.example"),
            ("https://192.168.0.1", "is internal", "192.168.0.1"),
            ("https://3232235521", "is internal", "192.168.0.1"),
            ("https://0300.0250.0.1", "is internal", "192.168.0.1"),
            ("https://0xA9FEA9FE", "no sign-in can have", "169.254.169.254"),
            ("https://intra.example", "is internal", "10.1.1.1"),
            ("https://me@login.example", "user name", "login.example"),
        )
    ),
    *(
        ({"metadata": described(**changes), "addresses": at("intra.example", "10.1.1.1")}, words, host)
        for changes, words, host in (
            ({"registration_endpoint": "http://login.example/register"}, "not encrypted", "/register"),
            ({"registration_endpoint": "https://intra.example/register"}, "is internal", "10.1.1.1"),
            ({"registration_endpoint": None}, "cannot register", "/register"),
            ({"authorization_endpoint": "http://login.example/authorize"}, "not encrypted", "/token"),
            ({"authorization_endpoint": "https://intra.example/authorize"}, "is internal", "/token"),
            ({"authorization_endpoint": "https://a:b@login.example/authorize"}, "user name", "/token"),
            ({"token_endpoint": "http://login.example/token"}, "not encrypted", "/token"),
            ({"token_endpoint": "https://intra.example/token"}, "is internal", "10.1.1.1"),
            ({"token_endpoint": "https://a:b@login.example/token"}, "user name", "/token"),
            ({"code_challenge_methods_supported": None}, "without PKCE", "/register"),
            ({"code_challenge_methods_supported": []}, "without PKCE", "/register"),
            ({"code_challenge_methods_supported": ["plain"]}, "without PKCE", "/register"),
            ({"code_challenge_methods_supported": ["s256"]}, "without PKCE", "/register"),
            ({"issuer": "https://other.example"}, "mismatch", "/register"),
        )
    ),
    ({"metadata": None}, "does not describe", "/register"),
    ({"metadata": None, "issuers": ()}, "does not describe", "/register"),
    ({"url": "http://127.0.0.1:1/mcp", "peer": "127.0.0.1", **names("http://10.0.0.7")}, "not encrypted", "10.0.0.7"),
    ({"url": "http://127.0.0.1:1/mcp", "peer": "::1", **names("http://login.example")}, "not encrypted", PUBLIC),
    ({"url": "http://mcp.example/mcp"}, "its own address is not encrypted", "login.example"),
    ({"url": "http://mcp.example/mcp", "peer": "10.0.0.9"}, "its own address is not encrypted", "login.example"),
    ({"addresses": at("login.example", PUBLIC, "10.0.0.7")}, "is internal", "10.0.0.7"),
    ({"addresses": at("login.example", "10.0.0.7", PUBLIC)}, "is internal", "login.example"),
    ({"addresses": at("login.example")}, "is unknown", "login.example"),
    ({"peer": "10.0.0.9", "addresses": at("login.example", "127.0.0.1")}, "is internal", "127.0.0.1"),
    ({"peer": "169.254.7.7", "addresses": at("login.example", "10.0.0.7")}, "is internal", "10.0.0.7"),
    ({"peer": "", "addresses": at("login.example", "10.0.0.7")}, "is internal", "10.0.0.7"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "words", "untouched"), BAD)
async def test_a_bad_address_gets_no_request_and_is_one_sentence(
    changes: dict[str, Any], words: str, untouched: str, tmp_path: Path
) -> None:
    internet, person = Internet(**deepcopy(changes)), Reader()
    with pytest.raises(SidecarSignInError) as caught:
        await sign_in(internet, tmp_path, person)
    sentence = str(caught.value)
    assert words in sentence
    assert re.fullmatch(r"The sidecar notes (?:(?!\. ).)+\.( Start it again\.)?", sentence)
    assert person.failure is caught.value
    assert not untouched or untouched not in internet.contacted
    assert all(request.url.path != untouched for request in internet.requests)


GOOD: list[tuple[dict[str, Any], Sequence[str], dict[str, Any]]] = [
    ({}, (), {}),
    ({"challenge": "https://mcp.example/.well-known/oauth-protected-resource/mcp"}, (), {}),
    ({"url": "https://login.example/mcp", **names("https://login.example")}, (), {}),
    ({"url": "https://login.example:8443/mcp", **names("https://login.example:8443")}, (), {}),
    ({"addresses": at("login.example", "64:ff9b::5db8:d822")}, (), {}),  # a network with IPv6 alone
    ({"addresses": at("login.example", "2606:4700::6810:84e5", PUBLIC)}, (), {}),
    ({"metadata": described(LOGIN, code_challenge_methods_supported=["plain", "S256"])}, (), {}),
    ({"metadata": described(LOGIN, token_endpoint="https://tokens.example/token")}, (), {}),
    ({"metadata": described(LOGIN, code_challenge_methods_supported=None)}, (), {"issuer": LOGIN}),  # as Entra
    ({"metadata": described(LOGIN, code_challenge_methods_supported=None)}, (), {"issuer": f"{LOGIN}/"}),
    ({"metadata": described(LOGIN, registration_endpoint=None)}, (), {"client_id": "me"}),
    ({"issuers": (), "metadata": None}, (), {"issuer": "https://mcp.example"}),  # of the protocol's first version
    # An internal server may name internal hosts, also where its name has another address elsewhere (split DNS).
    ({"peer": "10.0.0.9", "addresses": at("login.example", "10.0.0.7")}, (), {}),
    ({"peer": "fd12::9", "addresses": at("login.example", "10.0.0.7")}, (), {}),
    ({"peer": "198.18.0.4", "addresses": at("login.example", "198.18.0.5")}, (), {}),
    ({"peer": "127.0.0.1", "addresses": at("login.example", "::1", "127.0.0.1")}, (), {}),
    ({"url": "http://127.0.0.1:8000/mcp", "peer": "127.0.0.1", **names("http://127.0.0.1:9000")}, (), {}),
    ({"url": "http://localhost:8000/mcp", "peer": "127.0.0.1", "addresses": at("localhost", "::1", "127.0.0.1"),
      **names("http://localhost:8000")}, (), {}),
    ({"url": "http://127.0.0.1:8000/mcp", "peer": "127.0.0.1"}, (), {}),
    # A person may confirm an internal host by its name.
    ({"addresses": at("login.example", "10.0.0.7")}, ("login.example",), {}),
    ({**names("https://10.0.0.7")}, ("10.0.0.7",), {}),
    ({"addresses": at("login.example", "127.0.0.1")}, ("login.example",), {}),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "confirmed", "oauth"), GOOD)
async def test_a_good_address_works(
    changes: dict[str, Any], confirmed: Sequence[str], oauth: dict[str, Any], tmp_path: Path
) -> None:
    internet, person = Internet(**deepcopy(changes)), Reader(*confirmed)
    response = await sign_in(internet, tmp_path, person, oauth=OAuthClient(**oauth))
    assert response.json() == {"signed": "in"}
    assert len(person.questions) == 1 + len(confirmed)
    assert person.failure is None


async def test_each_request_goes_to_the_address_that_was_checked(tmp_path: Path) -> None:
    internet = Internet(addresses={"login.example": [[PUBLIC], ["127.0.0.1"]]})
    with pytest.raises(SidecarSignInError, match=r"127\.0\.0\.1 is internal"):
        await sign_in(internet, tmp_path)
    (request,) = [request for request in internet.requests if request.headers["host"] == "login.example"]
    assert (request.url.host, request.extensions["sni_hostname"]) == (PUBLIC, "login.example")
    assert internet.lookups.count("login.example") == 2


async def test_an_address_that_does_not_answer_is_followed_by_the_next_one() -> None:
    seen: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        return ["2606:4700::1", "2606:4700::2", PUBLIC]

    async def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.host)
        if request.url.host != PUBLIC:
            raise httpx2.ConnectError("no route")
        return httpx2.Response(200, text="here")

    transport = checked(SignInNetwork(resolve, lambda: httpx2.MockTransport(answer)))
    async with httpx2.AsyncClient(transport=transport) as client:
        assert (await client.send(httpx2.Request("GET", LOGIN))).text == "here"
    assert seen == ["2606:4700::1", "2606:4700::2", PUBLIC]


def checked(network: SignInNetwork, kind: AddressKind = AddressKind.PUBLIC) -> CheckedTransport:
    """A transport of a sidecar without a person."""

    async def confirm(host: str, address: str) -> bool:
        return False

    transport = CheckedTransport("notes", network, confirm)
    transport.server_kind = kind
    return transport


async def test_the_certificate_has_to_be_that_of_the_name_and_no_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    hello: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    proxied: list[bytes] = []

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello.set_result(await reader.read(4_096))
        writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proxied.append(await reader.read(4_096))
        writer.close()

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with (
        await asyncio.start_server(greet, "127.0.0.1", 0) as server,
        await asyncio.start_server(forward, "127.0.0.1", 0) as proxy,
    ):
        for variable in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        url = f"https://login.example:{server.sockets[0].getsockname()[1]}/"
        transport = checked(SignInNetwork(resolve), AddressKind.LOOPBACK)
        async with httpx2.AsyncClient(transport=transport) as client:
            with pytest.raises(httpx2.RequestError):  # the server speaks no TLS
                await client.send(httpx2.Request("GET", url))
    assert b"login.example" in hello.result()
    assert proxied == []


REDIRECTS = [
    ("https://169.254.169.254/latest", 0),
    ("https://10.0.0.7/token", 0),
    ("http://login.example/token2", 0),
    ("https://evil.example/token", 0),
    ("//evil.example/token", 0),
    ("https://a:b@login.example/token2", 0),
    ("/token2", 1),  # where it is, which is allowed
]


@pytest.mark.parametrize(("location", "count"), REDIRECTS)
async def test_a_redirect_leads_nowhere_else(location: str, count: int, tmp_path: Path) -> None:
    internet = Internet(pages={f"{LOGIN}/token": httpx2.Response(307, headers={"location": location})})
    with pytest.raises(SidecarSignInError, match="which failed"):
        await sign_in(internet, tmp_path)
    assert internet.contacted <= {PUBLIC, "login.example", "mcp.example"}
    assert [request.url.path for request in internet.requests].count("/token2") == count


async def test_a_compressed_answer_is_not_read(tmp_path: Path) -> None:
    page = httpx2.Response(200, headers={"content-encoding": "gzip"}, content=gzip.compress(b"{" * 2_000_000))
    with pytest.raises(SidecarSignInError, match="compressed answer"):
        await sign_in(Internet(pages={f"{LOGIN}{METADATA}": page}), tmp_path)


async def test_an_endless_answer_is_not_read(tmp_path: Path) -> None:
    page = httpx2.Response(200, content=b"{" * 2_000_000)
    with pytest.raises(SidecarSignInError, match=r"more than 1,000,000 bytes"):
        await sign_in(Internet(pages={f"{LOGIN}{METADATA}": page}), tmp_path)


async def test_a_confirmed_host_is_remembered_for_that_server_only(tmp_path: Path) -> None:
    def internet(**changes: Any) -> Internet:
        return Internet(addresses={"login.example": [["10.0.0.7"]]}, **changes)

    await sign_in(internet(), tmp_path, Reader("login.example"))
    again, person = internet(tokens={"renewed"}), Reader()
    assert (await sign_in(again, tmp_path, person)).status_code == 401
    assert [bool(question.url) for question in person.questions] == [True]
    other = internet(url="https://other.example/mcp")
    with pytest.raises(SidecarSignInError, match="nobody has confirmed"):
        await sign_in(other, tmp_path)


@pytest.mark.parametrize("typed", ["", "evil.example", "10.0.0.7", "yes"])
async def test_a_host_is_confirmed_by_its_name(typed: str, tmp_path: Path) -> None:
    class Typist(Reader):
        async def ask(self, question: Question) -> QuestionAnswer | None:
            return QuestionAnswer("accept", {"host": typed}) if typed else None

    with pytest.raises(SidecarSignInError, match="nobody has confirmed"):
        await sign_in(Internet(addresses=at("login.example", "10.0.0.7")), tmp_path, Typist())


SECRET = "the-secret-of-the-client"
BY_HAND = OAuthClient("me", SECRET, issuer=LOGIN)


def secret_hosts(requests: Iterable[httpx2.Request]) -> set[str]:
    """The hosts that got the client's secret."""
    basic = base64.b64encode(f"me:{SECRET}".encode()).decode()
    return {
        request.headers["host"]
        for request in requests
        if basic in request.headers.get("authorization", "") or SECRET.encode() in request.content
    }


async def test_a_secret_goes_to_its_issuer(tmp_path: Path) -> None:
    internet = Internet()
    await sign_in(internet, tmp_path, oauth=BY_HAND)
    assert secret_hosts(internet.requests) == {"login.example"}
    assert all(request.url.path != "/register" for request in internet.requests)


@pytest.mark.parametrize(
    "changes",
    [
        names("https://evil.example"),
        {"metadata": None},
        {"metadata": None, "issuers": ["https://evil.example"]},
        {"metadata": described("https://evil.example")},
        {"metadata": described(LOGIN), "issuers": ["https://evil.example"]},
        names(f"{LOGIN}.evil.example"),
        names(f"{LOGIN}/tenant"),
        names("https://login.example:8443"),
    ],
)
async def test_a_secret_goes_nowhere_else(changes: dict[str, Any], tmp_path: Path) -> None:
    internet = Internet(**changes)
    with pytest.raises(SidecarSignInError):
        await sign_in(internet, tmp_path, oauth=BY_HAND)
    assert secret_hosts(internet.requests) == set()


async def test_a_secret_is_not_renewed_at_another_issuer(tmp_path: Path) -> None:
    await sign_in(Internet(**names("https://evil.example")), tmp_path)
    internet = Internet(tokens={"renewed"}, **names("https://evil.example"))
    with pytest.raises(SidecarSignInError):
        await sign_in(internet, tmp_path, oauth=BY_HAND)
    assert secret_hosts(internet.requests) == set()


async def test_a_network_that_is_away_forgets_no_tokens(tmp_path: Path) -> None:
    await sign_in(Internet(), tmp_path)
    TokenFile(tmp_path, SERVER).update(expires=1)
    away, person = Internet(addresses=at("login.example")), Reader()
    with pytest.raises(httpx2.ConnectError):
        await sign_in(away, tmp_path, person)
    assert person.failure is None
    internet = Internet()
    await sign_in(internet, tmp_path, person)
    assert [request.url.path for request in internet.requests] == ["/token"]
    assert person.questions == []


@pytest.mark.parametrize(
    ("issuer", "host"),
    [
        ("https://login.example", "at login.example."),
        ("https://xn--pple-43d.com", "at xn--pple-43d.com (⟨U+0430⟩pple.com)."),
        ("https://login.example:8443", "at login.example."),
    ],
)
async def test_a_person_sees_the_host(issuer: str, host: str, tmp_path: Path) -> None:
    person = Reader()
    await sign_in(Internet(**names(issuer)), tmp_path, person)
    assert person.questions[0].message.endswith(host)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://accounts.google.com:443@evil.example/", "evil.example"),
        ("https://EVIL.example:8443/", "evil.example"),
        ("https://\u0430pple.com/", "xn--pple-43d.com (⟨U+0430⟩pple.com)"),
        ("https://bücher.example/", "xn--bcher-kva.example (bücher.example)"),
        ("https://xn--80ak6aa92e.com/", "xn--80ak6aa92e.com (⟨U+0430⟩⟨U+0440⟩⟨U+0440⟩⟨U+04CF⟩⟨U+0435⟩.com)"),
        ("https://xn--a/", "xn--a (⟨U+0080⟩)"),
        ("https://a\u202eb.example/", "a⟨U+202E⟩b.example"),
        ("https://[::1]:80/", "::1"),
        ("https://[", ""),
        ("/nowhere", ""),
    ],
)
def test_hosts_are_shown_by_name(url: str, shown: str) -> None:
    assert shown_host(url) == shown


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "93.184.216.34", "172.32.0.1", "2606:4700::1", "::ffff:8.8.8.8", "2002:808:808::"]
)
def test_public_addresses(address: str) -> None:
    assert kind_of(address) is AddressKind.PUBLIC
