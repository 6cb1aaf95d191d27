"""Text analysis: the index terms of a text in every script, by the same rules for notes and for questions.

NFKC, case and diacritics folded, stemmed where a stemmer exists, unspaced scripts as overlapping bigrams, Chinese as
simplified.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from itertools import chain
from typing import Final

from backends.text.simplified import simplified
from config.runtime.remembered import Remembered, size_of

_MARKS = (
    "(?<![\u0418\u0438])[\u0300-\u036f]"  # Latin, Greek, Cyrillic; but not the breve of U+0439
    "|[\u0300-\u0305\u0307-\u036f]"
    "|[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7]"  # Hebrew points
    "|[\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]"  # Arabic vowel signs and tatweel
    "|\u093c"  # the dot of Devanagari that many leave out
)
_ZEROS: Final = "\u0660\u06f0\u07c0\u0966\u09e6\u0a66\u0ae6\u0b66\u0be6\u0c66\u0ce6\u0d66\u0e50\u0ed0\u0f20\u1040\u17e0"
_WRITTEN_AS: Final = {
    **dict.fromkeys("\u2018\u201b\u02b9\u02bb\u02bc", "’"),
    **dict.fromkeys("\u2010\u2012\u2212", "-"),
    "\u066b": ".",
    "\u066c": ",",
    "İ": "I",
    **{chr(ord(zero) + digit): str(digit) for zero in _ZEROS for digit in range(10)},
}
"""Replacements of characters by others of the same meaning: apostrophes, hyphens, Arabic separators of
numbers, the digits of other scripts."""
_IGNORED = f"[\u00ad\u200b-\u200f\u2060\ufe00-\ufe0f\ufeff{''.join(_WRITTEN_AS)}]"
_LETTERS = str.maketrans(
    {
        "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "þ": "th",
        "ı": "i", "ё": "е", "ي": "ی", "ى": "ی", "ك": "ک", "أ": "ا", "إ": "ا", "آ": "ا", "ة": "ه",
        "\u0901": "\u0902",
    }
)  # fmt: skip
_NASAL: Final = "ङ्(?=[क-घ])|ञ्(?=[च-झ])|ण्(?=[ट-ढ])|न्(?=[त-ध])|म्(?=[प-भ])"
"""A nasal of Devanagari that is also written as a dot: `हिन्दी`, `हिंदी`."""


# Compiling the large character classes takes 10 ms, which a start with ASCII texts need not wait for.
_pattern: Callable[..., re.Pattern[str]] = cache(re.compile)


def normalise(text: str) -> str:
    """Returns a text in NFKC without invisible characters, with one kind of digits, hyphens and apostrophes; case is
    kept, because camelCase is recognised by it.
    """
    if text.isascii():
        return text
    return _pattern(_IGNORED).sub(
        lambda match: _WRITTEN_AS.get(match[0], ""), unicodedata.normalize("NFKC", text)
    )


# The first character precedes its conditions, so that the search goes from one such character to the next.
_PHONE: Final = (
    r"[+(0-9](?<![\w.,:/-].)(?:(?<=[+(0])(?=\d)|(?=\d\d[-. ]\d{3}[-. ]\d{4}\b)"
    r"|(?<=1)(?=\d\d \d{4} \d{4}\b|800[- ]\d{3}[- ]\d{3,4}\b)"  # China; free of charge
    r"|(?<=[6-9])(?=\d{4} \d{5}\b)"  # India
    r"|(?<=8)(?= ?\(\d{3,5}\)| \d{3} \d{3}[- ]\d\d[- ]\d\d\b))"  # Russia
    r"(?!\d?[./]\d\d?[./]\d)[\d() ./-]{5,21}\d(?!\w)"
)
_ENOUGH_DIGITS: Final = 10
_FEWEST_DIGITS: Final = 7
_FROM_ABROAD: Final = (
    r"(?:00)?(1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|[2-9]\d\d)0?(\d{7,12})"
)
"""The calling code of a country (ITU-T E.164: none is a prefix of another) and the number within it."""
_WITHIN: Final = {"7": "8", "36": "06"}
"""The trunk prefix within these countries; in most others it is a zero or nothing."""


_SPACED: Final = (
    r"[1-9A-Z](?<![\w.,:/+-].)(?<!\d .)"
    r"(?:(?<=\d)\d{0,2}(?: \d{3}){1,4}|(?<=[A-Z])[A-Z]\d\d(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?)"
    r"(?! \d)(?!\w)"
)
"""`18 500`, and an account number (IBAN)."""


def with_joined_numbers(text: str) -> str:
    """Returns normalised text with each number that is written in groups (a phone number, a large number, an account
    number) followed by its digits as one run. A phone number with a country code is followed by that without it, too.
    """
    return _pattern(f"(?P<spaced>{_SPACED})|{_PHONE}").sub(_with_digits, text)


def _with_digits(match: re.Match[str]) -> str:
    """Returns a number followed by its digits as one run. Numbers after a phone number are not part of it: with this
    many digits, and those of a country code, it is complete.
    """
    written, digits = match[0], ""
    if match["spaced"]:
        return f"{written} {written.replace(' ', '')}"
    groups = re.findall(r"\d+", written)
    enough = _ENOUGH_DIGITS + (1 if written[0] == "+" else 3 if written.startswith("00") else 0)
    for group in groups:
        if len(digits) >= enough:
            break
        digits += group
    said = [written]
    if len(groups) > 1 and len(digits) >= _FEWEST_DIGITS:
        said.append(digits)
    if enough > _ENOUGH_DIGITS and (abroad := re.fullmatch(_FROM_ABROAD, digits)):
        said.append(abroad[2])
    return " ".join(said)


def fold(word: str) -> str:
    """Returns normalised text with case and diacritics folded: `Ação` and `ACAO` both give `acao`."""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFD", word.casefold())
    folded = unicodedata.normalize("NFC", _pattern(_MARKS).sub("", decomposed)).translate(_LETTERS)
    return _pattern(_NASAL).sub("\u0902", folded) if "\u094d" in folded else folded


UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1100-\u11ff"  # Hangul jamo
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b"  # ideographic marks and numerals
    "\u3041-\u3096\u3099\u309a\u309d-\u309f"  # hiragana
    "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # katakana
    "\u3105-\u312f\u31a0-\u31bf"  # bopomofo
    "\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U0001b000-\U0001b16f"  # kana supplements
    "\U00020000-\U0003ffff"  # Han extensions
)
"""Scripts without word spaces, or (Hangul) with particles attached to the word: indexed as bigrams."""

MARKS = (
    "\u0300-\u036f\u0483-\u0487"  # Latin, Greek, Cyrillic accents
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Hebrew points, without the maqaf
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed"  # Arabic
    "\u0711-\u07f3"  # Syriac, Thaana, N'Ko
    "\u0900-\u0963\u0966-\u0dff"  # the scripts of India
    "\u0f18\u0f19\u0f35\u0f37\u0f39\u0f3e-\u0f84\u0f86-\u0fbc"  # Tibetan
)
"""Marks that belong to the letter before them and that `\\w` does not match."""

KANA: Final = "[\u3041-\u3096\u30a1-\u30fa]"
"""Characters that distinguish Japanese from Chinese."""


def in_simplified(run: str) -> str:
    """Returns a folded run in simplified Chinese: notes are stored so unless Japanese, questions are read as both."""
    return run.translate(simplified())


EMOJI = "\u2190-\u24ff\u25a0-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
"""Arrows, symbols and pictographs, each a term of its own; without box-drawing characters and block elements."""


_BY_SCRIPT: Final = (
    ("[\u0400-\u04ff]", "russian"),
    ("[\u0370-\u03ff\u1f00-\u1fff]", "greek"),
    ("[\u0600-\u06ff]", "arabic"),
    ("[\u0900-\u097f]", "hindi"),
    ("[\u0b80-\u0bff]", "tamil"),
    ("[\u0530-\u058f]", "armenian"),
)

_IRREGULAR_ENGLISH: Final = """
    be: am is are was were been
    have: has had
    do: did done does
    go: went gone goes
    say: said|see: saw seen|get: got gotten|make: made|know: knew known|think: thought|take: took taken
    come: came|give: gave given|find: found|tell: told|feel: felt|become: became|leave: left
    bring: brought|begin: began begun|keep: kept|hold: held|write: wrote written|stand: stood
    hear: heard|mean: meant|meet: met|run: ran|pay: paid|sit: sat|speak: spoke spoken
    lead: led|grow: grew grown|lose: lost|fall: fell fallen|send: sent|build: built
    understand: understood|draw: drew drawn|break: broke broken|spend: spent|rise: rose risen
    drive: drove driven|buy: bought|wear: wore worn|choose: chose chosen|eat: ate eaten|teach: taught
    catch: caught|fight: fought|sell: sold|sleep: slept|win: won|sing: sang sung|swim: swam swum
    throw: threw thrown|fly: flew flown|forget: forgot forgotten|forgive: forgave forgiven
    drink: drank drunk|ride: rode ridden|shake: shook shaken|steal: stole stolen|wake: woke woken
    bite: bit bitten|blow: blew blown|hide: hid hidden|freeze: froze frozen|tear: tore torn
    feed: fed|lend: lent|light: lit|seek: sought|shoot: shot|shrink: shrank shrunk
    sink: sank sunk|stick: stuck|strike: struck|swear: swore sworn|sweep: swept|weave: wove woven
    child: children|person: people|man: men|woman: women|foot: feet|tooth: teeth|mouse: mice
    goose: geese|wife: wives|knife: knives|half: halves|shelf: shelves
    analysis: analyses|index: indices indexes|criterion: criteria|medium: media
    good: better best|bad: worse worst
