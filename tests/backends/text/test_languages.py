"""The guess of a language: sure for sentences, none for fragments."""

import tracemalloc
import unicodedata

from backends.text.analyser import (
    DEFAULT_LATIN,
    Analyser,
    detect_language,
    guess_latin_language,
    stemmed_scripts,
    stop_bigrams,
    stop_words_of,
)
from fakes.each import each

SENTENCES = {
    "english": "We met with the supplier and he told us that the price of tea will rise in the spring.",
    "spanish": "Ayer hablamos con el proveedor y nos dijo que el precio del té va a subir en la primavera.",
    "portuguese": "Ontem falamos com o fornecedor e ele nos disse que o preço do chá não vai subir na primavera.",
    "french": "Hier nous avons parlé avec le fournisseur et il nous a dit que le prix du thé est en hausse.",
    "german": "Gestern haben wir mit dem Lieferanten gesprochen und er sagte, dass der Preis nicht steigt.",
    "italian": "Ieri abbiamo parlato con il fornitore e ci ha detto che il prezzo del tè non è più lo stesso.",
    "dutch": "Gisteren hebben wij met de leverancier gesproken en hij zei dat de prijs van het seizoen niet stijgt.",
    "swedish": "I går pratade vi med leverantören och han sa att priset på te inte är högre till våren.",
    "turkish": "Dün tedarikçi ile görüştük ve çay fiyatı için bir karar var, ama bu daha çok değil.",
    "polish": "Wczoraj nie było spotkania z dostawcą, ale cena jest już taka jak była i to się nie zmieni.",
    "czech": "Včera jsme byli u dodavatele a ten nám řekl, že cena čaje na jaře půjde nahoru, ale ne moc.",
    "hungarian": "Tegnap nem volt itt a szállító, de azt mondta, hogy az ár csak tavasszal lesz magasabb.",
    "romanian": "Ieri am vorbit cu furnizorul și ne-a spus că prețul nu mai este cel de la început.",
    "catalan": "Ahir vam parlar amb el proveïdor i ens va dir que el preu del te no serà més alt però tampoc més baix.",
    "estonian": "Eile rääkisime tarnijaga ja ta ütles, et tee hind ei ole kevadel enam see, mis ta oli.",
    "irish": "Labhair muid leis an soláthraí inné agus dúirt sé go bhfuil praghas an tae níos airde san earrach.",
    "lithuanian": "Vakar kalbėjome su tiekėju ir jis sakė, kad arbatos kaina pavasarį jau bus ne tokia, kaip buvo.",
    "serbian": "Juče smo razgovarali sa dobavljačem i rekao je da će cena čaja biti viša, ali ne mnogo.",
    "indonesian": "Kemarin kami sudah bicara dengan pemasok dan harga teh itu tidak akan naik pada musim ini.",
}


@each("language", SENTENCES)
def test_a_sentence_tells_its_language(language):
    assert guess_latin_language(SENTENCES[language]) == language


@each("language", SENTENCES)
def test_a_long_text_tells_its_language_whatever_the_default(language):
    note = "\n".join(f"- {number}: {SENTENCES[language]}" for number in range(40))
    for default in ("english", "german", "spanish"):
        assert guess_latin_language(note, default) == language


@each("language", SENTENCES)
def test_a_sentence_in_capitals_tells_its_language_too(language):
    if language != "turkish":  # its capitals lose the dots that the words have
        assert detect_language(SENTENCES[language].upper()) == language


NOTES = {
    "czech": "# Zahrada\n\n- Rajčata sázet v polovině května.\n- Jabloně prořezávat v únoru.\n- Kompost přeházet.\n",
    "finnish": "# Kevät\n\n- Hammaslääkäri: paikka vasempaan yläkuutoseen.\n- Pyörään uudet laakerit.\n",
    "hungarian": "# Kert\n\n- Paradicsom ültetése fagyosszentek után.\n- Szilvafák metszése szüret végén.\n",
    "polish": "# Ogród\n\n- Jabłonie przycinać w lutym, śliwy później.\n- Posadzić pomidory.\n",
    "romanian": "# Casă\n\n- Plăcuțele de frână schimbate.\n- Mașina la service, rețeta la farmacie.\n",
    "persian": "# خانه\n\n- لوله‌کش چهارشنبه می‌آید.\n- لاستیک‌های قدیمی در انباری هستند.\n",
    "estonian": "# Aed\n\n- Õunapuud lõigata veebruaris.\n- Tomatid istutada pärast öökülma.\n- Küün puhastada.\n",
    "lithuanian": "# Sodas\n\n- Obelų genėjimas žiemą.\n- Pomidorų sėklos, šiltnamio ąsočiai.\n- Vyšnių sirupas.\n",
    "serbian": "# Врт\n\n- Јабуке орезати у фебруару.\n- Парадајз садити после Ђурђевдана.\n",
    "swedish": "# Jobb\n\n- Anna sköter kundernas fakturor.\n- Semestrar anmäls två veckor i förväg.\n",
    "turkish": "# Bahçe\n\n- Elma ağaçları şubatta budanır.\n- Domatesler ılık suyla sulanır.\n",
}


@each("language", NOTES)
def test_a_note_in_headwords_tells_its_language_by_its_letters(language):
    assert guess_latin_language(NOTES[language]) == language
    assert guess_latin_language(unicodedata.normalize("NFD", NOTES[language])) == language


def test_a_finnish_note_of_one_line_is_finnish():
    for note in (
        "Olen allerginen pähkinöille. Hammaslääkäri huomenna.",
        "Avain on hyllyn alla oven takana.",
        "Siskoni täyttää vuosia, hän pitää teestä.",
    ):
        assert guess_latin_language(note) == "finnish"


