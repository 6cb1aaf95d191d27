"""Keys that depend on one another: weights, chunk and overlap, sources, input types."""

from __future__ import annotations

import pytest


def two_levels(defaults: str, agent: str) -> str:
    return f"""{{agents: {{
      defaults: {{memorySearch: {{{defaults}}}}},
      list: [{{id: 'ops', memorySearch: {{{agent}}}}}, {{id: 'other'}}],
    }}}}"""


class TestTiedKeys:
    @pytest.mark.parametrize(
        ("weights", "vector"),
        [
            ("vectorWeight: 1, textWeight: 1", 0.5),
            ("vectorWeight: 0.2, textWeight: 0.2", 0.5),
            ("vectorWeight: 0.9, textWeight: 0.1", 0.9),
            ("vectorWeight: 0, textWeight: 0.5", 0.0),
            ("vectorWeight: 1, textWeight: 0", 1.0),
            ("vectorWeight: 1", 1 / 1.3),
            ("textWeight: 1", 0.7 / 1.7),
            ("vectorWeight: 0, textWeight: 0", 0.7),
        ],
    )
    def test_the_weights_add_up_to_one(self, machine, weights, vector):
        hybrid = machine.load(
            two_levels(f"query: {{hybrid: {{{weights}}}}}", "")
        ).search.query.hybrid
        assert hybrid.vector_weight == pytest.approx(vector)
        assert hybrid.vector_weight + hybrid.text_weight == pytest.approx(1)

    def test_weights_from_two_levels_are_divided_together(self, machine):
        text = two_levels("query: {hybrid: {vectorWeight: 1}}", "query: {hybrid: {textWeight: 1}}")
        assert machine.load(text).search.query.hybrid.vector_weight == 0.5

    def test_two_zeros_are_a_warning(self, machine):
        text = two_levels("query: {hybrid: {\nvectorWeight: 0, textWeight: 0}}", "")
        (warning,) = machine.load(text).warnings
        assert warning.path == "agents.defaults.memorySearch.query.hybrid.vectorWeight"
        assert "both 0, so the defaults apply" in warning.message
        assert warning.line == 3

    def test_a_small_chunk_limits_the_default_overlap_without_a_warning(self, machine):
        settings = machine.load(two_levels("chunking: {tokens: 50}", ""))
        assert settings.search.chunking.overlap == 49
        assert settings.warnings == ()
        assert settings.origins["chunking.overlap"].kind == "derived"

    def test_a_chunk_of_one_token_has_no_overlap(self, machine):
        chunking = machine.load(two_levels("chunking: {tokens: 1}", "")).search.chunking
        assert (chunking.tokens, chunking.overlap) == (1, 0)

    def test_an_agents_smaller_chunk_limits_the_overlap_of_the_defaults(self, machine):
        text = two_levels("chunking: {overlap: 100}", "chunking: {tokens: 60}")
        settings = machine.load(text)
        assert settings.search.chunking.overlap == 59
        assert "100 must be less than chunking.tokens (60)" in settings.warnings[0].message

    def test_sessions_need_permission_and_the_warning_says_so(self, machine):
        settings = machine.load(two_levels("\nsources: ['sessions', 'memory']", ""))
        assert settings.search.sources == ("memory",)
        (warning,) = settings.warnings
        assert "left out: it needs experimental.sessionMemory: true" in warning.message
        assert (warning.path, warning.line) == ("agents.defaults.memorySearch.sources", 3)

    def test_permission_of_the_defaults_is_enough(self, machine):
        text = two_levels("experimental: {sessionMemory: true}", "sources: ['memory', 'sessions']")
        settings = machine.load(text)
        assert settings.search.sources == ("memory", "sessions")
        assert settings.search.session_memory is True
        assert settings.warnings == ()

    def test_an_agent_may_withdraw_permission(self, machine):
        text = two_levels(
            "experimental: {sessionMemory: true}, sources: ['memory', 'sessions']",
            "experimental: {sessionMemory: false}",
        )
        assert machine.load(text).search.sources == ("memory",)

    def test_permission_alone_does_not_add_sessions(self, machine):
        settings = machine.load(two_levels("experimental: {sessionMemory: true}", ""))
        assert settings.search.sources == ("memory",)

    @pytest.mark.parametrize(
        ("keys", "query", "document"),
        [
            ("inputType: 'x'", "x", "x"),
            ("inputType: 'x', queryInputType: 'q'", "q", "x"),
            ("inputType: 'x', documentInputType: 'd'", "x", "d"),
            ("queryInputType: 'q'", "q", None),
        ],
    )
    def test_one_input_type_sets_both_unless_they_are_given(self, machine, keys, query, document):
        search = machine.load(two_levels(keys, "")).search
        assert (search.query_input_type, search.document_input_type) == (query, document)
