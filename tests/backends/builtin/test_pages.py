"""The page that a search gives: everything that earned a place is on it, and repeated text is shown once."""

from __future__ import annotations

import pytest

from backends.interface import SearchRequest, SyncRequest
from fakes.each import each

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]


@pytest.fixture
def found(home):
    """Returns a function that searches the notes of a home."""

    async def find(query, **options):
        async with home.open() as backend:
            await backend.sync(SyncRequest())
            return (await backend.search(SearchRequest(query=query, **options))).hits

    return find


async def test_a_line_in_several_notes_is_shown_once_with_the_other_places(home, found):
    for day in (1, 2, 3, 4):
        home.write(
            f"memory/2026-02-0{day}.md",
            f"# 2026-02-0{day}\n\n- [x] gym in the evening\n- item {day}\n",
        )
    (hit,) = await found("gym")
    assert "- [x] gym in the evening" in hit.snippet
    assert {hit.path, *(one.path for one in hit.also_in)} == {
        f"memory/2026-02-0{day}.md" for day in (1, 2, 3, 4)
    }
    assert {one.line for one in hit.also_in} == {3}


async def test_a_note_whose_long_line_fills_several_chunks_is_one_other_place(home, found):
    for number in (1, 2, 3):
        home.write(f"memory/{number}.md", f"# {number}\n\n" + "gym " * 2_000 + "\n")
    for hit in await found("gym"):
        assert len({one.path for one in hit.also_in}) == len(hit.also_in) == 2


async def test_what_is_asked_for_by_its_heading_is_shown_below_it(home, found):
    about = "Delivers within two weeks.\n\nPayment in thirty days, no discount.\n\n"
    names = ("Hartmann", "Brandt", "Lorenz")
    home.write(
        "memory/suppliers.md",
        "# Suppliers\n\n" + "".join(f"## {one}\n\n{one[0]}: {about}" for one in names),
    )
    hit = (await found("Brandt"))[0]
    assert "## Brandt\n\nB: Delivers within two weeks." in hit.snippet


async def test_a_line_far_below_its_heading_begins_with_the_path_of_headings(home, found):
    filling = "".join(f"- Something else, number {n}.\n" for n in range(30))
    home.write(
        "memory/house.md", f"# House\n\n## Heating\n\n{filling}- The membrane was replaced.\n"
    )
    (hit,) = await found("membrane")
    assert hit.snippet.startswith("§ House › Heating\n- Something else")
    assert hit.snippet.endswith("\n- The membrane was replaced.")
    assert hit.headings == ("House", "Heating")
    assert hit.end_line == 35
    home.write("memory/house.md", f"# House\n\n## Heating\n\n{filling}- Heating: the membrane.\n")
    (hit,) = await found("membrane")  # the words of a heading in a line are not the heading
    assert hit.snippet.startswith("§ House › Heating\n- Something else")


async def test_a_part_that_begins_with_a_heading_names_those_above_it_and_no_section_before_it(
    home, found
):
    orders = "".join(f"- Order number {n} was paid at noon.\n" for n in range(40))
    home.write(
        "memory/day.md",
        f"# Friday\n\n## Tea order\n\n{orders}\n## Choir\n\n- The singers warm up.\n{orders}",
    )
    hit = (await found("singers of the choir"))[0]
    assert hit.snippet.startswith("§ Friday\n## Choir\n\n- The singers warm up.")
    assert hit.headings == ("Friday", "Choir")


async def test_a_row_of_a_table_is_shown_with_its_head(home, found):
    rows = "".join(f"| Tenor {n} | 1{n % 10}:00 | Hall {n} |\n" for n in range(30))
    home.write(
        "memory/choir.md",
        f"# Choir\n\n| Voice | Warm-up | Room |\n|---|---|---|\n{rows}| Alto | 18:15 | Attic |\n",
    )
    hit = (await found("alto"))[0]
    assert "| Voice | Warm-up | Room |\n|---|---|---|\n" in hit.snippet
    assert "| Alto | 18:15 | Attic |" in hit.snippet


async def test_an_item_is_shown_with_the_item_that_it_is_below(home, found):
    others = "".join(f"- Filter number {n} of the big pump\n" for n in range(30))
    home.write("memory/pumps.md", f"# Pumps\n\n- Pond\n  - serviced by Lorenz\n{others}")
    hit = (await found("Lorenz"))[0]
    assert "- Pond\n  - serviced by Lorenz" in hit.snippet


async def test_a_short_procedure_is_shown_whole(home, found):
    steps = "1. Close the valve.\n2. Wait for a minute.\n3. Open the lid.\n4. Change the filter.\n"
    filling = "".join(f"Nothing to do with it, line {n}.\n\n" for n in range(30))
    home.write("memory/filter.md", f"# Filter\n\n{filling}## How\n\n{steps}\n{filling}")
    hit = (await found("open the lid"))[0]
    assert steps.strip() in hit.snippet


