"""Identifiers, paths, versions and numbers: found whole, by part, and with other separators."""

import base64
import random
import re

from backends.text.analyser import Analyser, tokens
from fakes.each import each


@each(
    ("written", "whole", "parts"),
    [
        ("a828e60", "a828e60", ["a828e60"]),
        ("sqlite-vec", "sqlitevec", ["sqlite", "vec"]),
        ("memorySearch.query.hybrid", "memorysearchqueryhybrid", ["memory", "query", "hybrid"]),
        ("OPENAI_API_KEY", "openaiapikey", ["openai", "api", "key"]),
        ("snake_case_name", "snakecasename", ["snake", "case", "name"]),
        ("__init__", "init", ["init"]),
        ("parseHTTPResponse", "parsehttprespons", ["parse", "http", "response"]),
        ("v2.3.1-rc1", "v231rc1", ["v2", "rc1"]),
        ("2026-02-08", "2026_02_08", ["2026", "02", "08"]),
        ("10:30", "10_30", ["10", "30"]),
        ("3.14", "3_14", ["3", "14"]),
        ("1,500", "1500", ["1", "500"]),
        ("192.168.0.1", "192_168_0_1", ["192", "168"]),
        ("memory/2026-02-08-plan.md", "memory20260208planmd", ["memory", "plan", "2026", "md"]),
        ("src/app/main.py:42", "srcappmainpy42", ["src", "app", "main", "42"]),
        ("https://example.org/a/login?next=home", "exampleorgalogin", ["example", "org", "login"]),
        ("foo@bar.com", "foobarcom", ["foo", "bar", "com", "bar.com"]),
        ("node.js", "nodejs", ["node", "js"]),
        ("café-crème", "cafecreme", ["cafe", "creme"]),
        ("gpt-4o-mini", "gpt4omini", ["gpt", "4o", "mini"]),
    ],
)
def test_an_identifier_is_found_whole_and_by_each_part(written, whole, parts, terms_of):
    terms = set(terms_of(written))
    assert whole in terms
    for part in parts:
        assert terms & set(terms_of(part)), part


@each(
    ("one", "other"),
    [
        ("sqlite-vec", "sqlite_vec"),
        ("sqlite-vec", "SQLite.Vec"),
        ("OPENAI_API_KEY", "openai-api-key"),
        ("src/app", "src.app"),
    ],
)
def test_the_kind_of_joint_does_not_matter(one, other, terms_of):
    assert terms_of(one)[0] == terms_of(other)[0]


@each(
    ("written", "asked"),
    [
        ("978-3-16-148410-0", "9783161484100"),
        ("DE89 3704 0044 0532 0130 00", "DE89370400440532013000"),
        ("18 500 Kč", "18500"),
        ("12 345 678 901", "12345678901"),
        ("1\u00a0250,50 €", "1250,50"),
        ("Rp2.500.000", "2.500.000"),
        ("8.500.000đ", "8.500.000"),
        ("500g flour", "500"),
        ("38GB", "38"),
        ("TP944", "944"),
        ("٤٥٠٠", "4500"),
    ],
)
def test_what_is_written_in_groups_or_with_a_unit_is_found_without(written, asked, terms_of):
    assert terms_of(asked)[0] in terms_of(written)


@each("text", ["in 2025 300 people", "10 20 30", "1 2500", "2026-02-08", "word1500", "a828e60"])
def test_numbers_beside_each_other_are_not_joined_nor_parts_taken_from_words(text, terms_of):
    joined = {"2025300", "102030", "12500", "20260208", "1500", "828"}
    assert joined.isdisjoint(terms_of(text))


@each(("one", "other"), [("1.23", "12.3"), ("10:30", "1:030"), ("1-2", "12")])
def test_numbers_with_joints_elsewhere_are_other_numbers(one, other, terms_of):
    assert terms_of(one)[0] != terms_of(other)[0]


@each(
    ("text", "word"),
    [
        ("see (sqlite-vec).", "sqlite-vec"),
        ("`OPENAI_API_KEY`=sk-1", "OPENAI_API_KEY"),
        ("**node.js**,", "node.js"),
        ("'main.py':", "main.py"),
        ("<https://example.org>", "example.org"),
        ("path=/etc/hosts;", "hosts"),
    ],
)
def test_punctuation_around_an_identifier_does_not_hide_it(text, word, terms_of):
    assert set(terms_of(word)) & set(terms_of(text))


def test_humps_need_two_letters_and_one_letter_is_only_part_of_the_whole(terms_of):
    assert terms_of("iPhone iOS") == ["iphon", "phone", "io", "os"]


def test_an_endless_identifier_has_no_whole_and_keeps_its_parts(terms_of):
    terms = terms_of("/".join(["part"] * 40))
    assert terms == ["part"]


def test_the_number_of_concepts_does_not_depend_on_the_language():
    words = (
        "memorySearch.query.hybrid l'homme café OPENAI_API_KEY 会议室 running 2026-02-08".split()
    )
    for word in words:
        shapes = {
            len(Analyser(language).concepts(word)) for language in ("english", "german", "turkish")
        }
        assert len(shapes) == 1


def test_ascii_text_is_cut_into_the_same_tokens_beside_other_scripts():
    text = (
        "see memory/2026-02-08-plan.md (OPENAI_API_KEY=sk-1, don't) foo@bar.com: 3.14 _x_ a--b 'c'"
    )
    assert tokens(f"{text} é")[:-1] == tokens(text)


WORDS = "bed bus car cat cup fan gas hat ice jam key log map net oil pie rat sky sun tea tin web".split()


@each(
    "encoding",
    [
        lambda data: base64.b64encode(data).decode(),
        lambda data: base64.encodebytes(data).decode(),
        lambda data: base64.urlsafe_b64encode(data).decode(),
        lambda data: data.hex(),
    ],
)
def test_no_word_is_read_from_between_the_capitals_of_encoded_data(encoding, terms_of):
    terms = set(terms_of(encoding(random.Random(33).randbytes(300_000))))
    assert [word for word in WORDS if terms & set(terms_of(word))] == []


def test_a_word_that_stands_in_base64_is_no_word_of_it(terms_of):
    rng = random.Random(33)
    for _ in range(500):
        before, after = (base64.b64encode(rng.randbytes(30), b"7x").decode() for _ in range(2))
        assert "boiler" not in terms_of(f"{before}xQBoilerZk{after}")


@each(
    "written",
    [
        "GitHub",
        "IPv6Address",
        "NotADBError",
        "PytestUnhandledThreadExceptionWarning",
        "memorySearch.query.hybrid.vectorWeight",
        "projectId.bqDatasetId.bqTableId",
        "ipaddress.IPv4Address",
        "src/main/java/org/example/http/HTTPResponseParser.java",
        "tests/api/testIPv6Address.py",
    ],
)
def test_the_words_of_a_long_identifier_are_read(written, terms_of):
    terms = set(terms_of(written))
    for word in re.findall("[A-Z]?[a-z]{3,}", written):
        assert terms & set(terms_of(word)), word
