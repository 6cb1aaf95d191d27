"""A credential that does not show itself."""

from __future__ import annotations

import copy
import io
import pickle

import msgspec
import pytest
from rich.console import Console
from rich.pretty import Pretty

from config.settings import RemoteSettings, Secret


@pytest.mark.parametrize("show", [repr, str, "{}".format, "{!r}".format, "{!s}".format])
def test_no_way_of_writing_it_shows_it(show):
    assert show(Secret("sk-hidden")) == "Secret(***)"


def test_a_record_that_holds_it_does_not_show_it_either():
    assert "hidden" not in repr(RemoteSettings(api_key=Secret("sk-hidden")))


def test_rich_does_not_show_it():
    console = Console(file=io.StringIO(), width=200)
    console.print(Pretty(RemoteSettings(api_key=Secret("sk-hidden"))))
    assert "Secret(***)" in console.file.getvalue()
    assert "hidden" not in console.file.getvalue()


@pytest.mark.parametrize("encode", [msgspec.json.encode, msgspec.to_builtins, pickle.dumps])
def test_it_cannot_be_encoded_by_accident(encode):
    with pytest.raises(TypeError):
        encode(RemoteSettings(api_key=Secret("sk-hidden")))


def test_it_cannot_be_copied_or_changed():
    secret = Secret("sk-hidden")
    with pytest.raises(TypeError, match="not copied"):
        copy.copy(secret)
    with pytest.raises(AttributeError, match="immutable"):
        secret.value = "other"


def test_reveal_is_the_way_to_read_it():
    assert Secret("sk-hidden").reveal() == "sk-hidden"


def test_secrets_compare_by_value_and_only_with_secrets():
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