async def test_a_sentence_from_the_middle_of_a_long_line_is_shown_with_its_beginning(home, found):
    sentences = " ".join(f"Sentence number {n} says nothing of interest." for n in range(12))
    home.write(
        "memory/plan.md",
        f"- Travel plan: first to Lisbon. {sentences} The ferry leaves at noon. {sentences}\n",
    )
    hit = (await found("ferry"))[0]
    assert hit.snippet.startswith("- Travel plan: first to Lisbon.")
    assert "The ferry leaves at noon." in hit.snippet


async def test_of_two_notes_that_say_as_much_a_whole_prompt_means_the_later_one(home, found):
    plan = "The trip to the lake, with the tent, the canoe and the two dogs, needs a new {} first."
    home.write("memory/2025-01-10.md", f"# 2025-01-10\n\n- {plan.format('trailer')}\n")
    home.write("memory/2026-01-10.md", f"# 2026-01-10\n\n- {plan.format('paddle')}\n")
    for n in range(40):
        home.write(f"memory/other{n}.md", f"Something about house number {n}.\n")
    prompt = (
        "Hello again! We talked about the trip to the lake, the one with the tent and the canoe, and I think the dogs "
        "should come along. What does the trip need first, before we can go to the lake with the canoe and the dogs?"
    )
    hits = await found(prompt)
    assert [one.path for one in hits[:2]] == ["memory/2026-01-10.md", "memory/2025-01-10.md"]


async def test_a_name_that_stands_nowhere_makes_an_answer_unlikely_to_be_one(home, found):
    home.write("memory/kindergarten.md", "# Kindergarten\n\n- The phone number is 555 0137.\n")
    for n in range(40):
        home.write(f"memory/other{n}.md", f"Something about house number {n}.\n")
    hit = (await found("phone number of Annalise Brandt"))[0]
    assert hit.path == "memory/kindergarten.md"
    assert hit.confidence != "likely"


async def test_where_only_a_name_in_every_note_is_known_there_is_a_page_that_is_unlikely_to_answer(
    home, found
):
    for day in range(10, 30):
        home.write(f"memory/2026-01-{day}.md", f"- Annalise: went out on evening {day}.\n")
    hits = await found("What hobbies does Annalise have?")
    assert hits
    assert {one.confidence for one in hits} == {"unlikely"}


async def test_front_matter_and_what_a_note_begins_with_are_not_shown_again(home, found):
    for day in range(10, 25):
        home.write(f"memory/2026-02-{day}.md", f"# 2026-02-{day}\n\n- Worked on chapter {day}.\n")
    tasks = "".join(f"- [ ] Choose tiles, number {n}, and call about the date\n" for n in range(9))
    home.write(
        "memory/Kitchen.md",
        "---\naliases: [Kitchen renovation]\nstatus: active\ndue: 2026-06-30\n---\n\n"
        f"> The counter must be ordered before 1 May, and its delivery takes eight weeks or more.\n\n{tasks}",
    )
    hits = await found("kitchen status")
    assert "status: active" in hits[0].snippet
    assert len(hits) > 1
    assert sum("The counter must be ordered" in one.snippet for one in hits) == 1


async def test_the_less_words_tell_the_more_of_what_stands_beside_a_line_is_shown(home, found):
    filling = "".join(f"- Nothing to do with it, item number {n}.\n" for n in range(30))
    home.write("memory/boat.md", f"{filling}- The mast goes up first.\n{filling}")
    asked_briefly = (await found("mast goes first"))[0]
    asked_otherwise = (await found("mast halyard shackle spreader"))[0]
    assert len(asked_briefly.snippet) < len(asked_otherwise.snippet)
    assert "- The mast goes up first." in asked_otherwise.snippet


async def test_a_section_asked_for_by_its_name_comes_before_lines_that_hold_the_words(home, found):
    for day in range(1, 6):
        home.write(
            f"memory/{day}.md",
            f"# Day {day}\n\nThe build system was slow, and so is any system that builds.\n",
        )
    home.write(
        "memory/packages.md",
        "# Packages\n\nWheels first.\n\n## Build system\n\nOne table names the backend and what it needs.\n",
    )
    hits = await found("build system")
    assert hits[0].path == "memory/packages.md"
    assert "## Build system\n\nOne table names the backend" in hits[0].snippet


