"""Recognising refusals of size in the words of many hosts."""

import pytest

from providers.remote.replies import size_refusal


@pytest.mark.parametrize(
    ("status", "words", "reason", "limit"),
    [
        (413, "input batch size 136 > maximum allowed batch size 64", "items", 64),
        (
            400,
            "Value error, batch size is invalid, it should not be larger than 10.: input.contents",
            "items",
            10,
        ),
        (
            400,
            "* BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch",
            "items",
            100,
        ),
        (400, "The batch size limit is 1000. Your batch size is 1200.", "items", 1000),
        (
            429,
            "Enqueued token limit reached. Limit: 3,000,000 enqueued tokens.",
            "tokens",
            3_000_000,
        ),
        (400, "There are too many enqueued tokens already.", "tokens", None),
        (400, "Too many inputs. The max number of inputs is 16.", "items", 16),
        (400, "Too many inputs for model None. The max number of inputs is 2,048", "items", 2048),
        (
            400,
            (
                "Invalid 'input': array too long. Expected an array with maximum length 2048, but got "
                "an array with length 5000 instead. array_above_max_length"
            ),
            "items",
            2048,
        ),
        (422, "too many texts", "items", None),
        (400, "Requested 310000 tokens, max 300000 tokens per request", "tokens", 300_000),
        (400, "max_tokens_per_request", "tokens", None),
        (
            400,
            (
                "The max allowed tokens per submitted batch is 120000. Your batch has 121138 tokens "
                "after truncation."
            ),
            "tokens",
            120_000,
        ),
        (
            429,
            (
                "Request too large for text-embedding-3-small in organization org-x on tokens per min "
                "(TPM): Limit 40000, Requested 53210."
            ),
            "tokens",
            40_000,
        ),
        (413, "", "bytes", None),
        (413, "Payload Too Large", "bytes", None),
        (
            400,
            "Request payload size exceeds the limit: 20971520 bytes.",
            "bytes",
            20_971_520,
        ),
        (
            400,
            "This model's maximum context length is 8192 tokens, however you requested 9000",
            "input",
            None,
        ),
        (400, "the input length exceeds the context length", "input", None),
        (500, "input is too large to process. increase the physical batch size", "input", None),
    ],
)
def test_known_wordings(status, words, reason, limit):
    found = size_refusal(status, words)
    assert (found.reason, found.limit) == (reason, limit)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "Unrecognized request argument supplied: dimensions"),
        (
            429,
            "Rate limit reached on tokens per min (TPM): Limit 40000, Used 39000, Requested 2000",
        ),
        (429, "Too many requests"),
        (401, "batch size"),
        (503, "Payload Too Large"),
        (500, "Internal error 8532 tokens"),
    ],
)
def test_other_refusals_are_not_taken_for_one_of_size(status, words):
    assert size_refusal(status, words) is None
