"""Words that are joined in the note and separate in the question, or the other way round."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from backends.interface import SearchRequest, SyncRequest

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]

NOTES = {
    "german": (
        "- Die Haushaltsversicherung ist bei der Donau, und sie kostet 12 Euro.\n\n"
        "- Zum Zahnarzt gehen wir nicht vor Mai, der Termin ist auf dem Kalender.\n\n"
        "- Wir haben einen Steuerberater in der Stadt und sind mit ihm zufrieden.\n"
    ),
    "dutch": (
        "- De inboedelverzekering is van de bank en kost niet veel.\n\n"
        "- De afspraak met de tandarts is op dinsdag, maar niet voor tien uur.\n\n"
        "- Het fietsslot ligt bij de deur en de sleutel is in de kast.\n"
    ),
    "swedish": (
        "- Bilförsäkringen är hos banken och kostar inte mycket.\n\n"
        "- Vi har tid hos tandläkaren på tisdag, men inte före tio.\n\n"
        "- Vi var i sommarstugan och det regnade, men bilen är inte på land.\n"
    ),
    "danish": (
        "- Indboforsikringen er hos banken, og den koster ikke meget.\n\n"
        "- Vi har en aftale med en tandlæge på tirsdag, men ikke før ti.\n\n"
        "- Vi var i sommerhuset, og det regnede, men båden er ikke på land.\n"
    ),
    "norwegian": (
        "- Innboforsikringen er hos banken, og den koster ikke mye.\n\n"
        "- Vi har en avtale med en tannlege på tirsdag, men ikke før ti.\n\n"
        "- Vi var i sommerhuset, og det regnet, men båten er ikke på land, hva nå.\n"
    ),
    "hungarian": (
        "- A vendéghálózat jelszava nem az, ami volt, hanem pálma.\n\n"
        "- A lakásbiztosítás a banknál van, és nem drága.\n\n"
        "- Majd el kell menni a fogorvoshoz, de csak kedden.\n"
    ),
    "finnish": (
        "- Kotivakuutus on pankissa ja se ei ole kallis.\n\n"
        "- Hammaslääkäri soitti, että aika on tiistaina, mutta ei ennen kymmentä.\n\n"
        "- Kesämökki on järven rannalla ja siellä ei ole sähköä, kun kesä on ohi.\n"
    ),
}
ASKED = [
    ("german", "Versicherung", "Haushaltsversicherung"),
    ("german", "Wie heißt unsere Versicherung?", "Haushaltsversicherung"),
    ("german", "Zahnarzttermin", "Zahnarzt"),
    ("german", "Wann ist der Zahnarzttermin?", "Zahnarzt"),
    ("german", "Wo ist der Berater für die Steuer?", "Steuerberater"),
    ("dutch", "verzekering", "inboedelverzekering"),
    ("dutch", "Wanneer is de tandartsafspraak?", "tandarts"),
    ("dutch", "het slot van de fiets", "fietsslot"),
    ("swedish", "försäkring", "Bilförsäkringen"),
    ("swedish", "tandläkartid", "tandläkaren"),
    ("swedish", "Hur var det i stugan i somras?", "sommarstugan"),
    ("danish", "forsikring", "Indboforsikringen"),
    ("danish", "tandlægeaftale", "tandlæge"),
    ("norwegian", "forsikring", "Innboforsikringen"),
    ("norwegian", "tannlegeavtale", "tannlege"),
    ("hungarian", "Mi a vendégek hálózatának jelszava?", "vendéghálózat"),
    ("hungarian", "biztosításunk", "lakásbiztosítás"),
    ("finnish", "vakuutus", "Kotivakuutus"),
    ("finnish", "Milloin on hammaslääkäriaika?", "Hammaslääkäri"),
    ("finnish", "mökki", "Kesämökki"),
]


@pytest.fixture
async def asking(home):
    """Opens the index of notes in one language, each line in its own file."""

    @asynccontextmanager
    async def opened(language):
        for number, line in enumerate(NOTES[language].split("\n\n")):
            home.write(f"memory/{number}.md", line.strip() + "\n")
        home.write("memory/other.md", "- The boiler was serviced in the cellar by the engineer.\n")
        async with home.open() as backend:
            await backend.sync(SyncRequest())
            yield backend

    return opened


@pytest.mark.parametrize("language", NOTES)
async def test_a_compound_is_found_by_its_parts_and_parts_by_their_compound(asking, language):
    async with asking(language) as backend:
        for question, answer in [one[1:] for one in ASKED if one[0] == language]:
            hits = (await backend.search(SearchRequest(query=question))).hits
            assert answer in hits[0].snippet, question


async def test_a_long_word_is_found_in_a_compound_whose_other_part_is_in_no_note(home, hits_of):
    home.write("memory/a.md", "- Am Garagentor ist die Fernbedienung leer gewesen.\n")
    home.write("memory/b.md", "- Die Reifen sind nicht in der Garage, sondern im Keller.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        hits = await hits_of(backend, "Wo ist die Garage?")
    assert [hit.path for hit in hits] == ["memory/b.md", "memory/a.md"]


async def test_the_word_itself_counts_more_than_a_compound_of_it(home, hits_of):
    home.write("memory/a.md", "- Die Haushaltsversicherung ist bei der Donau.\n")
    for name in "bcdefg":
        home.write(f"memory/{name}.md", f"- Die Versicherung {name} ist nicht bei der Donau.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        hits = await hits_of(backend, "Versicherung")
    assert [hit.path for hit in hits][-1] == "memory/a.md"
    assert hits[-1].score < min(hit.score for hit in hits[:-1])


async def test_an_explanation_tells_which_compound_was_found_instead(home, hits_of):
    home.write("memory/a.md", "- Die Haushaltsversicherung ist bei der Donau.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        (hit,) = await hits_of(backend, "Versicherung", explain=True)
    assert hit.explain["matchedTerms"] == []
    assert hit.explain["otherForms"] == {"versicherung": ["haushaltsversicher"]}


@pytest.mark.parametrize("word", ["Rate", "Ration", "Gabe", "sicher"])
async def test_what_only_happens_to_stand_in_a_longer_word_is_not_found(home, hits_of, word):
    home.write(
        "memory/a.md", "- Karate, Operation und Ausgabe sind in der Versicherung nicht drin.\n"
    )
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        assert await hits_of(backend, word) == ()


@pytest.mark.parametrize("around", ["{}a9x7", f"{'auor' * 10}{{}}"])
async def test_a_word_that_stands_in_an_encoded_file_by_chance_is_no_part_of_a_compound(
    home, hits_of, around
):
    by_chance = around.format("versicherung")
    home.write("memory/a.md", f"- Die Datei ist nicht von uns: {by_chance}/q0Zt+{by_chance}==\n")
    home.write(
        "memory/b.md", "- Die Haushaltsversicherung ist bei der Donau, sie kostet 12 Euro.\n"
    )
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        hits = await hits_of(backend, "Versicherung")
    assert [hit.path for hit in hits] == ["memory/b.md"]


async def test_words_that_differ_in_their_marks_alone_are_looked_for_once(home, hits_of):
    home.write("memory/a.md", "- Die Haushaltsversicherung ist bei der Donau.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        assert len(await hits_of(backend, "Versicherung Versichérung versicherung")) == 1


async def test_a_compound_goes_with_the_last_note_that_holds_it(home, hits_of):
    home.write("memory/a.md", "- Die Haushaltsversicherung ist bei der Donau.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        home.write("memory/a.md", "- Die Haushaltshilfe kommt nicht bei der Donau vorbei.\n")
        await backend.sync(SyncRequest())
        assert await hits_of(backend, "Versicherung") == ()
        assert len(await hits_of(backend, "Haushalt")) == 1


async def test_words_of_a_language_without_compounds_are_not_looked_for_in_others(home, hits_of):
    home.write("memory/a.md", "- The workshop is where we were for the weekend.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        assert await hits_of(backend, "shop for work at the end") == ()


async def test_a_compound_is_found_until_the_last_note_that_holds_it_is_deleted(home, hits_of):
    first = home.write("memory/a.md", "- Die Haushaltsversicherung ist bei der Donau.\n")
    last = home.write("memory/b.md", "- Wir haben die Haushaltsversicherung nicht mehr.\n")
    async with home.open() as backend:
        for note, left in ((first, 2), (last, 1)):
            await backend.sync(SyncRequest())
            assert len(await hits_of(backend, "Versicherung")) == left
            note.unlink()
        home.write("memory/c.md", "- Die Reise ist nicht vor Mai, und wir fahren mit der Bahn.\n")
        await backend.sync(SyncRequest())
        assert await hits_of(backend, "Versicherung") == ()