"""


@cache
def _irregular() -> dict[str, str]:
    forms: dict[str, str] = {}
    for entry in _IRREGULAR_ENGLISH.replace("\n", "|").split("|"):
        if entry.strip():
            base, _, inflected = entry.partition(":")
            forms.update(dict.fromkeys(inflected.split(), base.strip()))
    return forms


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    from Stemmer import Stemmer  # noqa: PLC0415 - loaded with the first text, not at start

    known = DEFAULT_LATIN if language in _UNSTEMMED else language
    stem: Callable[[str], str] = Stemmer(known, 0).stemWord
    return stem


def script_language(word: str) -> str | None:
    """Returns the language that a non-Latin script stands for, or None for Latin and unknown scripts."""
    if word.isascii():
        return None
    return next(
        (language for letters, language in _BY_SCRIPT if _pattern(letters).search(word)), None
    )


def stem(word: str, language: str) -> str:
    """Returns the stem of a case-folded `word`; `language` (a Snowball name) decides for Latin script."""
    if language == DEFAULT_LATIN or language in _UNSTEMMED:
        word = _irregular().get(word, word)
    return _stemmer(language)(word)


def _definite(word: str, language: str) -> str:
    """Returns the indefinite form of a Swedish word that may end in an article which its stemmer leaves: `flicka` of
    `flickan`; empty for other words.
    """
    return word[:-1] if language == "swedish" and len(word) > 4 and word.endswith("an") else ""


DEFAULT_LATIN: Final = "english"

_STOP_WORDS: Final = {
    "english": """
        a about above after again all also am an and any are arent as at be because been before
        being below between both but by can cant could couldnt did didnt do does doesnt doing don
        dont down during each few for from further had hadnt has hasnt have havent having he her
        here hers him his how i id if ill im in into is isnt it its itself ive just lets like me
        might more most must my myself no nor not now of off on once only or other our ours out over
        own shall she should so some such than that thats the their theirs them then there these
        they theyre this those through to too under until up upon us very was wasnt we were werent
        what whats when where which while who whom whose why will with wont would wouldnt you your
        youre yours""",
    "spanish": """
        a al ante como con contra cuál cuáles cuándo cuánto cómo de del desde dónde e el ella ellos
        en entre era es esa ese eso esta estaba estas este estos está están fue fueron ha había
        hacia han hasta hay hemos la las le les lo los me mi muy más ni no nos o para pero por que
        quién quiénes qué se según ser si sin sobre son su sus sí también te tras tu u un una unas
        unos y ya yo él""",
    "portuguese": """
        a ao aos aquela aquele as até com como da das de do dos e ela elas ele eles em entre era
        essa esse esta estava este está estão eu foi foram há isso isto já lhe mais mas me meu minha
        muito na nas no nos não nós o onde os ou para pela pelas pelo pelos por porque quais qual
        quando quanto que quem se sem ser seu seus sim sob sobre sua suas são também te tem têm um
        uma umas uns você vocês à às é""",
    "french": """
        a ai as au aussi aux avec avez avons ce ces cet cette chez combien comment d dans de des du
        elle elles en entre es est et il ils je l la le les leur leurs ma mais mes mon n ne ni nous
        ont ou où par pas plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa
        sans se ses si sommes son sont sous suis sur ta tes ton très tu un une vers vous y à était
        été êtes être""",
    "german": """
        aber als am an auch auf aus bei beim das dass daß dein dem den der des dich die diese dieser
        dieses dir du durch ein eine einem einen einer eines er es euch für gegen haben hat hatte
        ich ihr im in ist kein keine man mein mich mir mit nach nicht noch nur oder ohne schon sehr
        sein sich sie sind um und uns unter vom von vor wann war waren warum was welche welcher
        welches wem wen wenn wer werden wie wir wird wo wurde wurden zu zum zur über""",
    "italian": """
        a agli ai al alla alle allo anche che chi ci come con da dal dalla degli dei del della delle
        dello di dove e ed era erano essere fra gli ha hanno i il in io la le lei lo loro lui ma mi
        molto negli nei nel nella nelle nello noi non o per perché più quale quali quando quanto
        quella quello questa questo se si sono stato su sua sue sul sulla suo suoi ti tra tu un una
        uno vi voi è""",
    "dutch": """
        aan al als bij dat de deze die dit door een en er geen haar had hebben heeft hem het hij hoe
        hun ik in is je jij jouw jullie maar me met mij mijn naar niet nog of om onder ons ook op
        over te tegen tot uit van voor waar waarom wanneer waren was wat we welke werd wie wij
        worden wordt ze zeer zij zijn zonder""",
    "swedish": """
        att av blev bli blir de den denna dessa det detta dig du där efter eller en ett från för
        hade han har hon hur här i inte jag kan med men mig mycket ni när och också om på sig ska
        skulle som så till under utan vad var varför vem vi vid vilka vilken vilket är över""",
    "danish": """
        af at blev bliver de den denne der det dette dig disse du efter eller en er et for fra han
        har havde her hun hvad hvem hvilken hvilket hvor hvordan hvorfor i ikke jeg kan med meget
        men mig når og også om over på sig skal skulle som så til uden under var ved vi""",
    "norwegian": """
        at av ble blir de deg den denne der det dette disse du eller en er et etter for fra hadde
        han har her hun hva hvem hvilken hvilket hvor hvordan hvorfor i ikke jeg kan med meg men mye
        når og også om over på seg skal skulle som så til under uten var ved vi""",
    "finnish": """
        aikana alla asti edessä ei en ennen ensi että he heidän heille heillä heitä hän hänelle
        hänellä hänen häntä ilman ja jo joka jonka jos jossa josta jota jotka jälkeen kanssa kautta
        keitä kenelle kenellä kenen kenet ketä koska kuin kuinka kuka kumpi kun luona me meidän
        meille meillä meitä mihin miksi mikä millainen mille milloin millä minkä minua minulla
        minulle minun minut minä missä mistä miten mitkä mitä montako mukaan mutta myös ne niiden
        niin niitä noin nyt nämä ole olemme olen olet olette oli olimme olin olisi olit olitte olla
        ollut on ovat paljonko pitää päällä saakka se sekä sen siellä siinä siitä sinua sinulla
        sinulle sinun sinä sitä tai takana takia te teidän teillä teitä tuo tämä tämän tässä tästä
        tätä täytyy täällä vain vielä vieressä yllä""",
    "turkish": """
        ama ben bir biz bu da daha de değil en gibi hangi her ile ise için kadar kaç ki kim mi mu mü
        mı nasıl ne neden nerede niçin o olan olarak oldu olduğu onlar sen siz var ve veya yok çok
        şu""",
    "polish": """
        albo ale bardzo bez być był była było były ci cię co czy dla dlaczego do gdzie go i ich ile
        ja jak jaka jaki jakie jakiej jakim jaką jej jest już kiedy komu kto która które którego
        której który którym którą lub ma mają mnie my na nad nie o od on ona oni oraz po pod przez
        przy się są ta tak te ten też to ty tylko u w wy z za że""",
    "czech": """
        aby ako aká aké akú aký ale alebo ani až bol bola boli bolo bude budeme budou byl
        byla byli bylo být co do jak jako jakou jaká jaké jaký je jeho jejich její jen jsem
        jsi jsme jsou jste kde kdo kdy když ke kedy keď koho kolik komu koľko kterou která
        které kterého kterému který kto ktorá ktoré ktorú ktorý mají mi mojej má mám máme mě
        mňa na nad ne nebo není nie nás od po pod prečo pri proč před při sa se si so som sú
        ta také tato ten tento to toto ty už ve za ze zo čo že""",
    "hungarian": """
        a abban aki alatt ami az azt be csak de ebben egy el előtt engem ez ezek ezen ezt fel ha
        hogy hogyan hol honnan hova hová hány is itt kell ki kinek kivel között le lehet lenne lesz
        majd meg mekkora melyik mennyi mi miben mikor milyen minden mint mire mit mivel miért most
        már még nagyon nekem neki nekünk nem nincs ott szerint te ti után vagy vagyok vagyunk van
        vannak velem volt voltak voltam voltunk voltál én és így úgy ő ők""",
    "romanian": """
        a aceasta această acest acesta ai al ale am are au avem care ce cea cei cel cele cine cu cum
        când cât că dar de despre din după e ea ei el ele era erau este eu fi foarte fost in la lor
        lui mai mea meu niște noastră noi nostru nu o pe pentru prin până sau se sunt să tu un unde
        voi îi îmi în şi și""",
    "indonesian": """
        ada adalah agar akan apa atas atau bagaimana bagi bahwa belum berapa bisa dalam dan dapat
        dari dengan di dia harus hingga ini itu jika juga kami kamu kapan karena ke kepada ketika
        kita lebih mana masih mengapa mereka namun oleh pada para sampai sangat saya sebagai sebelum
        sejak selama semua seperti serta setelah setiap siapa sudah supaya tanpa tapi telah tentang
        tetapi tiap tidak untuk yang""",
    "catalan": """
        a al als amb aquest aquesta com d de del dels des el ella els em en ens entre era
        estan està fa ha han hem hi i l la les li lo meu meva no o on pel per perquè però
        quan quant quanta quantes quants que qui quin quina què se sense ser seva si sobre
        sóc són també te tenim tinc té un una va vaig vam és""",
    "estonian": """
        aga ei et ja ju juurde ka kas keda kelle kellel kes kui kuidas kus kust ma me meie
        meil mida miks millal mille millega millele mina minu mis mitu mu mul mulle nad ning
        oled olen oli olid oma on palju pole sa seal seda see selle siin siis ta te teda või
        üle""",
    "irish": """
        a ag agam agus aige ann ar as atá bhfuil bhí cad cathain chuig cá cé de den do don
        dá faoi gan go gur i is le leis liom mar mhéad mo mé na nach ní níl nó roimh sa san
        seo sin tá um ó""",
    "lithuanian": """
        apie ar aš bet bus buvau buvo būti dėl iki ir iš jau jei ji jie jis kad kada kai
        kaip kam kas kiek ko kodėl kokia koks kokį kur kuri kurie kuris ką man mane mano mes
        mums mūsų ne nes nuo nėra o pas per po prie su ta tai taip tas tik turi už yra į ši
        šis""",
    "serbian": """
        ali bi bila bili bilo bio biti da dok gde gdje i ili iz ja je jesmo jesu još kad
        kada kako ko kog koga koja koje kojeg kojem koji kojoj koju koliko li me mi mogu moj
        moja moje mu na ne ni nije od on ona oni po sa sam se si smo su svoj ta taj te tko
        to u za zašto zbog će ćemo ću šta što где зашто када како кога колико која које који
        није смо су ти шта је још ће ћемо ћу""",
    "tagalog": """
        ako ang ano anong at ay ba bakit dahil din gaano ilan ilang ito iyon kailan kami
        kanino kay kaya ko kung lang magkano mga mo na nang nasa nasaan ng ngayon ni nila
        niya paano para pero po rin sa saan si sila sino siya tayo yung""",
    "vietnamese": """
        ai bao bị cho chưa các cái có của gì hay khi không là lâu lúc mà mình mấy nhiêu
        những nào này nên ra rồi sao sẽ theo thì thế trong tôi từ và vào vì về với đang được
        đến để ở""",
    "basque": """
        al baina bat bere da dago dakit daude dira dit ditu ditugu ditut du dudan dugu dut
        dute edo egin ere eta ez gara gure hau hori izan naiz nire noiz nola non nondik nor
        nora nori nork zein zen zenbat zer zergatik zuen""",
    "swahili": """
        au baada bado cha gani hadi hayo hii hiyo hizi huu huyo ile ipi je kabla kama katika kuhusu
        kuwa kwa kwenye la lakini langu lini lipi na nani ngapi ni nini pia sana si tangu tayari tu
        vipi vya wa wake wangu wapi ya yake yangu yule yupi za zangu zile""",
    "hinglish": """
        apna apni aur bhi hai hain hi hota hoti ka kab kahan kaise kaun ke ki kis kisko kitna kitne
        kitni ko kya kyun liye mein mera mere meri nahi nahin ne pe se tha thi toh wala wale wali
        woh ya yeh""",
    "russian": """
        а без более больше будет бы был была были было быть в вам вас во вот все всегда всех всю вы
        где да даже для до другой его ее ей ему если есть еще же за зачем здесь и из или им иногда
        их к как какая какие какой каком когда конечно кто куда ли лучше между меня мне много может
        можно мой моя мы на над надо нас не него ней нет ни нибудь ним них ничего но ну о об один он
        она они от перед по под после потом потому почему почти при про раз с сам свою себе себя
        сейчас сколько со так такой там тебя тем теперь то тогда того тоже только том тот три тут ты
        у уже хоть чего чей чем через что чтоб чтобы эти это этого этой этом этот эту я""",
    "ukrainian": """
        або але б без би бо був буде була були було бути біля в вже від де для до ж же з за звідки
        зі й кого кому куди між на над не ні перед по при про під після скільки та так також того
        той ті тільки тієї у хто це цей цього цьому цю ця ці цієї через чи чий чим чия чиє чого чому
        ще що щоб щодо як яка яке який яким яких якого якої яку якщо які якій є і із""",
    "greek": """
        ένα ένας ή ήδη ήταν ακόμα αλλά αν από ας για γιατί δε δεν είναι είτε ενός επειδή η θα και
        κατά κι μέχρι μία με μετά μη μην μια μιας μόνο να ο οι ούτε παρά πιο ποια ποιας ποιες ποιο
        ποιοι ποιον ποιος ποιου πολύ που πού πριν προς πως πόσα πόσες πόσο πόσοι πότε πώς σε στα στη
        στην στις στο στον στου στους τα τη την της τι τις το τον του τους των χωρίς ως όμως όπως
        όταν ότι ώστε""",
    "arabic": """
        أن أنه أو أي أيضا أين إذا إلى إن التي الذي الذين بعد بعض بل بين تكون تلك ثم حتى حول خلال ذلك
        سوف عن عند فقط في قبل كأن كان كانت كل كم كيف لأن لا لكن لم لماذا لمن لن لو ليس ليست ما ماذا
        متى مع من منذ هؤلاء هذا هذه هل هناك هو هي و يكون""",
    "hebrew": """
        אבל או אז אחרי איזה איזו איך אילו אין איפה אל אלו אם אצל את באיזה באיזו בגלל בין בלי בשביל
        גם האם היה היו הייתה היכן היתה זאת זה זו יהיה יש כאשר כבר כי כל כמה כמו כן לא לאיזה לאיזו
        לאן למה לפני מאיזה מאיפה מדוע מה מי מן מתי עד עוד על עם רק של תהיה""",
    "hindi": """
        अगर इस इसका इसकी इसके इसे और कब कहाँ कहां का कि कितना कितनी कितने किस किसका किसकी किसके
        किसको किसने किसे की के कैसा कैसे को कौन क्या क्यों क्योंकि जो तक तो था थी थे न नहीं ने पर
        पहले पास बाद भी मगर में यह या ये लिए लेकिन साथ से ही हूँ हूं है हैं हो होगा होता होती""",
    "persian": """
        آن آیا از است اگر این با باید برای به بود تا در را شد شده شود می نیز هر هست هستند هنوز پیش
        چرا چطور چقدر چند چه چگونه چی چیست کجا کجاست کدام که کی یا""",
    "bengali": """
        আগে আছে আর এই এটা এবং ও কখন কত কবে কয়টা কাকে কাছে কার কি কিন্তু কী কীভাবে কে কেন কেমন
        কোথায় কোন ছিল জন্য তবে তো থেকে দিয়ে না নিয়ে নেই পরে পর্যন্ত বা যদি যা যে সঙ্গে সাথে সেই
        হয় হল হলো""",
    "bulgarian": """
        аз беше бях във го да до е за защо и как кака каква какви какво какъв кога кого кое
        кои кой колко коя къде ли ме ми мога на не ни от по при са се си сме съм със тази те
        тези ти това този ще я""",
    "urdu": """
        اس ان اور ایک تھا تھی تھے جو سے لیے میں نہیں نے وہ پاس کا کب کتنا کتنی کتنے کس کسی
        کو کون کہاں کیا کیسے کیوں کے گا گی ہو ہوگا ہوگی ہیں ہے یہ""",
    "tamil": """
        அது அந்த அல்லது ஆனால் இது இந்த இருக்கிறது இருந்து இல்லை உள்ள உள்ளது உள்ளன எங்கு எங்கே எது
        எத்தனை எந்த என என்ன என்று எப்படி எப்போது எவ்வளவு ஏன் ஒரு தான் பற்றி மற்றும் மூலம் யாரிடம்
        யாருக்கு யார் வரை""",
}

_STOP_PHRASES: Final = """
    什么 怎么 怎样 如何 哪些 哪个 哪里 哪儿 为什么 是否 可以 请问 多少 什麼 怎麼 怎樣 哪個 哪裡 為什麼 是什么 的是
    時候 时候 有没有 是不是 我们 他们 这个 那个 一个
    です ます した する して いる ある どう どこ いつ だれ なに 何が 何を という について ですか ますか でした
    ました ください から まで この その それ これ には では とは のは のか
    무엇 무엇을 어떻게 언제 어디 어디서 누가 하나요 인가요 입니까 합니까 있나요 있는 하는 무슨 어떤 얼마나 습니다 습니까
