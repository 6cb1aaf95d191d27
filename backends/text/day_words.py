"""Names of days in further languages: Italian, Dutch, the Scandinavian ones, Polish, Czech, Ukrainian, Turkish,
Finnish, Hungarian, Greek, Indonesian, Arabic and Hebrew; of some more, those of months.

The names are those of the Unicode CLDR, in lower case and in the forms used in questions: `w marcu`, `martta`, `במרץ`.
"""

from __future__ import annotations

import re
from typing import Final

_FINNISH: Final = "tammi helmi maalis huhti touko kesä heinä elo syys loka marras joulu".split()
_HEBREW: Final = "ינואר פברואר מרץ אפריל מאי יוני יולי אוגוסט ספטמבר אוקטובר נובמבר דצמבר".split()
MONTHS: Final = {
    word: number % 12 + 1
    for number, words in enumerate(
        """gennaio januari styczeń stycznia styczniu ledna lednu січень січня січні ocak ocakta január januárban
        febbraio februari luty lutego lutym únor února únoru лютий лютого лютому şubat şubatta február februárban
        maart maret marzec marca marcu březen března březnu березень березня березні mart martta március márciusban
        aprile kwiecień kwietnia kwietniu duben dubna dubnu квітень квітня квітні nisan nisanda április áprilisban
        maggio mei maj maja maju květen května květnu травень травня травні mayıs mayısta május májusban
        giugno czerwiec czerwca czerwcu červen června červnu червень червня червні haziran haziranda június júniusban
        luglio lipiec lipca lipcu červenec července červenci липень липня липні temmuz temmuzda július júliusban
        augustus augusti agustus sierpień sierpnia sierpniu srpen srpna srpnu серпень серпня серпні ağustos ağustosta
        settembre wrzesień września wrześniu září вересень вересня вересні eylül eylülde szeptember szeptemberben
        ottobre październik października październiku říjen října říjnu жовтень жовтня жовтні ekim ekimde október
        listopad listopada listopadzie listopadu листопад листопада листопаді kasım kasımda novemberben
        dicembre desember grudzień grudnia grudniu prosinec prosince prosinci грудень грудня грудні aralık aralıkta
        يناير ιανουάριος ιανουαρίου ιανουάριο ianuarie gener jaanuar januara sausio януари
        فبراير φεβρουάριος φεβρουαρίου φεβρουάριο februarie febrer veebruar februara vasario февруари
        مارس μάρτιος μαρτίου μάρτιο martie març märts kovo
        أبريل ابريل απρίλιος απριλίου απρίλιο aprilie aprill aprila balandžio
        مايو μάιος μαΐου μάιο maig gegužės
        يونيو ιούνιος ιουνίου ιούνιο iunie juny juuni birželio юни
        يوليو ιούλιος ιουλίου ιούλιο iulie juliol juuli liepos юли
        أغسطس اغسطس αύγουστος αυγούστου αύγουστο augusztus augusztusban agost avgusta rugpjūčio
        سبتمبر σεπτέμβριος σεπτεμβρίου σεπτέμβριο septembrie setembre septembra rugsėjo септември
        أكتوبر اكتوبر οκτώβριος οκτωβρίου οκτώβριο októberben octombrie oktoober oktobra spalio октомври
        نوفمبر νοέμβριος νοεμβρίου νοέμβριο noiembrie novembra lapkričio ноември
        ديسمبر δεκέμβριος δεκεμβρίου δεκέμβριο decemberben \
            decembrie desembre detsember decembra gruodžio декември""".split("\n")
    )
    for word in words.split()
}
for _number, (_finnish, _hebrew) in enumerate(zip(_FINNISH, _HEBREW, strict=True), 1):
    MONTHS.update(
        dict.fromkeys((f"{_finnish}kuu{end}" for end in ("", "n", "ta", "ssa", "sta")), _number)
    )
    MONTHS.update(dict.fromkeys((_hebrew, f"ב{_hebrew}"), _number))