@each(
    ("asked", "file", "begins"),
    [
        ("configuring builds", "Build configuration", ""),
        ("the tide tables", "1", "---\ntitle: Tide table\n---\n"),
        ("sail repairs", "2", "---\ntitle: Second\naliases: [canvas, Sail repair]\n---\n"),
        ("mooring fees?", "3", "title:: Mooring fee\n\n"),
        ("crane hire", "2026-01-05-crane-hire", ""),
        ("winter storage", "Winter storage/README", ""),
        ("the slipway hours", "4", "Slipway hours\n\n"),
    ],
)
async def test_a_note_asked_for_by_a_name_of_its_own_comes_before_lines_that_hold_the_words(
    home, found, asked, file, begins
):
    said = (
        "The build configuration, the tide table, a sail repair, the mooring fee, the crane hire, "
        "the winter storage and the slipway hours were late."
    )
    for day in range(1, 6):
        home.write(f"memory/day {day}.md", f"# Day {day}\n\n{said}\n")
    home.write(
        f"memory/{file}.md",
        f"{begins}One page names the harbour and what it needs.\n\nTwo more are for {file}.\n",
    )
    hit = (await found(asked))[0]
    assert hit.path == f"memory/{file}.md"
    assert "One page names the harbour" in hit.snippet


async def test_the_rest_of_a_long_section_is_known_by_its_name_too(home, found):
    sailings = "".join(
        f"- Sailing number {n} leaves from the old pier at noon.\n" for n in range(120)
    )
    home.write("memory/harbour.md", f"# Harbour\n\n## Ferry timetable\n\n{sailings}")
    for day in range(1, 4):
        home.write(
            f"memory/{day}.md", f"# Day {day}\n\nNobody found the ferry timetable on day {day}.\n"
        )
    hits = await found("ferry timetable", max_results=2)
    assert [hit.path for hit in hits] == ["memory/harbour.md", "memory/harbour.md"]


async def test_a_rule_says_nothing_so_no_other_notes_are_named_for_it(home, found):
    for name in ("Kiln", "Glaze recipes", "Studio"):
        home.write(
            f"memory/{name}.md",
            f"# {name}\n\n-----\n\n## Shelf\n\n- Of all glaze recipes one is kept on the shelf {name[0]}.\n",
        )
    hits = await found("glaze recipes")
    assert hits[0].path == "memory/Glaze recipes.md"
    assert not any(hit.also_in for hit in hits)


@pytest.mark.parametrize("blank", ["\u3000", "\u00a0", "\x0b", "\u2003-", "|\u00a0|"])
async def test_a_line_of_any_blanks_is_blank(home, found, blank):
    home.write("memory/kiln.md", f"# Kiln\n{blank}\nThe kiln is oiled in May.\n{blank}\n")
    (hit,) = await found("kiln")
    assert "The kiln is oiled in May." in hit.snippet


async def test_every_part_of_a_snippet_stands_below_the_name_of_its_section(home, found):
    """Otherwise a statement about one section would seem to be about another."""
    doses = "- Dose: {0}-0-1\n- prescribed by Dr Ahl\n- valid until May {0}\n- taken with water\n\n"
    drugs = ("Ramipril", "Metformin", "Torasemide", "Bisoprolol", "Simvastatin", "Pantoprazole")
    text = "".join(f"### {one}\n{doses.format(n)}" for n, one in enumerate(drugs))
    home.write("memory/drugs.md", f"# Drugs\n\n{text}")
    for hit in await found("Dose Pantoprazole"):
        for part in hit.snippet.split("\n…\n"):
            named = [one for one in drugs if one in part]
            shown = [drugs[int(line[8])] for line in part.split("\n") if line.startswith("- Dose")]
            assert named and set(shown) <= set(named), hit.snippet


@each(
    ("question", "field"),
    [
        ("when is Tarek's birthday", "birthday: 1963-04-13"),
        ("phone Tarek", "phone: +41 79 553 12 33"),
    ],
)
async def test_a_field_of_front_matter_that_is_asked_for_is_shown(home, found, question, field):
    fields = "title: Tarek Dell\nbirthday: 1963-04-13\nphone: +41 79 553 12 33\ntags: [person]"
    body = "# Tarek Dell\n\nMet Tarek at a fair. Tarek likes sailing.\n"
    home.write("memory/Tarek Dell.md", f"---\n{fields}\n---\n\n{body}")
    home.write("memory/Zoe Oell.md", body.replace("Tarek Dell", "Zoe Oell"))
    hit = (await found(question))[0]
    assert hit.path == "memory/Tarek Dell.md"
    assert field in hit.snippet


