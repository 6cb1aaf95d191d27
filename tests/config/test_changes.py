"""The keys that differ between two readings: by value, by their documented names, without secrets."""

from __future__ import annotations

from config.loading import changed_keys
from fakes.each import each


@each(
    ("before", "after", "changed"),
    [
        ("{}", "{}", ()),
        ("{}", "{agents: {defaults: {memorySearch: {query: {maxResults: 6}}}}}", ()),
        (
            "{}",
            "{agents: {defaults: {memorySearch: {query: {maxResults: 7}}}}}",
            ("query.maxResults",),
        ),
        (
            "{memory: {citations: 'on'}, plugins: {slots: {memory: 'none'}}}",
            "{memory: {citations: 'off'}}",
            ("citations", "plugins.slots.memory"),
        ),
        (
            "{agents: {defaults: {memorySearch: {remote: {apiKey: 'one-secret'}}}}}",
            "{agents: {defaults: {memorySearch: {remote: {apiKey: 'another-secret'}}}}}",
            ("remote.apiKey",),
        ),
        (
            "{models: {providers: {openai: {baseUrl: 'http://a.example/v1'}}}}",
            "{models: {providers: {openai: {baseUrl: 'http://b.example/v1'}}}}",
            ("models.providers.openai",),
        ),
        (
            "{auth: {profiles: {'openai:x': {provider: 'openai'}}, order: {openai: ['openai:x']}}}",
            "{}",
            ("auth.profiles.openai:x", "auth.order.openai"),
        ),
    ],
)
def test_the_changed_keys_are_named(machine, before, after, changed):
    assert changed_keys(machine.load(before), machine.load(after)) == changed


def test_an_api_key_in_a_variable_is_named_by_its_variable(machine):
    before = machine.load("{}")
    after = machine.load(environment={"OPENAI_API_KEY": "sk-test"})
    assert changed_keys(before, after) == ("OPENAI_API_KEY",)


def test_a_key_that_can_no_longer_be_read_has_changed(machine):
    secret = "{agents: {defaults: {memorySearch: {remote: {apiKey: '${SOME_KEY}'}}}}}"
    readable = machine.load(secret, environment={"SOME_KEY": "sk-test"})
    assert changed_keys(readable, machine.load(secret)) == ("remote.apiKey",)
