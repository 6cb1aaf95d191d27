"""The keyword lane in PostgreSQL: a row for each word of each chunk, scored by the formula of SQLite's bm25().

The server counts words, scores chunks and puts them in order, and returns them with the cards of their files: three
round trips a search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from backends.builtin.store.port import (
    BODY_WEIGHT,
    CONTEXT_WEIGHT,
    MOST_LONGER,
    Corpus,
    Lookup,
    Word,
    WordPart,
    card_of,
    split,
)
from backends.builtin.store.postgres.file_rows import CARD
from backends.builtin.store.postgres.schema import LONG
from backends.ranking.lines import BM25_K1, Candidate

if TYPE_CHECKING:
    from backends.builtin.store.postgres.transactions import AgentTransaction
    from backends.ranking.query import Concept

_BM25_B: Final = 0.75
"""The other constant of FTS5's bm25()."""

_COUNT: Final = """
    SELECT CASE WHEN w.is_prefix
        THEN (SELECT max(c.chunks) FROM term_counts AS c WHERE c.agent_id = %(agent)s
            AND c.term >= w.term AND c.term < w.term || U&'\\+10FFFF')
        ELSE (SELECT c.chunks FROM term_counts AS c
            WHERE c.agent_id = %(agent)s AND c.term = w.term)
        END
    FROM unnest(%(terms)s::text[], %(prefixes)s::boolean[]) WITH ORDINALITY
        AS w (term, is_prefix, number) ORDER BY w.number
"""

_LONGER: Final = f"""
    SELECT w.number, f.term FROM unnest(%(parts)s::text[], %(ends)s::boolean[]) WITH ORDINALITY
        AS w (part, is_end, number)
    CROSS JOIN LATERAL (
        (SELECT term FROM term_counts WHERE NOT w.is_end AND agent_id = %(agent)s
            AND term > w.part AND term < w.part || U&'\\+10FFFF'
            ORDER BY term LIMIT %(most)s::bigint)
        UNION ALL
        (SELECT term FROM term_counts WHERE w.is_end AND agent_id = %(agent)s AND {LONG}
            AND reverse(term) > w.part AND reverse(term) < w.part || U&'\\+10FFFF'
            ORDER BY reverse(term) LIMIT %(most)s::bigint)
    ) AS f
"""

# OFFSET 0 makes the server look rows up by their keys, whatever it estimates of the sizes of tables.

