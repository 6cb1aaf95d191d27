"""An index equals one that is made afresh from the same files, whatever its history."""

from __future__ import annotations

from random import Random

import pytest

from backends.interface import SearchRequest, SyncRequest

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]

WORDS = "boiler pump membrane valve invoice supplier tea price garden kitchen 茶叶 价格 тренировка".split()
QUERIES = (
    "boiler",
    "pump membrane",
    "invoice from the supplier",
    "茶叶",
    "тренировки",
    "2026-01-05",
    "garden",
)


def some_text(rng: Random) -> str:
    lines = []
    for _ in range(rng.randint(0, 40)):
        start = rng.choice(("", "- ", "- ", "## ", "\n"))
        lines.append(start + " ".join(rng.choices(WORDS, k=rng.choice((1, 6, 12, 40)))))
    return "\n".join(lines)


def edit(home, rng: Random) -> None:
    """Makes one change of the kinds that people and programs make."""
    folder = home.workspace / "memory"
    notes = sorted(folder.rglob("*.md"))
    kind = rng.random() if notes else 0
    note = rng.choice(notes) if notes else folder
    if kind < 0.3:
        day = f"2026-01-{rng.randint(1, 9):02}"
        home.write(f"memory/{rng.choice(('', 'sub/'))}{day}-{rng.randint(0, 9)}.md", some_text(rng))
    elif kind < 0.45:
        note.unlink()
    elif kind < 0.6:
        note.rename(note.with_name(f"moved-{rng.randint(0, 9)}.md"))
    elif kind < 0.75:
        note.write_text(
            note.read_text(encoding="utf-8") + "\n- " + some_text(rng), encoding="utf-8"
        )
    else:
        lines = note.read_text(encoding="utf-8").split("\n")
        lines[rng.randrange(len(lines))] = " ".join(rng.choices(WORDS, k=8))
        note.write_text("\n".join(lines), encoding="utf-8")


async def answers(backend) -> list[list[tuple]]:
    found = []
    for query in QUERIES:
        answer = await backend.search(SearchRequest(query=query, max_results=30, min_score=0.0))
        found.append(
            [
                (hit.path, hit.start_line, hit.end_line, hit.score, hit.snippet)
                for hit in answer.hits
            ]
        )
    return found


@pytest.mark.parametrize("seed", range(4))
async def test_after_many_edits_the_index_equals_a_fresh_one(home, new_home, seed, content, check):
    rng = Random(seed)
    async with home.open() as backend:
        for turn in range(60):
            edit(home, rng)
            if turn % rng.randint(1, 6) == 0:
                await backend.sync(SyncRequest(force=rng.random() < 0.1))
            elif rng.random() < 0.3:
                await backend.search(SearchRequest(query="boiler"))
        await backend.sync(SyncRequest())
        edited = await answers(backend)
    check(home.index)
    fresh = new_home("fresh")
    notes = list(home.workspace.rglob("*.md"))
    rng.shuffle(notes)
    for note in notes:
        fresh.write(str(note.relative_to(home.workspace)), note.read_bytes())
    async with fresh.open() as backend:
        await backend.sync(SyncRequest())
        assert await answers(backend) == edited
    assert content(home.index) == content(fresh.index)


async def test_equal_hits_come_in_the_same_order_whatever_was_indexed_first(home, new_home):
    names = [f"memory/{name}.md" for name in "dbeac"]
    texts = {name: f"- the boiler of {name[7]}\n" for name in names}
    orders = []
    for place, order in ((home, names), (new_home("other"), names[::-1])):
        async with place.open() as backend:
            for name in order:
                place.write(name, texts[name])
                await backend.sync(SyncRequest())
            orders.append(await answers(backend))
    assert orders[0] == orders[1]
    assert [hit[0] for hit in orders[0][0]] == sorted(names)


async def test_a_language_that_no_note_is_written_in_any_more_is_forgotten(home):
    home.write("memory/a.md", "Yesterday we spoke with the supplier and he was not there.\n")
    german = "Gestern haben wir mit dem Lieferanten gesprochen und er war nicht da.\n"
    note = home.write("memory/b.md", german)

    async def languages(backend):
        await backend.sync(SyncRequest())
        return (await backend.status()).details.keyword.languages

    async with home.open() as backend:
        assert await languages(backend) == ("english", "german")
        note.unlink()
        assert await languages(backend) == ("english",)
        home.write("memory/a.md", german)
        assert await languages(backend) == ("german",)


async def test_words_that_come_with_one_file_and_go_with_another_stay_known(home, paths_of, check):
    home.write("memory/b.md", "- Der Installateur kommt am Montag.\n")
    await home.synced()
    home.write("memory/a.md", "- Der Installateur war da.\n")
    home.write("memory/b.md", "- Niemand kommt.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        assert await paths_of(backend, "Installateur") == ["memory/a.md"]
    check(home.index)
