"""Which language a text is in, as far as stemming and stop words need to know.

Owns the stop-word lists and a guess by counting them: enough to choose a stemmer for Latin script
(the other scripts choose theirs by themselves). A wrong guess costs recall of inflections only.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

DEFAULT_LATIN: Final = "english"

_STOP_WORDS: Final = {
    "english": """
        a about above after again all also am an and any are as at be because been before being below
        between both but by can could did do does doing don down during each few for from further had
        has have having he her here hers him his how i if in into is it its itself just like me might
        more most must my myself no nor not now of off on once only or other our ours out over own
        shall she should so some such than that the their theirs them then there these they this those
        through to too under until up upon us very was we were what when where which while who whom
        whose why will with would you your yours im ive id ill youre theyre dont doesnt didnt isnt
        arent wasnt werent cant couldnt wont wouldnt hasnt havent hadnt lets thats whats""",
    "spanish": """
        el la los las un una unos unas de del al a ante con contra desde en entre hacia hasta para por
        según sin sobre tras y e o u ni que qué quién quiénes cuál cuáles cómo cuándo cuánto dónde es
        son era fue ser está están estaba hay no sí se su sus lo le les me te nos mi tu yo él ella ellos
        este esta estos estas ese esa eso como más pero si ya también muy fueron había ha han hemos""",
    "portuguese": """
        o a os as um uma uns umas de do da dos das em no na nos nas ao aos à às por pelo pela pelos
        pelas para com sem sob sobre entre até e ou que quem qual quais como quando quanto onde é são
        era foi ser está estão estava há não sim se seu sua seus suas lhe me te nós meu minha eu ele ela
        eles elas este esta isto esse essa isso aquele aquela mais mas já também muito foram tem têm
        você vocês porque""",
    "french": """
        le la les un une des du de d l à au aux en dans par pour sur sous avec sans entre vers chez et
        ou ni que qu qui quoi quel quelle quels quelles comment quand où combien pourquoi est sont était
        été être suis es sommes êtes a ai as avons avez ont ne pas n se s sa son ses leur leurs je tu il
        elle nous vous ils elles mon ma mes ton ta tes ce cet cette ces plus mais si y aussi très""",
    "german": """
        der die das den dem des ein eine einen einem einer eines und oder aber nicht kein keine in im
        an am auf aus bei beim mit nach von vom vor zu zum zur für über unter durch gegen ohne um ist
        sind war waren sein wird werden wurde wurden hat haben hatte ich du er sie es wir ihr mich dich
        mir dir uns euch mein dein was wer wen wem wie wo wann warum welche welcher welches dass daß
        wenn als auch noch schon sehr nur man sich diese dieser dieses""",
    "italian": """
        il lo la i gli le un uno una di del dello della dei degli delle a al allo alla ai agli alle da
        dal dalla in nel nello nella nei negli nelle con su sul sulla per tra fra e ed o che chi quale
        quali come quando quanto dove perché è sono era erano essere stato ha hanno non si suo sua suoi
        sue mi ti ci vi io tu lui lei noi voi loro questo questa quello quella più ma se anche molto""",
    "dutch": """
        de het een en of maar niet geen in op aan uit bij met naar van voor tot over onder door tegen
        zonder om is zijn was waren wordt worden werd heeft hebben had ik jij je hij zij ze wij we jullie
        mij me hem haar ons hun mijn jouw wat wie hoe waar wanneer waarom welke dat die dit deze als ook
        nog al zeer er te""",
    "swedish": """
        och i att det som en ett på är av för den till med de inte om var han hon vi ni jag du mig dig
        sig från har hade men eller så när vad vem hur varför vilken vilket vilka där här denna detta
        dessa kan ska skulle blev bli blir vid över under efter utan mycket också""",
    "turkish": """
        ve veya ama bir bu şu o da de mi mı mu mü ne neden niçin nasıl nerede kim hangi kaç için ile gibi
        kadar daha çok en değil var yok ben sen biz siz onlar olan olarak oldu olduğu her ki ise""",
    "polish": """
        i w z na do od po za o u przez dla bez pod nad przy oraz lub albo ale nie tak jest są był była
        było były być ma mają się to ten ta te ci co kto kiedy gdzie jak dlaczego który która które czy
        ja ty on ona my wy oni mnie cię go jej ich już tylko bardzo też że""",
    "indonesian": """
        yang dan di ke dari untuk dengan pada adalah itu ini atau tidak akan telah sudah apa siapa kapan
        di mana bagaimana mengapa berapa saya kamu dia kami kita mereka oleh sebagai juga lebih ada""",
    "russian": """
        и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее мне
        было вот от меня еще нет о из ему теперь когда даже ну ли если уже или ни быть был него до вас
        нибудь вам там потом себя ничего ей может они тут где есть надо ней для мы тебя их чем была сам
        чтоб без чего раз тоже себе под будет тогда кто этот того потому этого какой какая какие каком
        ним здесь этом один почти мой тем чтобы сейчас были куда зачем всех можно при об другой хоть
        после над больше тот через эти нас про них много три эту моя свою этой перед иногда лучше том
        такой им более всегда конечно всю между сколько почему это чей""",
}

_STOP_PHRASES: Final = """
    什么 怎么 怎样 如何 哪些 哪个 哪里 哪儿 为什么 是否 可以 请问 多少 什麼 怎麼 怎樣 哪個 哪裡 為什麼 是什么 的是
    時候 时候 有没有 是不是 我们 他们 这个 那个 一个
    です ます した する して いる ある どう どこ いつ だれ なに 何が 何を という について ですか ますか でした
    ました ください から まで この その それ これ には では とは のは のか
    무엇 무엇을 어떻게 언제 어디 어디서 누가 하나요 인가요 입니까 합니까 있나요 있는 하는 무슨 어떤 얼마나 습니다 습니까
"""

_LATIN_LANGUAGES: Final = tuple(name for name in _STOP_WORDS if name != "russian")
_SAMPLE_CHARS: Final = 3_000
_WORD = re.compile(r"[^\W\d_]+")


@cache
def stop_words_of(language: str) -> frozenset[str]:
    """Stop words of one language, diacritics kept; empty for a language without a list."""
    return frozenset(_STOP_WORDS.get(language, "").split())


@cache
def stop_bigrams() -> frozenset[str]:
    """Character pairs of question and function words in the scripts without word spaces."""
    return frozenset(
        phrase[i : i + 2] for phrase in _STOP_PHRASES.split() for i in range(len(phrase) - 1)
    )


def guess_latin_language(text: str, default: str = DEFAULT_LATIN) -> str:
    """The language with the most different stop words in the beginning of `text` (normalised).

    Fewer than three, or less than one different word in twenty-five: `default`.
    """
    words = set(_WORD.findall(text[:_SAMPLE_CHARS].lower()))
    best, most = default, len(words & stop_words_of(default))
    for language in _LATIN_LANGUAGES:
        found = len(words & stop_words_of(language))
        if found > most and found >= max(3, len(words) / 25):
            best, most = language, found
    return best
