"""Requests to Amazon Bedrock are signed, each attempt anew, as AWS's description of Signature Version 4 has it.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import hashlib
import hmac
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.wire import ASK, CHAT_HELLO

from planck_nb import ai
from planck_nb.ai.aws_signature import sign_for_bedrock
from planck_nb.errors import AuthenticationError, ConfigError, ModelError

SECRET, TOKEN = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session/token/of/example=="
MANTLE = "https://bedrock-mantle.eu-central-1.api.aws/openai/v1"
RUNTIME = "https://bedrock-runtime.us-east-1.amazonaws.com"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials in variables, and no others."""
    for name in ("AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK", "AWS_SECURITY_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signature_of(request: httpx.Request) -> tuple[str, str]:
    """The signature that AWS computes for a request, and its scope."""
    fields = dict(part.split("=", 1) for part in request.headers["authorization"].split(" ", 1)[1].split(", "))
    _, date, region, service, _ = fields["Credential"].split("/")
    names = fields["SignedHeaders"].split(";")
    headers = "".join(f"{name}:{request.headers[name]}\n" for name in names)
    body = hashlib.sha256(request.content).hexdigest()
    canonical = "\n".join((request.method, request.url.path, "", headers, ";".join(names), body))
    scope = f"{date}/{region}/{service}/aws4_request"
    moment = request.headers["x-amz-date"]
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = b"AWS4" + SECRET.encode()
    for step in (date, region, service, "aws4_request"):
        key = _hmac(key, step)
    return hmac.new(key, f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}".encode(), hashlib.sha256).hexdigest(), scope


def bedrock(answers: list[httpx.Response], seen: list[httpx.Request]) -> ai.Client:
    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answers.pop(0)

    return ai.Client(
        credentials={}, transport=httpx.MockTransport(handle), retries=ai.RetryPolicy(retries=1, base=0.001)
    )


def hello() -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(CHAT_HELLO))


@pytest.mark.parametrize(
    ("address", "path", "scope"),
    [
        (MANTLE, "/openai/v1/chat/completions", "eu-central-1/bedrock-mantle"),
        (RUNTIME, "/openai/v1/chat/completions", "us-east-1/bedrock"),
        (
            "https://vpce-0a1.bedrock-runtime.eu-west-1.vpce.amazonaws.com/openai/v1",
            None,
            "eu-west-1/bedrock",
        ),
    ],
)
async def test_a_request_is_signed_for_its_region(address: str, path: str | None, scope: str) -> None:
    seen: list[httpx.Request] = []
    model = ai.get_model("bedrock", "openai.gpt-oss-120b-1:0", base_url=address)
    assert (await bedrock([hello()], seen).complete(model, ASK)).text == "Hello"
    (request,) = seen
    computed, signed_scope = signature_of(request)
    assert request.headers["authorization"].endswith(f"Signature={computed}")
    assert signed_scope.split("/", 1)[1] == f"{scope}/aws4_request"
    assert request.headers["x-amz-security-token"] == TOKEN
    assert path is None or request.url.path == path


async def test_each_attempt_is_signed_and_renewed_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[httpx.Request] = []
    # https://github.com/anthropics/claude-code/issues/28032
    words = {"message": "The security token included in the request is expired"}
    client = bedrock([httpx.Response(503, json={"message": "busy"}), httpx.Response(403, json=words), hello()], seen)
    signed = []

    def renewing(request: ai.OutgoingRequest) -> Any:
        signed.append(request.rejected)
        monkeypatch.setenv("AWS_SESSION_TOKEN", f"token-number-{len(signed)}")
        return sign_for_bedrock(request)

    assert (await client.complete(ai.get_model("bedrock", "any", base_url=MANTLE, auth=renewing), ASK)).text
    assert signed == [False, False, True]
    tokens = [request.headers["x-amz-security-token"] for request in seen]
    assert tokens == ["token-number-1", "token-number-2", "token-number-3"]
    assert all(request.headers["authorization"].endswith(signature_of(request)[0]) for request in seen)


async def test_a_key_of_bedrock_needs_no_signature() -> None:
    seen: list[httpx.Request] = []
    client = bedrock([hello()], seen)
    client._credentials = {"AWS_BEARER_TOKEN_BEDROCK": "bedrock-api-key-1"}
    await client.complete(ai.get_model("bedrock", "any", base_url=MANTLE), ASK)
    assert seen[0].headers["authorization"] == "Bearer bedrock-api-key-1"
    assert "x-amz-date" not in seen[0].headers


async def test_what_is_missing_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ai.get_model("bedrock", "any", base_url=MANTLE)
    with pytest.raises(ConfigError, match="bedrock has no address of its own; give base_url"):
        await bedrock([], []).complete(ai.get_model("bedrock:any"), ASK)
    with pytest.raises(ModelError, match=r"llm\.example is not an address of Bedrock"):
        await bedrock([], []).complete(ai.get_model("bedrock", "any", base_url="https://llm.example/v1"), ASK)
    monkeypatch.setitem(sys.modules, "botocore.auth", None)
    with pytest.raises(ModelError, match=r"pip install 'planck-nb\[bedrock\]'"):
        await bedrock([], []).complete(model, ASK)
    monkeypatch.undo()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/none")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/none")
    with pytest.raises(ModelError, match="There are no AWS credentials"):
        await bedrock([], []).complete(model, ASK)


async def test_no_credential_is_in_the_sentence_about_a_refusal() -> None:
    refusal = httpx.Response(403, json={"message": f"The signature of {SECRET} and {TOKEN} does not match"})
    with pytest.raises(AuthenticationError) as caught:
        await bedrock([refusal], []).complete(ai.get_model("bedrock", "any", base_url=MANTLE), ASK)
    assert SECRET not in str(caught.value)
    assert TOKEN not in str(caught.value)