"""

PERSIAN: Final = "persian"
_SERBIAN: Final = "serbian"
"""With Croatian and Bosnian; its stemmer writes Cyrillic words in Latin letters."""
_ALSO_IN: Final = {PERSIAN: "arabic", _SERBIAN: "russian"}
"""The languages by whose stemmer the words of a script are stemmed in notes of another one."""
_OTHER_SCRIPTS: Final = (
    "russian", "ukrainian", "bulgarian", "greek", "arabic", "hebrew", "hindi", PERSIAN, "urdu", "bengali", "tamil"
)  # fmt: skip
"""Languages whose lists are used for every question. The lists lack words that are a name when folded, or another word
in another language of the script (`على`, `أم`, `коли`), and, except for the Russian one, pronouns: if those were stop
words, two words would be left of `मेरा पासपोर्ट नंबर क्या है`, and any note with a number would be likely to answer.
"""
_LATIN_LANGUAGES: Final = tuple(name for name in _STOP_WORDS if name not in _OTHER_SCRIPTS)
_LETTERS_OF: Final = {
    language: frozenset(letters)
    for language, letters in {
        "spanish": "áéíñóúü",
        "portuguese": "áâãàçéêíóôõú",
        "french": "àâæçéèêëîïôœùûü",
        "german": "äöüß",
        "italian": "àèéìòù",
        "dutch": "ëéèïö",
        "swedish": "åäö",
        "danish": "åæø",
        "norwegian": "åæø",
        "finnish": "äö",
        "turkish": "çğıöşüâ",
        "polish": "ąćęłńóśźż",
        "czech": "áčďéěíňóřšťúůýžĺľŕô",
        "hungarian": "áéíóöőúüű",
        "romanian": "ăâîșțşţ",
        "catalan": "àçèéíïòóúü",
        "estonian": "äõöüšž",
        "irish": "áéíóú",
        "lithuanian": "ąčęėįšųūž",
        "serbian": "čćđšž",
        "vietnamese": "àáâãèéêìíòóôõùúýăđĩũơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
    }.items()
}
"""Letters that English lacks, by language: a word that has no others may be of that language."""
_SAMPLE_CHARS: Final = 3_000
_WORD = re.compile(r"[^\W\d_]+")
_NO_LETTERS = {code: " " for code in range(128) if not chr(code).isalpha()}


@cache
def stop_words_of(language: str) -> frozenset[str]:
    """Returns the stop words of one language, with diacritics; empty for a language without a list."""
    return frozenset(_STOP_WORDS.get(language, "").split())


@cache
def _languages_by_stop_word() -> dict[str, tuple[str, ...]]:
    """Returns the languages that each stop word is evidence for."""
    languages: dict[str, list[str]] = {}
    for language in _STOP_WORDS:
        for word in stop_words_of(language):
            found = languages.setdefault(word, [])
            if word not in _ALSO_ENGLISH.get(language, ()):
                found.append(language)
    return {word: tuple(names) for word, names in languages.items()}


_ALSO_ENGLISH: Final = {
    "catalan": ("com", "hi", "per", "sense"),
    "estonian": ("pole", "see"),
    "irish": ("cad", "go", "san", "seo"),
    "lithuanian": ("bet", "bus", "man", "per"),
    "serbian": ("bio",),
    "tagalog": ("lang",),
    "vietnamese": ("ai", "hay"),
    "basque": ("non",),
}
"""Stop words that English notes have, too: they are no evidence for these languages."""


@cache
def every_stop_word() -> frozenset[str]:
    """Returns the stop words of all languages."""
    return frozenset(_languages_by_stop_word())


@cache
def stop_words_of_other_scripts() -> frozenset[str]:
    """Returns the stop words of languages not written in Latin script, folded: their marks are often left out."""
    return frozenset(fold(word) for language in _OTHER_SCRIPTS for word in stop_words_of(language))


@cache
def stop_bigrams() -> frozenset[str]:
    """Returns the character bigrams of question and function words in the scripts without word spaces."""
    return frozenset(
        phrase[i : i + 2] for phrase in _STOP_PHRASES.split() for i in range(len(phrase) - 1)
    )


def guess_latin_language(text: str, default: str = DEFAULT_LATIN) -> str:
    """Returns the language with the most different stop words, and words with letters of its own, in the beginning of a
    note.

    With fewer than three, or less than one different word in twenty-five, it is `default`. Two are enough among many
    words without a stop word of the default.
    """
    words = _words_in(text)
    found = _stop_words_among(words)
    if not text.isascii():
        found.update(_words_by_letters(words))
    least = 2 if not found[default] and len(words) >= _MANY_WORDS else _LEAST_FOUND
    languages = (*_LATIN_LANGUAGES, *_UNSTEMMED, PERSIAN)
    return _best(found, default, max(least, len(words) / 25), languages)


def detect_language(text: str, expected: Iterable[str] = ()) -> str:
    """Returns the language of a question by its stop words alone: letters of another language may be in a name. Two are
    enough for a language that is `expected`, as that of a note.
    """
    words = _words_in(_pattern(r"\b[^\W\d]*+\d\w*+").sub(" ", normalise(text)))
    found = _stop_words_among(words)
    many = len(words) / 25
    best = _best(found, DEFAULT_LATIN, max(_LEAST_FOUND, many), _LATIN_LANGUAGES)
    if best == DEFAULT_LATIN and expected:
        return _best(found, DEFAULT_LATIN, max(_LEAST_EXPECTED, many), expected)
    return best


def _best(found: Counter[str], default: str, least: float, languages: Iterable[str]) -> str:
    best = max(languages, key=found.__getitem__)
    return best if found[best] > found[default] and found[best] >= least else default


_MANY_WORDS: Final = 10
_LEAST_FOUND: Final = 3
_LEAST_EXPECTED: Final = 2
_UNSTEMMED: Final = ("vietnamese", "swahili", "hinglish", "tagalog", "basque")
"""Languages without a stemmer, whose words are no evidence for others; their notes, full of English, are stemmed as
that.
"""
_PERSIAN_LETTERS: Final = frozenset("پچژگکی")
"""Letters that Arabic does not have, or writes with another character: one is enough. Latin words of a Persian note are
English.
"""
_NOT_RUSSIAN: Final = "[\u0450\u0452-\u04ff]"
_SERBIAN_LETTERS: Final = frozenset("ђјљњћџ")
"""Letters that Russian lacks: one is enough."""
_FINNISH: Final = ("ää", "öö", "yy")
"""Pairs that distinguish it from German and Swedish, which share its letters."""
_NO_ASCII: Final = dict.fromkeys(range(128))


def _stop_words_among(words: set[str]) -> Counter[str]:
    """Returns the number of stop words among these words, by language."""
    languages = _languages_by_stop_word()
    return Counter(chain.from_iterable(map(languages.__getitem__, languages.keys() & words)))


def _words_in(text: str) -> set[str]:
    """Returns the different words in the beginning of `text`."""
    sample = text[:_SAMPLE_CHARS].lower()
    if sample.isascii():  # twice as fast
        return set(sample.translate(_NO_LETTERS).split())
    return set(_WORD.findall(unicodedata.normalize("NFC", sample)))


def _words_by_letters(words: set[str]) -> Counter[str]:
    """Returns, by language, how many of these words, without stop words, may be of it by letters that English lacks."""
    stop_words = _languages_by_stop_word()
    languages = (
        _known_languages(word) if len(word) <= _MAX_TERM else _languages_by_letters(word)
        for word in words
        if not word.isascii() and word not in stop_words
    )
    return Counter(chain.from_iterable(languages))


def _languages_by_letters(word: str) -> tuple[str, ...]:
    """Returns the languages that a word counts for, as often as it does."""
    if not _PERSIAN_LETTERS.isdisjoint(word):
        return (PERSIAN,) * _LEAST_FOUND
    if not _SERBIAN_LETTERS.isdisjoint(word):
        return (_SERBIAN,) * _LEAST_FOUND
    letters = word.translate(_NO_ASCII)
    found = tuple(name for name, known in _LETTERS_OF.items() if known.issuperset(letters))
    return (*found, "finnish") if any(pair in word for pair in _FINNISH) else found


_known_languages = lru_cache(maxsize=4096)(_languages_by_letters)
"""For words; runs of scripts without spaces may be as long as a note."""


COMPOUNDING: Final = frozenset(
    {"german", "dutch", "swedish", "danish", "norwegian", "finnish", "hungarian"}
)
"""Languages that write compounds as one word."""


def may_hold_compounds(text: str) -> bool:
    """Returns whether no other language has more stop words in normalised `text` than those that write compounds."""
    found = _stop_words_among(_words_in(text))
    most = max((found[language] for language in COMPOUNDING), default=0)
    return most >= max(found.values(), default=0)


def stemmed_scripts(text: str, language: str, languages: Iterable[str]) -> frozenset[str]:
    """Returns the scripts, by the language that they stand for, whose words in a normalised question have a stemmer.

    `language`: that of its Latin words, as detected. English counts if its stop words say so or, where no other
    language has more, all `languages` of notes have one; Russian if its stop words and the letters say so.
    """
    found = _stop_words_among(_words_in(text))
    most = max(found.values(), default=0)
    stemmed = {"greek", "armenian"}
    if found["russian"] == most > 0 and not _pattern(_NOT_RUSSIAN).search(text.lower()):
        stemmed.add("russian")
    if language != DEFAULT_LATIN:
        is_stemmed = language not in _UNSTEMMED
    else:
        english = found[DEFAULT_LATIN]
        is_stemmed = english == most and (
            english >= _LEAST_EXPECTED or {*_UNSTEMMED}.isdisjoint(languages)
        )
    return frozenset({*stemmed, DEFAULT_LATIN} if is_stemmed else stemmed)


ANALYSER_VERSION: Final = 13
"""Increases with every change of the terms of a text: stored indexes are then rebuilt."""

_MAX_TERM = 64
WORDS_BYTES: Final = 6 * 1024 * 1024
"""The bytes of some 30,000 words."""

_UNSPACED_LETTER = f"[{UNSPACED}]"
_LETTERS_RUN = f"(?:[^\\W{UNSPACED}]++|[{MARKS}])++"
_JOINT = "[-._/:@#+&=,'’]"
# Before Python 3.11.5 a possessive quantifier keeps part of a failed round: the joint after the last word.
_ASCII_TOKEN = re.compile(f"[A-Za-z0-9_]++(?:{_JOINT}[A-Za-z0-9_]++)*|\n")

_JOINT_LEVELS: Final = (re.compile("[/:@#&=,]"), re.compile("[.]"), re.compile("[-_+]"))
"""Loosest joint first: `notes/2026-01-02.md` is a path of a file name of a date."""
_APOSTROPHE = re.compile("['’]")
_ELISION = "^(?:[cdjlmnstv]|(?:jus|lors|puis|quoi|quel)?qu|un|gl|quest|sant|(?:[ds]?a|de|ne|su|co|que|be)ll)['’](?=..)"
_WITH_ENDING = r"(\w{3,})['’](?!(?:d|em|ll|m|re|s|t|tis|ve)\b)(\w{1,6})"
"""A name and its suffix, as in Turkish: `İzmir'deki`."""
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")
_NOT_WORD = re.compile(f"(?:{_JOINT}|_)+")
_UNIT = re.compile(r"([^\W\d_]{1,3})(\d{1,6})|(\d{1,6})([^\W\d_]{1,3})")
_AMOUNT = re.compile(r"([^\W\d_]{1,3})?(\d{1,3}(?:[.,]\d{3})+(?:[.,]\d\d?)?)([^\W\d_]{1,3})?")
_LONGEST_DATE = 8
_LONG_NUMBER = re.compile(r"\d+(?:-\d+)+")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_CAMEL = re.compile("[a-z][A-Z]|[A-Z]{2}[a-z]")
_ANY_HUMPS = 20
"""Tokens up to this length are split at their capitals, whatever the humps."""


_ANY_TOKEN = f"{_LETTERS_RUN}(?:{_JOINT}{_LETTERS_RUN})*|[{UNSPACED}]++|[{EMOJI}]|\n"


class Analyser:
    """Analyses texts in one (Latin-script) language. Cheap to create; remembers words."""

    def __init__(self, language: str = DEFAULT_LATIN, words_bytes: int = WORDS_BYTES) -> None:
        """`words_bytes`: the memory for words."""
        self.language = language
        self._words: Remembered[str, str] = Remembered(words_bytes, _word_bytes)

    @property
    def bytes_used(self) -> int:
        """The bytes of the remembered words."""
        return self._words.bytes_used

    def terms(self, text: str) -> str:
        """Returns the terms of `text`, separated by single spaces, in order, with repetitions."""
        return self._joined(tokens(with_joined_numbers(normalise(text))))

    def terms_by_line(self, text: str) -> str:
        """Returns the `terms` of each line of `text`, joined by newlines: much faster than one call per line."""
        joined = self._joined(_tokens_and_ends(with_joined_numbers(normalise(text))))
        return joined.replace(" \n", "\n").replace("\n ", "\n")

    def _joined(self, tokens_found: list[str]) -> str:
        found = list(map(self._words.newer.get, tokens_found))
        if None in found:
            found = [
                self._word_terms(token) if terms is None else terms
                for token, terms in zip(tokens_found, found, strict=True)
            ]
        return " ".join(filter(None, found))

    def concepts(self, token: str) -> tuple[tuple[str, ...], ...]:
        """Returns the concepts of one token of normalised text, each with its alternative terms.

        A plain word is one concept; an identifier is the whole and each of its parts. The number and order of the
        concepts do not depend on the language, only their terms do.
        """
        if is_unspaced(token):
            run = fold(token)
            pairs = zip(_bigrams(run), _bigrams(in_simplified(run)), strict=True)
            return tuple(tuple(dict.fromkeys(pair)) for pair in pairs)
        if token.isalnum() and not _CAMEL.search(token) and not _UNIT.fullmatch(token):
            stems = self._stems(token)
            return (stems,) if stems[0] else ()  # only marks that folding drops
        return tuple(self._word_concepts(token, has_words=_has_words(token)))

    def _word_terms(self, token: str) -> str:
        known = self._words.get(token)
        if known is not None:
            return known
        if token.isspace():  # the end of a line, in `terms_by_line`
            joined = token
        elif token.isascii() and token.isalpha() and token[1:].islower():  # most words
            joined = " ".join(self._stems(token))
        elif is_unspaced(token):
            run = fold(token)
            run = run if _pattern(KANA).search(run) else in_simplified(run)
            joined = " ".join((*_bigrams(run), run[-1]) if len(run) > 1 else run)
        else:
            concepts = dict.fromkeys(self.concepts(token))
            joined = " ".join(term for alternatives in concepts for term in alternatives)
        if joined == token:
            joined = token  # one text instead of two
        if len(token) <= _MAX_TERM:
            self._words.put(token, joined)
        return joined

    def _word_concepts(
        self, token: str, level: int = 0, *, has_words: bool
    ) -> Iterator[tuple[str, ...]]:
        if level == 0:
            token = _without_unit(token)
        if level == len(_JOINT_LEVELS) or token.isalnum():
            yield from self._part_concepts(token, has_words=has_words)
            return
        parts = [part for part in _JOINT_LEVELS[level].split(token) if part]
        if len(parts) > 1:
            whole = _whole(token)
            if 0 < len(whole) <= _MAX_TERM:
                digits = whole.replace("_", "") if _LONG_NUMBER.fullmatch(token) else ""
                yield (whole, digits) if len(digits) > _LONGEST_DATE else (whole,)
        for part in parts:
            yield from self._word_concepts(part, level + 1, has_words=has_words)

    def _part_concepts(self, part: str, *, has_words: bool) -> Iterator[tuple[str, ...]]:
        name: tuple[str, ...] = ()
        if "'" in part or "’" in part:
            if (ending := _pattern(_WITH_ENDING).fullmatch(part)) and part[0].isupper():
                name = self._stems(ending[1])
            part = _without_apostrophes(part)
        if fold(part):
            yield tuple(dict.fromkeys((*self._stems(part), *name)))
        if has_words and _CAMEL.search(part):
            for hump in _HUMP.findall(part):
                if len(hump) > 1:
                    yield self._stems(hump)
        elif unit := _UNIT.fullmatch(part):
            for group in unit.groups():
                if group and len(group) > 1:
                    yield self._stems(group)

    def _language_of(self, word: str) -> str:
        script = script_language(word)
        if script and script == _ALSO_IN.get(self.language):
            return self.language
        return script or (DEFAULT_LATIN if self.language == PERSIAN else self.language)

    def _stems(self, word: str) -> tuple[str, ...]:
        """Returns the stem; for a word with diacritics also the stem of its spelling without them."""
        if word[0].isdigit() or len(word) > _MAX_TERM:
            return (fold(word)[:_MAX_TERM],)
        lowered, plain = word.casefold(), fold(word)
        language = self._language_of(word)
        stemmed = fold(stem(lowered, language)) or plain
        if is_hebrew(plain):
            return tuple(hebrew_forms(plain))
        known = {stemmed: None}
        if plain != lowered:
            known[stem(plain, language) or plain] = None
        if indefinite := _definite(plain, language):
            known[stem(indefinite, language)] = None
        return tuple(known)


_HEBREW: Final = "[\u05d0-\u05ea]"
_HEBREW_PREFIXES: Final = frozenset("ובהכלמש")


def is_hebrew(word: str) -> bool:
    return _pattern(_HEBREW).match(word) is not None


def hebrew_forms(word: str) -> Iterator[str]:
    """Yields the word, and the word without one and two of its prefixes: and, in, the, to, from."""
    yield word
    for _ in range(2):
        if word[0] not in _HEBREW_PREFIXES or len(word) < 4:
            return
        word = word[1:]
        yield word


def _word_bytes(token: str, terms: str) -> int:
    return size_of(token) if terms is token else size_of(token, terms)


def tokens(text: str) -> list[str]:
    """Returns the tokens (words with their joints, unspaced runs, pictographs) of normalised text."""
    found = _tokens_and_ends(text)
    return [one for one in found if one != "\n"] if "\n" in text else found


def _tokens_and_ends(text: str) -> list[str]:
    """Returns the tokens and the ends of lines, since one pattern is compiled sooner than two."""
    return (_ASCII_TOKEN if text.isascii() else _pattern(_ANY_TOKEN)).findall(text)


def is_unspaced(token: str) -> bool:
    """Returns whether a token is a run of a script without word spaces."""
    return not token.isascii() and _pattern(_UNSPACED_LETTER).match(token) is not None


def _has_words(token: str) -> bool:
    """Returns whether the capitals of a token begin words: its humps have three characters on average. In base64 they
    have two.

    A word between capitals in encoded data is there by chance. Zeros give long humps (`AAAA`): of each at most six
    characters count.
    """
    if len(token) <= _ANY_HUMPS:
        return True
    counted = [min(len(hump), 6) for hump in _HUMP.findall(token)]
    return sum(counted) >= 3 * len(counted)


def _whole(token: str) -> str:
    """Returns a token with joints as one term.

    `sqlite-vec` and `sqlite_vec` give the same, and so do `1,500` and `1500`; `1.23` and `12.3` do not.
    """
    words = list(filter(None, map(fold, _NOT_WORD.split(token))))
    is_number = all(word.isdigit() for word in words) and not _THOUSANDS.fullmatch(token)
    return ("_" if is_number else "").join(words)


def _without_unit(token: str) -> str:
    """Returns the number of an amount that is written in groups: the words around it show what it is an amount of."""
    amount = _AMOUNT.fullmatch(token)
    return amount[2] if amount else token


# As strings: patterns that are seldom needed are compiled on demand.
_CLOCK: Final = r"([01]?\d|2[0-3])(?::([0-5]\d)|[hH]([0-5]\d)?)"
_HALF_CLOCK: Final = r"(1[0-2]|0?[1-9])(?::([0-5]\d))?([apAP])[mM]"
_ISO_DAY: Final = r"(\d{4})-(\d\d)-(\d\d)"
_DOTTED_DAY: Final = r"(\d\d?)\.(\d\d?)\.(\d{4})"
_MONEY: Final = r"(?!(?:19|20)\d\d$)([1-9]\d{0,2}(?:[.,]\d{3}){1,9}|[1-9]\d{3,8})(?:[.,](\d\d))?"
"""From a thousand on; four digits that may be a year are one, and many groups are a list of numbers."""
_ORDINALS: Final = "first second third fourth fifth sixth seventh eighth ninth tenth".split()
_ORDINAL: Final = "(10|[1-9])(?i:st|nd|rd|th)"
_LEAST_HASH: Final = 40
_WHOLE_HASH: Final = "(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})"
"""The hash of a commit, an image or a file. Notes have its first seven to twelve characters."""
_LEAVES: Final = {"leaf": ("leav",), "leaves": ("leaf",)}
"""In an index `leaves` may also be the verb."""


def other_forms(token: str) -> tuple[str, ...]:
    """Returns the index terms of the same number, time of day or day in other spellings: `17_00` for `5pm`; of a hash,
    its beginnings.
    """
    if len(token) >= _LEAST_HASH and re.fullmatch(_WHOLE_HASH, token):
        return tuple(token[:length].lower() for length in range(7, 13))
    return _other_spellings(_without_unit(token))


def _other_spellings(token: str) -> tuple[str, ...]:
    if leaves := _LEAVES.get(token.lower()):
        return leaves
    if not token[0].isdigit():
        return (_ordinal(_ORDINALS.index(token.lower()) + 1),) if token.lower() in _ORDINALS else ()
    if match := re.fullmatch(_ORDINAL, token):
        return (_ORDINALS[int(match[1]) - 1],)
    if match := re.fullmatch(_HALF_CLOCK, token):
        hour = int(match[1]) % 12 + (12 if match[3] in "pP" else 0)
        return _times_of_day(hour, match[2] or "00")
    if match := re.fullmatch(_CLOCK, token):
        return _times_of_day(int(match[1]), match[2] or match[3] or "00")
    if match := re.fullmatch(_ISO_DAY, token):
        return _days(*match.groups())
    if match := re.fullmatch(_DOTTED_DAY, token):
        return _days(*reversed(match.groups()))
    if match := re.fullmatch(_MONEY, token):
        return _amounts(int(re.sub("[.,]", "", match[1])), match[2] or "00")
    if len(token) >= _ENOUGH_DIGITS - 1 and token.isdigit():
        return tuple(_as_dialled(token))
    return ()


_HALF_CLOCK_APART: Final = r"(?<![\w.,:/-])(\d\d?(?::\d\d)?) ([ap]\.?m)\b"


def forms_of_times(text: str, language: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the words of each time of day that normalised text writes as two, in lower case, with its other forms:
    `7` and `pm`, each with those of `7pm`.
    """
    for match in re.finditer(_HALF_CLOCK_APART, text.lower()):
        if language == "german" and match[2] == "am":
            continue  # "Zimmer 12 am Bahnhof"
        forms = other_forms(match[1] + match[2].replace(".", ""))
        yield from ((word, forms) for word in match.groups())