# One row of `words` is a phrase in SQLite's terms. The sums are in the order of the phrases, as in SQLite: equal chunks
# have equal scores to the last bit, so that their paths decide.
_CORPUS: Final = """
    corpus AS MATERIALIZED (
        SELECT documents::float8 AS documents, tokens::float8 / greatest(documents, 1) AS average
        FROM agents WHERE agent_id = %(agent)s
    )
"""
_PERMITTED: Final = """
    permitted AS MATERIALIZED (
        SELECT chunk_id FROM chunks WHERE agent_id = %(agent)s AND file_id = ANY(%(files)s::bigint[])
    )
"""
_EXACT: Final = """
    SELECT w.number, p.chunk_id, p.body * {body}::float8 + p.context * {context}::float8 AS often,
        p.length, k.chunks AS found
    FROM unnest(%(terms{tier})s::text[], %(numbers{tier})s::int[]) AS w (term, number)
    CROSS JOIN LATERAL (SELECT chunks FROM term_counts
        WHERE agent_id = %(agent)s AND term = w.term OFFSET 0) AS k
    CROSS JOIN LATERAL (SELECT chunk_id, body, context, length FROM postings
        WHERE agent_id = %(agent)s AND term = w.term OFFSET 0) AS p
    {condition}
"""
_PREFIX: Final = """
    SELECT number, chunk_id, often, length, count(*) OVER (PARTITION BY number) AS found FROM (
        SELECT w.number, p.chunk_id, sum(p.body * {body}::float8 + p.context * {context}::float8) AS often,
            max(p.length) AS length
        FROM unnest(%(prefixes{tier})s::text[], %(prefix_numbers{tier})s::int[]) AS w (term, number)
        JOIN postings AS p ON p.agent_id = %(agent)s
            AND p.term >= w.term AND p.term < w.term || U&'\\+10FFFF'
        {condition} GROUP BY 1, 2
    ) AS of_prefix
"""
_TIER: Final = """
    tier{tier} AS MATERIALIZED (
        SELECT h.chunk_id, sum(
            (CASE WHEN i.idf <= 0 THEN 1e-6::float8 ELSE i.idf END)
            * (h.often * {k1_1}::float8)
            / (h.often + {k1}::float8 * ({one_b}::float8 + {b}::float8 * h.length / c.average))
            ORDER BY h.number) AS score
        FROM corpus AS c CROSS JOIN ({hits}) AS h
        CROSS JOIN LATERAL
            (SELECT ln((c.documents - h.found + 0.5::float8) / (h.found + 0.5::float8)) AS idf) AS i
        {only} GROUP BY h.chunk_id ORDER BY h.chunk_id DESC LIMIT %(most)s::bigint
    )
"""
_UNITED: Final = """
    found{tier} AS MATERIALIZED (
        SELECT chunk_id, coalesce(a.score, 0::float8) + coalesce(b.score, 0::float8) AS score
        FROM found{before} AS a FULL JOIN tier{tier} AS b USING (chunk_id)
    )
"""
_CANDIDATE: Final = f"""
    {CARD}, coalesce(n.aliases, ''), c.chunk_id, c.start, c.start_line, c.text, c.terms, r.score, c.context, c.headings
"""
_JOINED: Final = """
    CROSS JOIN LATERAL (SELECT * FROM chunks
        WHERE agent_id = %(agent)s AND chunk_id = r.chunk_id OFFSET 0) AS c
    CROSS JOIN LATERAL (SELECT * FROM files
        WHERE agent_id = %(agent)s AND file_id = c.file_id OFFSET 0) AS f
    LEFT JOIN LATERAL (SELECT title, aliases, tags FROM note_facts
        WHERE agent_id = %(agent)s AND file_id = c.file_id OFFSET 0) AS n ON true
"""
# Texts are read only of the wanted chunks; all chunks with equal scores are put in order.
_BEST: Final = f"""
    , best AS MATERIALIZED (
        SELECT t.chunk_id, t.score, row_number() OVER (ORDER BY t.score DESC, f.path, c.start) AS place FROM (
            SELECT chunk_id, score FROM {{found}} ORDER BY score DESC
            FETCH FIRST (%(end)s::bigint) ROWS WITH TIES
        ) AS t
        CROSS JOIN LATERAL (SELECT file_id, start FROM chunks
            WHERE agent_id = %(agent)s AND chunk_id = t.chunk_id OFFSET 0) AS c
        CROSS JOIN LATERAL (SELECT path FROM files
            WHERE agent_id = %(agent)s AND file_id = c.file_id OFFSET 0) AS f
        ORDER BY place LIMIT %(limit)s::bigint OFFSET %(offset)s::bigint
    )
    SELECT {_CANDIDATE}, r.is_other, (SELECT count(*) FROM {{found}})
    FROM (SELECT chunk_id, score, place, false AS is_other FROM best {{others}}) AS r
    {_JOINED} ORDER BY r.is_other, r.place
"""
_OTHERS: Final = """
    UNION ALL SELECT o.chunk_id, coalesce(t.score, 0::float8), o.place, true
    FROM unnest(%(also)s::bigint[]) WITH ORDINALITY AS o (chunk_id, place)
    LEFT JOIN {found} AS t ON t.chunk_id = o.chunk_id
    WHERE NOT EXISTS (SELECT 1 FROM best WHERE best.chunk_id = o.chunk_id)
"""
_NOTHING: Final = "found0 AS (SELECT NULL::bigint AS chunk_id, 0::float8 AS score WHERE false)"
_TIERS_AT_ONCE: Final = 4
"""Most lookups have enough chunks after so many tiers; planning more would cost more than it finds."""


class PostgresKeywords:
    """`KeywordReads` in one transaction."""

    def __init__(self, transaction: AgentTransaction) -> None:
        self._transaction = transaction

    def corpus(self) -> Corpus:
        return self._transaction.state.corpus

    def count(self, words: Sequence[Word]) -> list[int]:
        if not words:
            return []
        rows = self._transaction.run(
            _COUNT,
            {
                "terms": [word.term for word in words],
                "prefixes": [word.is_prefix for word in words],
            },
        )
        counts = [number or 0 for (number,) in rows]
        self._transaction.word_counts.update(zip(words, counts, strict=True))
        return counts

    def longer(self, parts: Sequence[WordPart]) -> list[list[str]]:
        found: list[list[str]] = [[] for _ in parts]
        rows = self._transaction.run(
            _LONGER,
            {
                "parts": [part.text[::-1] if part.is_end else part.text for part in parts],
                "ends": [part.is_end for part in parts],
                "most": MOST_LONGER,
            },
        )
        for number, term in rows:
            found[number - 1].append(term)
        return found

    def matches(self, lookup: Lookup, file_ids: Sequence[int] | None) -> PostgresMatches:
        return PostgresMatches(self._transaction, lookup, file_ids)