MONTHS["i mars"] = 3
ALSO_OTHER_WORDS: Final = frozenset("mei marca maja maju mart ocak ocakta ekim aralık".split())
"""Months that are also names or nouns."""
WEEKDAYS: Final = {
    word: number % 7
    for number, words in enumerate(
        """lunedì maandag måndag måndagen mandag poniedziałek pondělí понеділок понеділка pazartesi maanantaina hétfőn
        martedì dinsdag tisdag tisdagen tirsdag wtorek úterý вівторок вівторка salı tiistaina kedden
        mercoledì woensdag onsdag onsdagen środa środę středa středu середа середу середи çarşamba keskiviikkona szerdán
        giovedì donderdag torsdag torsdagen czwartek czwartku čtvrtek четвер четверга perşembe torstaina csütörtökön
        venerdì vrijdag fredag fredagen piątek pátek п'ятниця п'ятницю п'ятниці п’ятницю п’ятниці cuma perjantaina
        sabato zaterdag lördag lördagen lørdag sobota sobotę sobotu субота суботу суботи cumartesi lauantaina szombaton
        domenica zondag söndag söndagen søndag niedziela niedzielę neděle neděli неділя неділю неділі pazar sunnuntaina
        δευτέρα senin الاثنين الإثنين שני
        τρίτη selasa الثلاثاء שלישי
        τετάρτη rabu الأربعاء רביעי
        πέμπτη kamis الخميس חמישי
        pénteken παρασκευή jumat الجمعة שישי
        σάββατο sabtu السبت שבת
        κυριακή ahad الأحد ראשון vasárnap""".split("\n")
    )
    for word in words.split()
}
BY_WORD: Final = {
    word: days
    for days, words in {
        -2: "l'altro ieri,l’altro ieri,eergisteren,i förrgår,przedwczoraj,předevčírem,önceki gün,toissapäivänä"
        ",tegnapelőtt,προχθές,أول أمس,שלשום",
        -1: "ieri,gisteren,igår,i går,wczoraj,včera,вчора,dün,eilen,tegnap,χθες,χτες,kemarin,أمس,אתמול",
        0: "oggi,vandaag,idag,i dag,dzisiaj,dziś,dnes,сьогодні,bugün,tänään,σήμερα,hari ini,اليوم,היום",
        1: "domani,imorgon,i morgon,i morgen,jutro,zítra,yarın,huomenna,holnap,αύριο,besok,غدا,غدًا,מחר",
        2: "dopodomani,overmorgen,i övermorgon,pojutrze,pozítří,післязавтра,ylihuomenna,holnapután,μεθαύριο"
        ",lusa,מחרתיים",
    }.items()
    for word in words.split(",")
}
LAST: Final = (
    "scors[oa]|afgelopen|förra|forrige|zeszł(?:y|ą|ego|ej|ym)|ubiegł(?:y|ą|ego|ej|ym)|minul(?:ý|é|ou|ého|ém)|geçen"
    "|viime|múlt|elmúlt|περασμέν(?:η|ο|ου|ης)|минул(?:ого|ої|ий|у|ій|ому)"
)
THIS: Final = "quest[oa]|deze|den här|tento|toto|tuto|tomto|bu|tällä|tässä|ezen|ebben|αυτή|αυτό(?:ν)?|цього|цієї|цю|ці"
NEXT: Final = (
    "prossim[oa]|volgende|komende|nästa|neste|næste|przyszł(?:y|ą|ego|ej|ym)|příští|gelecek|önümüzdeki|ensi|jövő"
    "|επόμεν(?:η|ο)|наступн(?:ого|ої|ий|у|ій|ому)"
)
LAST_AFTER: Final = "scors[oa]|lalu|الماضية?|שעברה?"
NEXT_AFTER: Final = "prossim[oa]|depan|القادمة?|הבאה?"
AGO: Final = "fa|geleden|sedan|siden|temu|önce|sitten|ezelőtt|тому|(?:yang )?lalu"
BEFORE: Final = "πριν(?: από)?|před|قبل|לפני"
ON: Final = "op|på|w|we|ve?|у|την?|hari|יום|ביום|يوم"
NUMBERS: Final = {
    word: number
    for number, words in enumerate(
        """een ett jeden jedna jedno bir yksi egy ένα μία satu
        due twee två to dwa dwie dva dvě дві iki kaksi két δύο dua
        tre drie trzy tři üç kolme három τρεις τρία tiga
        quattro fyra fire cztery čtyři чотири dört neljä négy τέσσερις τέσσερα empat
        cinque vijf fem pięć pět п'ять п’ять beş viisi öt πέντε lima
        sei zes sex seks sześć šest шість altı kuusi hat έξι enam""".split("\n"),
        1,
    )
    for word in words.split()
}
UNITS: Final = {
    "day": "giorn[oi]|dag(?:en|ar|er)?|dni|dní|dny|gün|päivää|nap(?:pal|ja)|[ηή]?μέρες|hari|днів|дні|أيام|ימים",
    "week": "settiman[ae]|weken|veck(?:a|an|or)|uger?|uker?|tydzień|tygodni(?:a|u|e)?|týden|týdn(?:u|y|ů)|hafta"
    "|viikolla|viikkoa?|hét(?:en)?|εβδομάδ(?:α|ες)|minggu|тиж(?:день|ня|ні|нів)|الأسبوع|أسابيع|ב?שבוע|שבועות",
    "month": "mes[ei]|maand(?:en)?|månad(?:en|er)?|måned(?:er)?|miesiąc(?:a|u|e)?|miesięcy|měsíc(?:e|i|ů)?|ay|kuussa"
    "|kuukautta|hónap(?:ban|ja)?|μήνα|μήνες|bulan|місяц(?:я|і|ів)|місяць|الشهر|أشهر|ב?חודש|חודשים",
    "year": "ann[oi]|jaar|år(?:et)?|rok(?:u|y)?|lat|lata|let|roce|yıl|vuonna|vuotta|év(?:ben|e)?|χρόνο|χρόνια|tahun"
    "|рік|року|році|роки|років|السنة|العام|سنوات|ב?שנה|שנים",
}
BESIDE: Final = frozenset(
    """
    marca maja maju mart ocak ocakta ekim aralık senin pazar hari gün dag dni temu önce i l ini altro п önceki
    שני שלישי רביעי חמישי שישי ראשון ימים أول أيام
    """.split()
)
"""Words that mean a time only beside other words."""
UNAMBIGUOUS: Final = (
    frozenset(
        re.findall(
            r"[^\W\d_]+",
            " ".join((*MONTHS, *WEEKDAYS, *BY_WORD))
            + """
        giorno giorni settimana settimane mese mesi anno anni maand maanden jaar weken dagen
        dagar dager uker uger måneder vecka veckan veckor månad
        månader året år tydzień tygodniu tygodnie tygodni miesiąc miesiącu miesięcy roku týden týdnu měsíc měsíci roce
        hafta yıl gün viikolla viikkoa kuussa kuukautta vuonna vuotta héten hónapban hónapja évben éve εβδομάδα
        εβδομάδες μήνα μήνες χρόνο χρόνια minggu bulan tahun тиждень тижня тижні місяць місяця місяці року році роки
        الأسبوع الشهر السنة العام أسابيع أشهر أيام שבוע בשבוע שבועות חודש בחודש חודשים שנה שנים
        """,
        )
    )
    - BESIDE
)
"""Words that mean a time by themselves."""
