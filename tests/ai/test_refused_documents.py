"""Sentences with which servers refuse a document: each is one sentence of ours, and the request is not repeated."""

from __future__ import annotations

import json

import pytest
from support.wire import CHAT

from planck_nb.ai.dialects.google_common import http_failure
from planck_nb.ai.retries.retry import is_passing
from planck_nb.ai.status_errors import body_error, is_about_documents, is_about_images
from planck_nb.base.errors import (
    BadRequestError,
    ContextOverflowError,
    NotFoundError,
    ProviderStatusError,
    ProviderUnavailableError,
)

REFUSALS = {
    "Anthropic": (400, "Could not process PDF"),
    "Anthropic, not a PDF": (400, "messages.0.content.1.pdf.source.base64.data: The PDF specified was not valid."),
    "Anthropic, a password": (400, "messages.0.content.1.pdf.source: The PDF specified is password protected."),
    "Anthropic, pages": (400, "A maximum of 100 PDF pages may be provided."),
    "Anthropic, an address": (400, "Unable to download the file. Please verify the URL and try again."),
    "OpenAI": (400, "Invalid file data: 'messages[1].content[0].file.file_data'. Expected a base64-encoded data URL."),
    "OpenAI, another kind": (400, "Expected context stuffing file type to be a supported format: .pdf but got .docx."),
    "OpenAI, a model without": (400, "Invalid value: 'file'. Supported values are: 'text' and 'image_url'."),
    "OpenAI, unreadable": (400, "The file could not be processed. Check that it is a PDF and not encrypted."),
    "Google": (400, "The document has no pages."),
    "Google, its type": (400, "Unsupported MIME type: application/vnd.ms-excel"),
    "Google, its size": (400, "The request's total referenced files bytes are too large to be read"),
    "Google, its pages": (400, "The document contains 1200 pages, which exceeds the supported page limit of 1000."),
    "OpenRouter": (400, "Failed to parse document.pdf: invalid PDF structure"),
    "OpenRouter, its name": (400, "Failed to parse report-2024.pdf"),
    "OpenRouter, a model without": (404, "No endpoints found that support file input"),
    "Bedrock": (400, "The model returned the following errors: The document source bytes could not be parsed as pdf."),
    "Bedrock, damaged": (400, "ValidationException: The PDF document is corrupted or encrypted."),
    "Mistral": (400, "Document is not a valid PDF."),
    "llama.cpp": (500, "unsupported content[].type"),
    "vLLM": (400, "Unknown part type: file"),
    "DeepSeek": (422, "Failed to deserialize: messages[0]: unknown variant `file`, expected `text`"),
    "any": (400, "invalid document"),
    "any, its kind": (415, "unsupported file"),
}
OTHERS = {
    "an image": (400, "Could not process image"),
    "images": (404, "No endpoints found that support image input"),
    "a parameter": (400, "Unsupported parameter: 'temperature' is not supported with this model."),
    "a format": (400, "response_format is not supported by this model"),
    "the server": (500, "Internal server error"),
    "a tool": (400, "Invalid value for 'tools[0].function.name': read_file is reserved"),
    "a schema": (400, "Invalid schema for function 'open_file': 'path' is not of type 'object'."),
    "a rate": (429, "Too many PDF pages per minute"),
    "the window": (400, "prompt is too long: the document.source has 250000 tokens > 200000 maximum"),
}


@pytest.mark.parametrize("failure", [body_error, http_failure])
@pytest.mark.parametrize("server", REFUSALS)
def test_a_refused_document_is_one_sentence_and_is_not_retried(server: str, failure: object) -> None:
    status, words = REFUSALS[server]
    assert callable(failure)
    error = failure(CHAT, status, {"x-should-retry": "true"}, json.dumps({"error": {"message": words}}).encode())
    assert isinstance(error, ProviderStatusError)
    assert isinstance(error, {500: ProviderUnavailableError, 404: NotFoundError}.get(status, BadRequestError))
    assert not isinstance(error, ContextOverflowError)
    assert is_about_documents(error)
    assert not is_about_images(error)
    assert not is_passing(error)
    assert "openai could not read a document of the request for some-model" in str(error)
    assert str(error).endswith("check the file, send its text or choose another model.")


@pytest.mark.parametrize("name", OTHERS)
def test_a_refusal_of_something_else_is_not_about_documents(name: str) -> None:
    status, words = OTHERS[name]
    assert not is_about_documents(body_error(CHAT, status, {}, json.dumps({"error": {"message": words}}).encode()))


def test_the_name_of_the_error_says_it_too() -> None:
    body = {"error": {"message": "Bad input.", "code": "unsupported_file"}}
    assert is_about_documents(body_error(CHAT, 400, {}, json.dumps(body).encode()))
