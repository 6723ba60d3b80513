"""Signatures for Amazon Bedrock, made with botocore."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from planck_nb.base.errors import ModelError

if TYPE_CHECKING:
    from planck_nb.ai.auth import OutgoingRequest

_HOST = re.compile(
    r"(?:^|\.)(?P<endpoint>bedrock-runtime|bedrock-mantle)(?:-fips)?\.(?P<region>[a-z]{2,}(?:-[a-z0-9]+)+)\."
)
_SERVICES = {"bedrock-runtime": "bedrock", "bedrock-mantle": "bedrock-mantle"}
"""The service in a signature: https://github.com/openai/openai-node/blob/HEAD/docs/bedrock.md"""

_SIGNED = ("host", "content-type")
_ADDED = ("Authorization", "X-Amz-Date", "X-Amz-Security-Token")

_lock = threading.Lock()
_sessions: list[tuple[Mapping[str, str], Any]] = []
"""AWS's variables, and botocore's session, which renews credentials before they expire."""


def sign_for_bedrock(request: OutgoingRequest) -> Mapping[str, str]:
    """Sign a request with this machine's AWS credentials.

    They come from where AWS's own tools find them: variables such as `AWS_ACCESS_KEY_ID`, the profile in `AWS_PROFILE`,
    a sign-in with `aws sso login`, or the machine's role. The address names region and service.

    Args:
        request: The request as it is sent.

    Returns:
        The headers to add.

    Raises:
        ModelError: botocore or credentials are missing, or the address is not Bedrock's.

    Example:
        >>> from planck_nb import ai
        >>> address = "https://bedrock-mantle.eu-central-1.api.aws/openai/v1"
        >>> print(ai.get_model("bedrock", "openai.gpt-oss-120b", base_url=address))
        bedrock:openai.gpt-oss-120b
    """
    host = urlsplit(request.url).hostname or ""
    place = _HOST.search(host)
    if place is None:
        raise ModelError(
            f"{host} is not an address of Bedrock, so its region is not known; write base_url as in "
            "https://bedrock-mantle.us-east-1.api.aws/openai/v1."
        )
    try:
        from botocore.auth import SigV4Auth  # noqa: PLC0415 - an extra, which loads much
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415
    except ImportError:
        raise ModelError(
            "Requests to Bedrock are signed with botocore, which is not installed; run `pip install "
            "'planck-nb[bedrock]'`, or set AWS_BEARER_TOKEN_BEDROCK."
        ) from None
    headers = {name: value for name, value in request.headers.items() if name in _SIGNED}
    draft = AWSRequest(request.method, request.url, data=request.body, headers=headers)
    SigV4Auth(_credentials(anew=request.rejected), _SERVICES[place["endpoint"]], place["region"]).add_auth(draft)
    return {name: draft.headers[name] for name in _ADDED if name in draft.headers}


def _credentials(*, anew: bool) -> Any:  # noqa: ANN401 - botocore has no types
    """The current credentials, read `anew` if the server refused them. Raises `ModelError`."""
    import botocore.session  # noqa: PLC0415 - as above
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415

    variables = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    with _lock:
        if anew or not _sessions or _sessions[0][0] != variables:  # a cell may have named another profile
            _sessions[:] = [(variables, botocore.session.Session())]
        try:
            credentials = _sessions[0][1].get_credentials()
            snapshot = None if credentials is None else credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise ModelError(f"The AWS credentials cannot be used ({error}); sign in again, or correct them.") from None
    if snapshot is None:
        raise ModelError(
            "There are no AWS credentials; sign in with `aws sso login`, set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY where Jupyter starts, or set AWS_BEARER_TOKEN_BEDROCK."
        )
    return snapshot