async def test_a_question_for_the_last_time_is_not_about_the_word_and_means_the_newest(home, found):
    home.write("memory/2026-01-04.md", "# 2026-01-04\n\nThe dentist cleaned the teeth.\n")
    home.write("memory/2026-02-11.md", "# 2026-02-11\n\nThe dentist fitted the crown.\n")
    home.write(
        "memory/lists.md", "# Series\n\nThe last episode of the latest series took its time.\n"
    )
    for question in (
        "When did I last go to the dentist?",
        "when was the dentist last",
        "last time the dentist was here",
        "my latest dentist",
    ):
        assert (await found(question))[0].path == "memory/2026-02-11.md"


@each(
    ("written", "asked"),
    [
        ("(555) 123-4567", "5551234567"),
        ("5551234567", "(555) 123-4567"),
        ("5554443333", "555-444-3333"),
        ("010-1234-5678", "01012345678"),
        ("+33 6 98 76 54 32", "+33698765432"),
        ("0551234567", "055 123 4567"),
        ("020 7946 0958", "02079460958"),
        ("055 123 45 67 2 times", "0551234567"),
        ("055 123 45 67", "+33551234567"),
        ("+49 (0)55 1234567", "0551234567"),
        ("+49551234567", "0049 55 123 45 67"),
        ("612 345 678", "+34612345678"),
        ("8 (916) 123-45-67", "+79161234567"),
        ("+7 916 123 45 67", "89161234567"),
        ("06 30 123 4567", "+36301234567"),
        ("+36 30 123 4567", "06301234567"),
        ("138 1234 5678", "13812345678"),
        ("98765 43210", "+91 9876543210"),
        ("1-555-123-4567", "(555) 123-4567"),
        ("१८००२०९४४४४", "1800 209 4444"),
    ],
)
async def test_a_phone_number_is_found_however_its_digits_are_grouped(home, found, written, asked):
    home.write("memory/people.md", f"# People\n\n- Ann: {written}\n- Cat: 555-444-9999\n")
    for number in range(5):
        home.write(f"memory/n{number}.md", f"# Other\n\n- Bob: 555 000 {number}\n")
    hit = (await found(asked))[0]
    assert hit.path == "memory/people.md"
    assert written in hit.snippet


@each(
    ("note", "asked"),
    [
        ("冬季轮胎放在车库", "車庫裡的輪胎"),
        ("保險箱的密碼寫在筆記本", "保险箱密码"),
        ("猫的疫苗", "貓"),
        ("会議の資料は書庫にある", "会議 資料"),
        ("発表、会議資料。", "会議の資料"),
    ],
)
async def test_chinese_is_found_in_traditional_and_simplified_and_japanese_as_before(
    home, found, note, asked
):
    home.write("memory/one.md", f"# 1\n\n- {note}\n")
    home.write("memory/two.md", "# 2\n\n- 明天下午三点开会。\n- 朝ごはんを食べた。\n")
    assert (await found(asked))[0].path == "memory/one.md"


@each(
    ("note", "asked"),
    [
        ("החלפתי צמיגים לרכב", "איפה הצמיג"),
        ("לנו שני לילות במלון", "מלונות"),
        ("הסיסמה על מדבקה", "סיסמאות"),
        ("מכונת כביסה", "מכונות הכביסה"),
        ("دو شب در هتل ماندیم", "هتل‌های شهر"),
        ("لاستیک‌های قدیمی در انباری هستند", "لاستیک"),
        ("بودجه آشپزخانه هجده میلیون است", "بودجه‌های خانه"),
    ],
)
async def test_hebrew_and_persian_words_are_found_in_their_other_numbers(home, found, note, asked):
    home.write("memory/one.md", f"# 1\n\n- {note}\n")
    home.write("memory/two.md", "# 2\n\n- פגישה עם יוסי.\n- با رضا جلسه داشتم.\n")
    assert (await found(asked))[0].path == "memory/one.md"


@each(
    ("note", "asked"),
    [
        ("Кључеве подрума чува комшија", "kod koga su ključevi podruma"),
        ("Ključeve podruma čuva komšija, a on je na moru", "код кога су кључеви"),
        ("Асансьорът ще се ремонтира през лятото", "асансьор ремонт"),
        ("Sandėliuko raktus palikau pas kaimyną, jis yra namie", "Kas turi sandėliuko raktą?"),
        ("Igogailua udan berrituko dute, eta giltza ez dago hemen", "igogailuaren berritzea"),
    ],
)
async def test_words_are_found_in_other_forms_in_either_script_and_without_a_stemmer(
    home, found, note, asked
):
    home.write("memory/one.md", f"# 1\n\n- {note}\n")
    home.write(
        "memory/two.md", "# 2\n\n- Sastanak je u petak.\n- Kas yra svečias?\n- Етажна среща.\n"
    )
    assert (await found(asked))[0].path == "memory/one.md"
