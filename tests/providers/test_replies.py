"""The treatment of failed answers, among them refusals of size in the words of many hosts."""

import json

from fakes.each import each
from fakes.faults import gemini_quota, openai_quota, voyage_quota
from providers import provider_interface
from providers.remote.answers import Refusal, error_for, size_refusal


def refuse(status, body=b"", request=b"", now_s=0.0, secrets=(), **headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return error_for(
        Refusal(
            status=status,
            headers={name.replace("_", "-"): value for name, value in headers.items()},
            body=data,
            request=request,
            place="OpenAI at api.openai.com",
            key_source="environment variable OPENAI_API_KEY",
            secrets=secrets,
            now_s=now_s,
        )
    )


def said(message, **fields):
    return {"error": {"message": message, **fields}}


@each(
    ("status", "body", "kind"),
    [
        (401, said("Incorrect API key provided"), provider_interface.ProviderAuthError),
        (403, said("Country not supported"), provider_interface.ProviderAuthError),
        (
            400,
            said("API key not valid. Please pass a valid API key."),
            provider_interface.ProviderAuthError,
        ),
        (400, said("API key expired."), provider_interface.ProviderAuthError),
        (402, said("Pay first"), provider_interface.ProviderQuotaError),
        (404, said("The model `x` does not exist"), provider_interface.ProviderUnavailableError),
        (405, b"", provider_interface.ProviderUnavailableError),
        (408, b"", provider_interface.ProviderTransientError),
        (500, said("1536"), provider_interface.ProviderTransientError),
        (502, b"<html>bad gateway</html>", provider_interface.ProviderTransientError),
        (503, b"", provider_interface.ProviderTransientError),
        (529, b"", provider_interface.ProviderTransientError),
        (429, said("Slow down"), provider_interface.ProviderRateLimitError),
        (400, said("Expected 1536 tokens near 5123"), provider_interface.ProviderRejectedError),
        (422, {"detail": "Unprocessable"}, provider_interface.ProviderRejectedError),
        (413, b"", provider_interface.ProviderInputTooLargeError),
    ],
)
def test_status_and_body_decide_the_kind(status, body, kind):
    error = refuse(status, body)
    assert type(error) is kind
    assert error.status == status
    assert "OpenAI at api.openai.com" in error.message


@each(
    "fault",
    [openai_quota(), gemini_quota("Day"), voyage_quota()],
)
def test_a_used_up_account_is_final(fault):
    error = refuse(fault.status, fault.body)
    assert type(error) is provider_interface.ProviderQuotaError
    assert error.final
    assert not error.retryable


def test_geminis_minutely_quota_is_a_rate_limit_although_it_reads_like_the_daily_one():
    fault = gemini_quota("Minute", "37s")
    error = refuse(fault.status, fault.body)
    assert type(error) is provider_interface.ProviderRateLimitError
    assert error.retry_after_s == 37.0


def test_voyages_reduced_rates_are_a_rate_limit_although_they_speak_of_billing():
    detail = (
        "You have not yet added your payment method in the billing page and will have reduced "
        "rate limits of 3 RPM and 10K TPM."
    )
    assert type(refuse(429, {"detail": detail})) is provider_interface.ProviderRateLimitError


@each(
    ("headers", "expected"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 30.0),
        ({"retry_after": "Wed, 21 Oct 2015 07:00:00 GMT"}, 0.0),
        ({"retry_after_ms": "250", "retry_after": "9"}, 0.25),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-3"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "9" * 5000}, 86_400.0),
        ({"retry_after_ms": "1e400"}, 86_400.0),
        ({"retry_after": f"Wed, 21 Oct {'9' * 30} 07:28:00 GMT"}, None),
        ({}, None),
    ],
)
@each("status", [429, 503])
def test_retry_after_is_understood_in_every_form(status, headers, expected):
    error = refuse(status, now_s=1445412450.0, **headers)
    assert error.retry_after_s == expected


def test_the_limit_a_host_names_is_passed_on():
    error = refuse(400, said("input batch size 136 > maximum allowed batch size 64"))
    assert (error.reason, error.limit) == ("items", 64)


def test_a_refused_key_is_named_by_its_source():
    assert "environment variable OPENAI_API_KEY" in refuse(401).remedy


@each("body", [b"\xff\xfe", b"[]", b"[[]]", b"3", b'{"error": 3}', b"{" * 9999])
def test_a_body_of_any_kind_does_no_harm(body):
    assert type(refuse(500, body)) is provider_interface.ProviderTransientError


def test_a_list_around_the_error_is_looked_into():
    assert "Slow down" in refuse(429, [said("Slow down")]).message


def test_secrets_in_the_hosts_words_are_masked():
    error = refuse(401, said("Key zz-verysecret99 is wrong"), secrets=("zz-verysecret99",))
    assert "verysecret" not in str(error)
    assert "***" in error.message


def test_the_hosts_words_are_cut_and_kept_on_one_line():
    error = refuse(500, said("word\n" * 500))
    assert len(error.message) < 300
    assert "\n" not in error.message


def test_a_text_that_the_host_repeats_is_cut_off():
    note = "My doctor said that the result is positive"
    request = json.dumps({"model": "text-embedding-3-small", "input": [note]}).encode()
    error = refuse(400, said(f"Invalid text for text-embedding-3-small: {note}"), request)
    assert "Invalid text for text-embedding-3-small" in error.message
    assert "My doctor" not in error.message


@each("quoted", [str, repr, json.dumps])
def test_a_text_of_short_lines_that_the_host_repeats_is_cut_off(quoted):
    note = "Anna: 1234\nBob: 5678\nSafe: 99-1"
    request = json.dumps({"model": "m", "input": [note]}).encode()
    error = refuse(400, said(f"Invalid: {quoted(note)}"), request)
    assert "Invalid: " in error.message
    assert "Anna" not in error.message


@each(
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


@each(
    ("status", "words"),
    [
        (400, "Unrecognized request argument supplied: dimensions"),
        (
            429,
            "Rate limit reached on tokens per min (TPM): Limit 40000, Used 39000, Requested 2000",
        ),
        (429, "Too many requests"),
        (429, "Too many requests: the rate exceeds the model limit"),
        (429, "Too many tokens, please wait before trying again."),
        (401, "batch size"),
        (503, "Payload Too Large"),
        (500, "Internal error 8532 tokens"),
    ],
)
def test_other_refusals_are_not_taken_for_one_of_size(status, words):
    assert size_refusal(status, words) is None