class PostgresMatches:
    """`Matches`: scored and ordered by the server, again for each block."""

    def __init__(
        self, transaction: AgentTransaction, lookup: Lookup, file_ids: Sequence[int] | None
    ) -> None:
        self._transaction = transaction
        self._lookup = lookup
        self._file_ids = file_ids
        tiers = lookup.tiers if file_ids is None or file_ids else ()
        self._tiers = [tier for tier in tiers if tier]
        self._looked_up = self._tiers_at_first()

    def _tiers_at_first(self) -> int:
        """Counts the tiers up to the first with a word that is in enough chunks, if every file is permitted."""
        counts = self._transaction.word_counts
        for number, concepts in enumerate(self._tiers[:_TIERS_AT_ONCE]):
            words = (
                Word(term, concept.is_prefix)
                for concept in concepts
                for term in concept.alternatives
            )
            known = max((counts.get(word, 0) for word in words), default=0)
            if self._file_ids is None and min(known, self._lookup.most) >= self._lookup.enough:
                return number + 1
        return min(len(self._tiers), _TIERS_AT_ONCE)

    def best(
        self, limit: int, offset: int = 0, also: Sequence[int] = ()
    ) -> tuple[list[Candidate], list[Candidate]]:
        if not (also or self._tiers):
            return [], []
        while True:
            rows = self._select(limit, offset, also)
            found = list(self._candidates(rows))
            others = sum(row[-2] for row in rows)
            best, also_found = found[: len(found) - others], found[len(found) - others :]
            scored = rows[0][-1] if rows else 0
            is_enough = scored >= self._lookup.enough or (offset and not best)
            if is_enough or self._looked_up == len(self._tiers):
                return best, also_found
            self._looked_up = min(len(self._tiers), 2 * self._looked_up)

    def _select(self, limit: int, offset: int, also: Sequence[int]) -> list[Any]:
        """Returns one block of the chunks that the tiers find, and the other chunks."""
        parameters: dict[str, object] = {"limit": limit, "offset": offset, "end": offset + limit}
        tables = [_NOTHING]
        name = "found0"
        if self._tiers:
            tables = [_CORPUS]
            parameters["most"] = self._lookup.most
            if self._file_ids is not None:
                tables.append(_PERMITTED)
                parameters["files"] = list(self._file_ids)
            for number, concepts in enumerate(self._tiers[: self._looked_up]):
                tables.append(self._tier(number, concepts, parameters))
                if number:
                    before = f"found{number - 1}" if number > 1 else "tier0"
                    tables.append(_UNITED.format(tier=number, before="#").replace("found#", before))
            last = self._looked_up - 1
            name = f"found{last}" if last else "tier0"
        if also:
            parameters["also"] = list(also)
        text = _BEST.format(found=name, others=_OTHERS.format(found=name) if also else "")
        return self._transaction.run(f"WITH {', '.join(tables)} {text}", parameters).fetchall()

    def _tier(self, number: int, concepts: Sequence[Concept], parameters: dict[str, object]) -> str:
        """Returns SQL for the chunks with any of these concepts, unless earlier tiers found enough."""
        words = [(term, concept.is_prefix) for concept in concepts for term in concept.alternatives]
        numbered = list(enumerate(words))
        exact = [(at, term) for at, (term, is_prefix) in numbered if not is_prefix]
        begun = [(at, term) for at, (term, is_prefix) in numbered if is_prefix]
        hits = []
        condition = ""
        if number:
            before = f"found{number - 1}" if number > 1 else "tier0"
            parameters["enough"] = self._lookup.enough
            condition = f"WHERE (SELECT count(*) FROM {before}) < %(enough)s::bigint"
        for rows, template, terms, numbers in (
            (exact, _EXACT, "terms", "numbers"),
            (begun, _PREFIX, "prefixes", "prefix_numbers"),
        ):
            if rows:
                hits.append(template)
                parameters[f"{terms}{number}"] = [term for _, term in rows]
                parameters[f"{numbers}{number}"] = [at for at, _ in rows]
        only = (
            "" if self._file_ids is None else "WHERE h.chunk_id IN (SELECT chunk_id FROM permitted)"
        )
        values = {
            "tier": number,
            "condition": condition,
            "body": repr(BODY_WEIGHT),
            "context": repr(CONTEXT_WEIGHT),
        }
        return _TIER.format(
            tier=number,
            hits=" UNION ALL ".join(hits).format(**values),
            only=only,
            k1=repr(BM25_K1),
            k1_1=repr(BM25_K1 + 1.0),
            b=repr(_BM25_B),
            one_b=repr(1 - _BM25_B),
        )

    def _candidates(self, rows: Sequence[Any]) -> Iterator[Candidate]:
        cards = self._transaction.cards
        for row in rows:
            *of_card, aliases, chunk, start, line, text, terms, score, context, headings, _, _ = row
            card = card_of(of_card)
            cards[card.id] = card
            yield Candidate(
                chunk, card.id, start, line, text.decode(), terms, score, card.path, context, headings,
                (card.title, *split(aliases)),
            )  # fmt: skip
