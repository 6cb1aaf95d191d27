"""Which prompts need no memory, and what of the others is looked for. Pure."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Final, Literal

import msgspec

from backends.text.analyser import Analyser

Silence = Literal["small_talk", "machine_output", "command"]
"""Why nothing is looked for: `small_talk` has no subject, `machine_output` is pasted, a `command` is for the client."""

MOST_CHARS: Final = 4_000
"""A longer prompt is looked for by its beginning and its end, where people say what they want."""

_SMALL_TALK: Final = """
    a again ah alright all am and any are as at awesome back be bravo bye can cheers come continue cool correct could
    course did do does done doing exactly excellent far fantastic few fine for from further get glad go going good goodbye
    gotcha got great guys had ha haha have hello help helpful hey hi hm hmm how i if in indeed is it its job just keep know
    let lets like looks lol love make makes many may me more morning much my n need next nice night no nope not now of off
    oh ok okay on one or our out perfect please pls proceed really right same see sense should so sorry sounds start step
    still stop super sure ta tell terrific test thank thanks that thats the then there they this thx time to today tomorrow
    tonight too try two u understood up very wait want was way we welcome well what will with wonderful work worked works
    would wow wrong yeah yep yes yet you your yup afternoon evening day bit lot appreciate appreciated amazing brilliant
    again once run carry forward ahead another explain elaborate summarize shorter longer simpler repeat thing things
    lgtm ty tysm np k kk y yea cya later brb afk sup yo howdy greetings there everyone team all folks buddy friend
    aber abend alles also auch auf bis bitte danke dankeschön das dein dem den der die dir du ein eine einen einfach er es
    etwas fertig für gern gerne geht gut gute guten hallo hi ich ist ja jetzt kannst klar klasse klingt mach mache machen
    mal mein mir mit morgen nein nacht nett nicht noch nochmal nun passt perfekt prima richtig schon schön schönen sehr sie
    sind so stimmt stopp super tag tausend toll tschüss und verstanden viel vielen warte was weiter weitermachen wer
    wie wir wunderbar zu zurück servus moin grüß gott dank leute
    à allez alors au aussi avec bien bientôt bon bonjour bonne bonsoir ça ce cela c'est continue continuez d'accord de des
    encore est et excellent fait génial il j'ai je la le les merci moi mon non nuit on oui parfait pas plaît pour salut
    s'il suite super suivant sur te toi très tu un une va vas vous voilà beaucoup c s il d l j ai accord soirée journée
    adelante adiós ahora bien buena buenas bueno buenos claro como con continúa continua correcto de días dias el en
    entendido es está esta estás eso excelente favor genial gracias hasta hola la lo luego mañana me mucha muchas muy no
    noches nada otra perfecto por pronto que qué sí si sigue siguiente tal tardes todo un una vale vamos y ya
    ainda agora ate até bem boa boas bom certo como continua continue dia ele entendi isso legal mais muito não noite
    obrigada obrigado ok olá oi ótimo perfeito por favor pode prossiga sim tarde tchau tudo um uma valeu você
    allora ancora bene buon buona buonanotte buonasera buongiorno capito certo che ciao come con continua così d'accord
    dai di e è fatto giorno grazie il la lo mille molto no ottimo perfetto per piacere prego procedi sei sera sì tutto va
    bedankt dag dank dankjewel doe doei door een en ga goed goede goedemorgen hallo heel helemaal hoi het ik is ja je jij
    klopt mooi morgen nee niet nu oké prima tot top u verder volgende zeer
    cześć dobra dobry dobrze dalej dzień dziękuję dzięki jest kontynuuj nie proszę super świetnie tak wieczór
    bir çok devam evet günaydın hayır iyi lütfen merhaba sağ selam süper tamam teşekkür teşekkürler ederim et ol
    tack tak hej ja nej bra god morgon kväll takk kiitos hei moi kyllä ei
    благодарю большое все всё вечер давай дальше да день добрый доброе другой ещё здравствуй здравствуйте и как круто
    молодец нет ну огромное отлично ок окей очень пока понял поняла понятно пожалуйста привет продолжай продолжайте
    прекрасно правильно супер спасибо так теперь тебе то ты утро хорошо хватит ладно ясно это верно дела дорогой
    дякую привіт так добре ευχαριστώ γεια ναι όχι καλημέρα καλά
    تم جيد حسنا شكرا صباح الخير مرحبا نعم لا السلام عليكم جزيلا استمر أكمل
    תודה שלום כן לא בוקר טוב רבה המשך
    धन्यवाद नमस्ते हाँ नहीं ठीक है शुक्रिया अच्छा जारी रखें
    до ll re ve don won isn right why mind never never war gewesen mache demain revoir fois matin midi agréable otra vez
    acuerdo continuar amanhã accordo je wel dank работает раз завтра кто что где когда почему
    """


def _folded(text: str) -> str:
    """In small letters, without accents, vowel signs and the like."""
    apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(one for one in apart if not unicodedata.category(one).startswith("M"))


_COURTESIES: Final = frozenset(_folded(_SMALL_TALK).split())
_COURTESIES_CJK: Final = re.compile(
    "了解(?:です|しました)?|继续|谢谢你们?|多谢|感谢|谢啦?|你好吗?|您好|大家好|早上好|早安|晚上好|晚安|再见|拜拜|好的?|嗯+|行|可以|没问题|没错|对的?|是的?|不是|不用|"
    "继续|接着|请|下一步|下一个|明白了?|知道了?|懂了?|太好了|太棒了?|很棒|非常|很|了|吧|啊|呢|吗|哦|呀|的|你|我|再来一次|再试一次|辛苦|完美|厉害|"
    "ありがとう(?:ございます|ございました)?|どうも|こんにちは|こんばんは|おはよう(?:ございます)?|おやすみ(?:なさい)?|さようなら|またね|"
    "はい|いいえ|うん|ええ|そうです|そう|お願い(?:します|いたします)?|続けて(?:ください)?|続き|次|了解(?:です|しました)?|わかりました|"
    "分かりました|いいですね|素晴らしい|すごい|ください|です|ね|よ|最高|助かります|助かりました|"
    "감사합니다|감사해요|고마워요?|고맙습니다|안녕하세요|안녕히|안녕|네|예|응|아니요?|아뇨|계속(?:하세요|해줘|해주세요|해 주세요|해)?|"
    "좋아요?|좋습니다|좋네요|알겠습니다|알겠어요?|알았어요?|부탁(?:해요|드립니다|합니다)?|다음|완벽해요?|최고예요|최고|정말|너무|수고하셨습니다|"
    "ขอบคุณ(?:ครับ|ค่ะ|มาก)?|สวัสดี(?:ครับ|ค่ะ)?|ครับ|ค่ะ|ใช่|ไม่|ต่อ|โอเค|มาก|cảm ơn|xin chào|tiếp tục|vâng"
)
_WORD: Final = re.compile(r"[^\W_]+")

_FENCED: Final = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_MACHINE_LINE: Final = re.compile(
    r"""
      \s*(?:Traceback\ \(most|File\ "[^"]+",\ line\ \d+|at\ [\w$.<>/\[\]\ ]+\(.*\)|at\ \S+:\d+:\d+|Caused\ by:|\.\.\.\ \d+\ more)
    | \s*(?:[\w.]+(?:Error|Exception|Warning|Failure|Interrupt)\b(?::|$)|Exception\ in\ thread|panic:|goroutine\ \d+|thread\ '.*'\ panicked|called\ `)
    | \s*(?:error|warning|note|fatal|E|W|F)(?:\[\w+\])?:\s | \s*(?:-->|\d+\s*\||\|\s|\^[\^~-]*\s*$|~+\^*\s*$)
    | \s*\S+\.\w{1,5}:\d+(?::\d+)?(?::|\s|$|\)) | \s*\#\d+\s+(?:0x[0-9a-f]+|\S+\() | \s*\[?\d{4}-\d\d-\d\d[T\ ]\d\d:\d\d:\d\d
    | \s*npm\ (?:ERR!|WARN|error) | \s*(?:\$|>>>|PS\ .*>)\s | \s*(?:FAILED|PASSED|ERROR|FAIL|ok|not\ ok)\s+\S+[:./] | \s*[-+]{3}\ | \s*@@\ | \s*diff\ --git\ | \s*\w+@\S+[:~]
    | \s*(?:<[/!?]?\w[^>]*>\s*)+$ | \s*[\[{(}\])],?;?\s*$ | \s*"[^"]+":\s | \s*0x[0-9a-f]+
    """,
    re.VERBOSE,
)
_CODE_LINE: Final = re.compile(
    r"\s*(?:def |class |import |from \S+ import |return\b|const |let |var |function |public |private |#include|if \(|for \(|while \()"
    r"|.*[;{}]\s*$|\s{4,}\S.*[()=\[\]]"
)
_FEW_WORDS: Final = 4
"""Words beside pasted lines that do not yet make a question."""
_LONGEST_WORD: Final = 64
"""What is longer is no word that anybody notes: a key, a blob."""


class Question(msgspec.Struct, frozen=True):
    """What of a prompt is looked for, or why nothing is."""

    query: str
    silence: Silence | None = None


def read_prompt(prompt: str) -> Question:
    """What people write themselves is looked for; what they paste is not."""
    text = prompt.strip()
    if _is_command(text):
        return Question("", "command")
    own, pasted = _without_pasted(text)
    words = _words(own)
    subjects = [word for word in words if not _is_courtesy(word)]
    if pasted and len(subjects) < _FEW_WORDS:
        return Question("", "machine_output")
    if not subjects:
        return Question("", "small_talk")
    return Question(_bounded(own))


def _is_command(text: str) -> bool:
    """`/compact`, `!ls`, and what a client itself says as if it were the user."""
    first = text.partition("\n")[0]
    is_path = first.count("/") > 1
    return bool(re.match(r"/[a-z][\w:-]*(?:\s|$)", first) and not is_path) or bool(
        re.match(r"!\s*[\w./]|<(?:command-|local-command|task-|system-reminder|bash-)", first)
    )


def _without_pasted(text: str) -> tuple[str, bool]:
    """The lines that a person wrote, and whether there are others."""
    bare = _FENCED.sub("\n", text)
    lines = [line for line in bare.split("\n") if line.strip()]
    by_machine = [bool(_MACHINE_LINE.match(line)) for line in lines]
    by_machine = [
        found or bool(_CODE_LINE.match(line) and _beside(by_machine, at))
        for at, (line, found) in enumerate(zip(lines, by_machine, strict=True))
    ]
    own = [line for line, found in zip(lines, by_machine, strict=True) if not found]
    return "\n".join(own), bare != text or any(by_machine)


def _beside(found: list[bool], at: int) -> bool:
    """Lines of code alone are what people write about programs; beside a trace they belong to it."""
    return any(found[max(0, at - 1) : at + 2])


def _words(text: str) -> list[str]:
    if not text.isascii():
        text = _COURTESIES_CJK.sub(" ", unicodedata.normalize("NFKC", text))
    return [word for word in _WORD.findall(_folded(text)) if len(word) <= _LONGEST_WORD]


@cache
def _courtesy_terms() -> frozenset[str]:
    analyser = Analyser()
    return frozenset(term for word in _COURTESIES for term in analyser.terms(word).split())


def is_small_talk(term: str) -> bool:
    """Whether a term, as questions and notes are searched by, says nothing of a subject."""
    return term in _courtesy_terms() or _is_courtesy(term)


def _is_courtesy(word: str) -> bool:
    return (
        word in _COURTESIES
        or (len(word) == 1 and word.isascii())
        or (word.isdecimal() and len(word) < 3)
    )


def _bounded(text: str) -> str:
    if len(text) <= MOST_CHARS:
        return text
    half = MOST_CHARS // 2
    return f"{text[:half]}\n{text[-half:]}"
