"""The variables that count, and `${NAME}` in values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.errors import ConfigInvalidError
from config.settings import Secret, SettingOrigin
from config.source.environment import MAX_DOTENV_BYTES, gather_variables, parse_dotenv, substitute
from fakes.each import each


@each(
    ("line", "expected"),
    [
        ("KEY=value", {"KEY": "value"}),
        ("  KEY = value  ", {"KEY": "value"}),
        ("export KEY=value", {"KEY": "value"}),
        ("KEY=", {"KEY": ""}),
        ("KEY='a # b'", {"KEY": "a # b"}),
        ('KEY="a # b" # comment', {"KEY": "a # b"}),
        ('KEY="value" # the "old" one', {"KEY": "value"}),
        ("KEY='value'\t# it's the old one", {"KEY": "value"}),
        (r'KEY="a \" # b"', {"KEY": r"a \" # b"}),
        ('KEY="a"b"', {"KEY": 'a"b'}),
        ('KEY="line\\nbreak"', {"KEY": "line\nbreak"}),
        ("KEY='line\\nbreak'", {"KEY": "line\\nbreak"}),
        ("KEY=value # comment", {"KEY": "value"}),
        ("KEY=va#lue", {"KEY": "va#lue"}),
        ("KEY=# comment", {"KEY": ""}),
        ("KEY=a=b", {"KEY": "a=b"}),
        ('KEY="open', {"KEY": '"open'}),
        ("KEY='", {"KEY": "'"}),
        ("# comment", {}),
        ("", {}),
        ("no assignment", {}),
        ("1KEY=value", {}),
        ("KE-Y=value", {}),
        ("=value", {}),
    ],
)
def test_a_line_of_a_dotenv_file_is_read(line, expected):
    assert parse_dotenv(line) == expected


def test_of_two_assignments_the_later_counts():
    assert parse_dotenv("A=1\r\nB=2\nA=3\n") == {"A": "3", "B": "2"}


def test_what_the_process_has_is_never_overridden(parse, tmp_path):
    (tmp_path / ".env").write_text("A=file\nB=file\nC=file\n", encoding="utf-8")
    root = parse('{env: {A: "block", B: "block", D: "block",\n vars: {D: "vars", E: "vars"}}}')
    found = gather_variables({"A": "process", "C": " "}, tmp_path, root)
    assert found.values == {"A": "process", "B": "file", "C": "file", "D": "block", "E": "vars"}
    assert found.origin("A") == SettingOrigin(kind="environment", detail="A")
    assert found.origin("B") == SettingOrigin(
        kind="environment", detail=f"B in {tmp_path / '.env'}"
    )
    assert found.origin("D") == SettingOrigin(kind="file", detail="env.D, line 1")
    assert found.origin("E") == SettingOrigin(kind="file", detail="env.vars.E, line 2")


def test_a_credential_of_the_service_counts_as_the_variable_of_its_name(parse, tmp_path):
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "OPENAI_API_KEY").write_text("sk-credential\n", encoding="utf-8")
    (credentials / "GEMINI_API_KEY").write_text("from-credential", encoding="utf-8")
    (credentials / "UNRELATED").write_text("x", encoding="utf-8")
    (tmp_path / ".env").write_text("OPENAI_API_KEY=from-file\n", encoding="utf-8")
    process = {"CREDENTIALS_DIRECTORY": str(credentials), "GEMINI_API_KEY": "of the process"}
    found = gather_variables(process, tmp_path, None)
    assert found.keys() == {
        "OPENAI_API_KEY": Secret("sk-credential"),
        "GEMINI_API_KEY": Secret("oftheprocess"),
    }
    origin = SettingOrigin(kind="environment", detail="the credential OPENAI_API_KEY")
    assert found.origin("OPENAI_API_KEY") == origin
    assert "UNRELATED" not in found.values


def test_a_blank_assignment_does_not_hide_a_later_place(parse, tmp_path):
    (tmp_path / ".env").write_text("A=' '\n", encoding="utf-8")
    found = gather_variables({}, tmp_path, parse('{env: {A: "block", B: " "}}'))
    assert found.values == {"A": "block"}


def test_the_process_itself_is_left_as_it_is(parse, tmp_path):
    process = {"A": "1"}
    gather_variables(process, tmp_path, parse('{env: {B: "2"}}'))
    assert process == {"A": "1"}


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{env: 1}",
        "{env: {vars: []}}",
        "{env: {A: 5, shellEnv: {enabled: true}}}",
        '{env: {"A B": "x"}}',
    ],
)
def test_what_is_no_variable_is_passed_over(parse, tmp_path, text):
    assert gather_variables({}, tmp_path, parse(text)).values == {}


def test_without_a_file_there_is_only_the_process(tmp_path):
    assert gather_variables({"A": "1"}, tmp_path / "missing", None).values == {"A": "1"}


def test_bytes_that_are_no_text_do_not_harm(tmp_path):
    (tmp_path / ".env").write_bytes(b"\xef\xbb\xbfA=1\nB=\xff\xfe\nC=3")
    found = gather_variables({}, tmp_path, None)
    assert (found.values["A"], found.values["C"]) == ("1", "3")


def test_api_keys_among_the_variables_are_secrets_without_line_breaks(tmp_path):
    process = {"OPENAI_API_KEY": " sk-1\r\n", "VOYAGE_API_KEY": "", "OTHER_API_KEY": "x"}
    found = gather_variables(process, tmp_path, None)
    assert found.keys() == {"OPENAI_API_KEY": Secret("sk-1")}


def test_settings_carry_the_keys_with_their_origin(machine):
    machine.write("VOYAGE_API_KEY=pa-9", machine.state / ".env")
    settings = machine.load(
        '{env: {vars: {GEMINI_API_KEY: "g-1"}}}', environment={"OPENAI_API_KEY": "sk-1"}
    )
    assert settings.environment_keys == {
        "OPENAI_API_KEY": Secret("sk-1"),
        "GEMINI_API_KEY": Secret("g-1"),
        "VOYAGE_API_KEY": Secret("pa-9"),
    }
    assert settings.origins["OPENAI_API_KEY"].detail == "OPENAI_API_KEY"
    assert settings.origins["GEMINI_API_KEY"].detail == "env.vars.GEMINI_API_KEY, line 1"
    assert str(machine.state / ".env") in str(settings.origins["VOYAGE_API_KEY"].detail)


def test_a_dotenv_file_in_the_working_directory_is_not_read(machine):
    machine.write("OPENAI_API_KEY=sk-1", machine.cwd / ".env")
    assert machine.load("{}").environment_keys == {}


def test_values_of_the_file_may_refer_to_them(machine):
    machine.write("MY_KEY=sk-from-dotenv", machine.state / ".env")
    settings = machine.load('{agents: {defaults: {memorySearch: {remote: {apiKey: "${MY_KEY}"}}}}}')
    assert settings.search.remote.api_key == Secret("sk-from-dotenv")


def test_a_dotenv_file_is_read_up_to_a_size_and_never_in_part(tmp_path):
    file, line = tmp_path / ".env", "KEY=value\n"
    file.write_text("#" * (MAX_DOTENV_BYTES - len(line) - 1) + "\n" + line, encoding="utf-8")
    assert gather_variables({}, tmp_path, None).values == {"KEY": "value"}
    with file.open("a", encoding="utf-8") as opened:
        opened.write("\n")
    with pytest.raises(ConfigInvalidError, match=r"\.env: is larger than 1,048,576 bytes"):
        gather_variables({}, tmp_path, None)


ENVIRONMENT = {
    "KEY": "sk-1",
    "A_2": "two",
    "EMPTY": "",
    "BLANK": " \n",
    "lower": "no",
    "NESTED": "${KEY}",
}


@each(
    ("text", "filled", "used", "missing"),
    [
        ("plain", "plain", (), ()),
        ("${KEY}", "sk-1", ("KEY",), ()),
        ("a-${KEY}-${A_2}-b", "a-sk-1-two-b", ("KEY", "A_2"), ()),
        ("${KEY}${KEY}", "sk-1sk-1", ("KEY", "KEY"), ()),
        ("$${KEY}", "${KEY}", (), ()),
        ("$$${KEY}", "$${KEY}", (), ()),
        ("${MISSING}", "${MISSING}", (), ("MISSING",)),
        ("${EMPTY}", "${EMPTY}", (), ("EMPTY",)),
        ("${BLANK}", "${BLANK}", (), ("BLANK",)),
        ("${lower}", "${lower}", (), ()),
        ("$KEY", "$KEY", (), ()),
        ("${}", "${}", (), ()),
        ("${KEY", "${KEY", (), ()),
        ("${1KEY}", "${1KEY}", (), ()),
        ("${KEY:-x}", "${KEY:-x}", (), ()),
        ("${NESTED}", "${KEY}", ("NESTED",), ()),
        ("costs 5$", "costs 5$", (), ()),
    ],
)
def test_references_are_filled_in(text, filled, used, missing):
    result = substitute(text, ENVIRONMENT)
    assert (result.text, result.used, result.missing) == (filled, used, missing)


@given(st.text("${}KEYab", max_size=30))
def test_without_variables_only_escapes_change(text):
    result = substitute(text, {})
    assert result.used == ()
    assert len(result.text) <= len(text)
    assert result.text == text or "$$" in text
