"""The client scenarios of the MCP conformance suite, through the link.

The suite starts a program for each scenario. That program only hands the address over to the test, which connects the
link; so all scenarios are run by one process. A browser is played by a client that follows the redirects.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from support.conformance import run_suite, suite
from support.sidecar_links import FAST, SERVERS

from planck_nb.base.errors import PlanckError
from planck_nb.sidecars.mcp_client.link.authorization import Authorize
from planck_nb.sidecars.mcp_client.link.link import SidecarLink
from planck_nb.sidecars.mcp_client.link.questions import Question, QuestionAnswer
from planck_nb.sidecars.mcp_client.link.settings import LinkCallbacks
from planck_nb.sidecars.mcp_client.oauth.sign_in import sign_in
from planck_nb.sidecars.mcp_client.sidecar_spec import OAuthClient, SidecarSpec

pytestmark = pytest.mark.process

EXPECTED_FAILURES = {
    "auth/2025-03-26-oauth-metadata-backcompat": "The SDK refuses metadata of another issuer (RFC 8414 §3.3).",
    "auth/cross-app-access-complete-flow": "The SDK does not exchange the token of an identity provider (SEP-990).",
}

PASSED = {
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/basic-cimd",
    "auth/client-credentials-basic",
    "auth/client-credentials-jwt",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/offline-access-not-supported",
    "auth/offline-access-scope",
    "auth/pre-registration",
    "auth/resource-mismatch",
    "auth/scope-from-scopes-supported",
    "auth/scope-from-www-authenticate",
    "auth/scope-omitted-when-undefined",
    "auth/scope-retry-limit",
    "auth/scope-step-up",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-none",
    "auth/token-endpoint-auth-post",
    "elicitation-sep1034-client-defaults",
    "initialize",
    "sse-retry",
    "tools_call",
}

AT_ONCE = 4
"""Scenarios that are played at the same time; the suite starts all at once."""

DOCUMENT = "https://conformance-test.local/client-metadata.json"


async def browse(question: Question) -> QuestionAnswer:
    """Play the person: answer with the defaults, or visit the address in a browser that comes back to the kernel."""
    if question.url:
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            assert (await browser.get(question.url)).status_code == 200
    return QuestionAnswer("accept")


class Forgetful:
    """Keeps nothing."""

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        pass

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        pass


async def named_issuer(url: str) -> str:
    """The authorization server of a server, as a person would write it into an entry."""
    async with httpx2.AsyncClient() as client:
        found = await client.get(str(httpx2.URL(url).copy_with(path="/.well-known/oauth-protected-resource/mcp")))
    return str(found.json()["authorization_servers"][0])


async def authorize(
    scenario: str, url: str, context: dict[str, Any], folder: Path
) -> tuple[SidecarSpec, Authorize | None]:
    """The spec of a scenario, and what signs in: for programs without a person, it is the SDK's."""
    auth: httpx2.Auth
    if scenario == "auth/client-credentials-basic":
        auth = ClientCredentialsOAuthProvider(url, Forgetful(), context["client_id"], context["client_secret"])
        return SidecarSpec("tested", url=url), lambda _: auth
    if scenario == "auth/client-credentials-jwt":
        signer = SignedJWTParameters(
            issuer=context["client_id"],
            subject=context["client_id"],
            signing_key=context["private_key_pem"],
            signing_algorithm=context["signing_algorithm"],
        )
        auth = PrivateKeyJWTOAuthProvider(url, Forgetful(), context["client_id"], signer.create_assertion_provider())
        return SidecarSpec("tested", url=url), lambda _: auth
    issuer = url.removesuffix("/mcp") if scenario == "auth/2025-03-26-oauth-endpoint-fallback" else ""
    if "client_secret" in context:
        issuer = await named_issuer(url)
    client = OAuthClient(context.get("client_id", ""), context.get("client_secret", ""), DOCUMENT, issuer=issuer)
    spec = SidecarSpec("tested", url=url, oauth=client)
    return spec, sign_in(spec, folder / scenario.replace("/", "-"), seconds=20)


async def play(scenario: str, url: str, context: dict[str, Any], folder: Path) -> str:
    """Do what a scenario wants of a client."""
    spec, auth = await authorize(scenario, url, context, folder)
    link = SidecarLink(spec, timing=FAST, callbacks=LinkCallbacks(ask=browse), auth=auth)
    try:
        await link.start()
        for tool in link.definitions():
            arguments = {"a": 5, "b": 3} if tool.name == "add_numbers" else {}
            await link.call(tool.name, arguments)
    except PlanckError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        await link.stop()
    return "done"


@pytest.mark.timeout(180)
@pytest.mark.filterwarnings("ignore:Omitting `issuer`")
async def test_client_scenarios(tmp_path: Path) -> None:
    suite()
    answers: dict[str, str] = {}
    others, places = asyncio.Event(), asyncio.Semaphore(AT_ONCE)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = json.loads(await reader.readline())
        scenario = request["scenario"]
        if scenario == "sse-retry":
            await others.wait()  # it measures times
        async with places:
            answers[scenario] = answer = await play(scenario, request["url"], request["context"], tmp_path)
        if len(answers) == len(PASSED | EXPECTED_FAILURES.keys()) - 1:
            others.set()
        writer.write(answer.encode() + b"\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    command = [sys.executable, "-I", "-S", str(SERVERS / "conformance_client.py"), str(port)]
    (tmp_path / "client.sh").write_text(f'exec {shlex.join(command)} "$1"\n')
    try:
        outcome = await run_suite(
            tmp_path, "client", "--command", "sh client.sh", "--suite", "all", "--timeout", "90000", "-o", str(tmp_path)
        )
    finally:
        server.close()
    told = outcome.output + "\n" + "\n".join(f"{name}: {answer}" for name, answer in answers.items())
    assert outcome.failed == set(EXPECTED_FAILURES), told
    assert outcome.passed == PASSED, told
    assert "Protected resource https://evil.example.com/mcp does not match" in answers["auth/resource-mismatch"]