_WEEK: Final = (
    r"(?<![\w-])(week|kw|kalenderwoche|woche|vecka|uge|semaine|semana|settimana) (\d\d?)\b"
)


def forms_of_weeks(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the words of each calendar week of normalised text, in lower case, with its other forms: `week` and `9`,
    each with those of `KW 9`, `W09` and `2026-W09`.
    """
    for word, number in re.findall(_WEEK, text.lower()):
        written = (f"{int(number)}", f"{int(number):02}")
        weeks = tuple(before + one for before in ("w", "kw") for one in written)
        yield word, ("kw", "week", "kalenderwoch", *weeks)
        yield number, (*written, *weeks)


def _as_dialled(digits: str) -> Iterator[str]:
    """Yields other spellings of a phone number, such as without its trunk prefix, and without its country code."""
    for before in ("0", *_WITHIN.values()):
        if digits.startswith(before):
            yield digits.removeprefix(before)
    if len(digits) == _ENOUGH_DIGITS:
        yield f"1{digits}"
    if abroad := re.fullmatch(_FROM_ABROAD, digits):
        country, number = abroad.groups()
        yield from (number, f"0{number}", f"{_WITHIN.get(country, '')}{number}")


def _amounts(number: int, cents: str) -> tuple[str, ...]:
    whole = (f"{number:_}", f"{number}") if cents == "00" else ()
    return (*whole, f"{number:_}_{cents}", f"{number}_{cents}")


def _ordinal(number: int) -> str:
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number, 'th') }"


def _days(year: str, month: str, day: str) -> tuple[str, ...]:
    short, long = (int(day), int(month)), (f"{int(day):02}", f"{int(month):02}")
    return (
        f"{year}_{long[1]}_{long[0]}",
        f"{long[0]}_{long[1]}_{year}",
        f"{short[0]}_{short[1]}_{year}",
    )


def _times_of_day(hour: int, minutes: str) -> tuple[str, ...]:
    half, name = hour % 12 or 12, "ap"[hour >= 12]
    short = (f"{half}{name}m",) if minutes == "00" else ()
    written = (f"{hour}h{minutes}", f"{hour}h") if minutes == "00" else (f"{hour}h{minutes}",)
    return (
        f"{hour:02}_{minutes}",
        f"{hour}_{minutes}",
        f"{half}{minutes}{name}m",
        *short,
        *written,
    )


def _without_apostrophes(part: str) -> str:
    """`Anna's` gives `Anna`, `l'homme` gives `homme`, `don't` gives `dont`."""
    head, _, tail = part.replace("’", "'").rpartition("'")
    if tail in {"s", "S"} and head:
        return head.replace("'", "")
    return _APOSTROPHE.sub("", _pattern(_ELISION, re.IGNORECASE).sub("", part))


def _bigrams(run: str) -> list[str]:
    if len(run) == 1:
        return [run]
    return [run[i : i + 2] for i in range(len(run) - 1)]