def test_letters_of_a_language_without_a_stemmer_speak_for_no_other():
    note = "# Việc nhà\n\n- Gọi thợ sửa ống nước.\n- Mua vòng bi mới cho xe đạp.\n- Trả tiền thuê nhà.\n"
    assert guess_latin_language(note) == "vietnamese"


@each(
    ("language", "note"),
    [
        (
            "swahili",
            "# Gari\n\n- Matairi ya akiba yako kwa fundi wa barabara ya Mnazi.\n- Kodi ya nyumba ni shilingi elfu.\n",
        ),
        (
            "hinglish",
            "# Gaadi\n\n- Behen ke birthday pe kettle kharidi.\n- Tyre mechanic ke paas hain, chabi Ramesh ko di.\n",
        ),
        (
            "tagalog",
            "# Kotse\n\n- Nasa talyer ang mga gulong ng kotse, sa Lunes pa.\n- Bayad na sa renta.\n",
        ),
        (
            "basque",
            "# Etxea\n\n- Iturgina etorri da eta dutxa konpondu du.\n- Giltzak ez ditut aurkitu.\n",
        ),
    ],
)
def test_function_words_of_a_language_without_a_stemmer_speak_for_no_other(language, note):
    assert guess_latin_language(note) == language
    assert Analyser(language).terms("feet heating") == Analyser().terms("feet heating")


def stemmed(question, *languages):
    return stemmed_scripts(question, detect_language(question, languages), languages)


def test_words_of_a_question_in_english_or_a_detected_language_have_a_stemmer():
    assert DEFAULT_LATIN in stemmed("Who services the boiler?", "german", "english")
    assert DEFAULT_LATIN in stemmed("boiler membrane", "english")
    assert DEFAULT_LATIN in stemmed("Wer wartet die Therme in der Küche?", "german")
    assert "russian" in stemmed("Где лежит ключ от подвала?")


def test_words_of_a_question_in_a_language_that_is_not_known_have_none():
    assert DEFAULT_LATIN not in stemmed("Ufunguo wa ghala uko wapi?", "english", "swahili")
    assert DEFAULT_LATIN not in stemmed("ghala ya wageni", "english")
    assert DEFAULT_LATIN not in stemmed("igogailuaren berritzea", "basque")
    for question in ("Кога е ремонтът?", "ремонт ліфта на дачі", "асансьор ремонт"):
        assert "russian" not in stemmed(question)


def test_two_function_words_tell_the_language_of_a_question_if_notes_are_in_it():
    question = "Mikä on vierasverkon salasana?"
    assert detect_language(question, ("english", "finnish")) == "finnish"
    assert detect_language(question, ("english", "german")) == DEFAULT_LATIN
    assert detect_language("a828e60", ("english", "portuguese")) == DEFAULT_LATIN


def test_names_with_letters_of_other_languages_leave_english_english():
    note = "# Call\n\n- Łukasz and Renée met José at the Café Müller; they will send the offer to Zoë.\n"
    assert guess_latin_language(note) == "english"
    assert detect_language("Łukasz Wałęsa Jabłoński Kraków") == DEFAULT_LATIN


@each(
    "text",
    ["", "12 34", "OK", "boiler", "sqlite-vec", "de la", "今天开会", "встреча завтра", "🎉 !!!"],
)
def test_scraps_and_other_scripts_are_left_at_the_default(text):
    assert guess_latin_language(text) == DEFAULT_LATIN
    assert guess_latin_language(text, "german") == "german"


def test_quoted_words_of_another_language_do_not_change_it():
    assert guess_latin_language(f'{SENTENCES["english"]} He said "je ne sais quoi".') == "english"


def test_only_the_beginning_of_a_very_long_text_is_looked_at():
    assert guess_latin_language("word " * 1_000_000 + SENTENCES["german"]) == DEFAULT_LATIN


@each(
    "language",
    [
        *SENTENCES,
        "finnish",
        "russian",
        "ukrainian",
        "bulgarian",
        "greek",
        "arabic",
        "hebrew",
        "hindi",
        "persian",
        "bengali",
        "tamil",
        "urdu",
        "swahili",
        "hinglish",
        "tagalog",
        "basque",
        "vietnamese",
    ],
)
def test_every_language_has_stop_words(language):
    assert len(stop_words_of(language)) >= 30
    assert all(word == word.lower() for word in stop_words_of(language))


def test_an_unknown_language_has_none():
    assert stop_words_of("klingon") == frozenset()


def test_question_words_of_unspaced_scripts_are_pairs():
    assert {"什么", "です", "무엇"} <= stop_bigrams()
    assert all(len(pair) == 2 for pair in stop_bigrams())


def test_arabic_is_not_taken_for_persian():
    assert (
        guess_latin_language("# البيت\n\n- كلمة المرور مكتوبة تحت الراوتر، والسباك يأتي غدًا.\n")
        == "english"
    )


def test_long_runs_of_a_script_without_spaces_are_not_remembered():
    tracemalloc.start()
    try:
        for number in range(200):
            run = "".join(chr(0x4E00 + (number * 31 + at * 7) % 20_000) for at in range(1_000))
            assert guess_latin_language(run) == "english"
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()


@each(
    "note",
    [
        "See me on Monday, see Tom on Friday.",
        "# Refs\n\n- see RFC 2119 on keywords\n- see me on retries\n",
        "do a CAD file, go as is",
        "- hay for the horses\n- AI tools\n",
    ],
)
def test_english_words_that_ask_in_another_language_speak_for_none(note):
    assert guess_latin_language(note) == DEFAULT_LATIN
    assert detect_language(note, ("english", "estonian", "irish", "vietnamese")) == DEFAULT_LATIN
