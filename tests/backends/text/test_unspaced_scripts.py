"""Scripts without word spaces: overlapping pairs, the last character, and script boundaries that divide mixed runs."""

from unicodedata import name

from backends.text.analyser import Analyser
from backends.text.simplified import simplified
from fakes.each import each


@each(
    ("text", "terms"),
    [
        ("今天开会", ["今天", "天开", "开会", "会"]),
        ("カタカナ", ["カタ", "タカ", "カナ", "ナ"]),
        ("ひらがな", ["ひら", "らが", "がな", "な"]),
        ("한국어", ["한국", "국어", "어"]),
        ("ประชุม", ["ปร", "ระ", "ะช", "ชุ", "ุม", "ม"]),
        ("ភាសា", ["ភា", "ាស", "សា", "ា"]),
        ("ｶﾞｷﾞ", ["ガギ", "ギ"]),
        ("㈱", ["株"]),
        ("漢", ["汉"]),
        ("猫 犬", ["猫", "犬"]),
        ("人々", ["人々", "々"]),
        ("二〇二六", ["二〇", "〇二", "二六", "六"]),
        ("コーヒー", ["コー", "ーヒ", "ヒー", "ー"]),
        ("𠮷野家", ["𠮷野", "野家", "家"]),
    ],
)
def test_a_run_gives_overlapping_pairs_and_its_last_character(text, terms, terms_of):
    assert terms_of(text) == terms


@each(
    ("text", "terms"),
    [
        ("gen-itgc后", ["genitgc", "gen", "itgc", "后"]),
        ("使用sqlite搜索", ["使用", "用", "sqlite", "搜索", "索"]),
        ("2026年3月", ["2026", "年", "3", "月"]),
        ("ＧＰＴの使い方", ["gpt", "の使", "使い", "い方", "方"]),
        ("서버A", ["서버", "버", "a"]),
        ("会议、计划。", ["会议", "议", "计划", "划"]),
        ("「重要」な", ["重要", "要", "な"]),
        ("日本・東京", ["日本", "本", "东京", "京"]),
    ],
)
def test_script_boundaries_and_punctuation_divide_runs(text, terms, terms_of):
    assert terms_of(text) == terms


@each(
    ("text", "query"),
    [
        ("今天和供应商谈了茶叶的价格", "茶叶"),
        ("今天和供应商谈了茶叶的价格", "供应商"),
        ("打ち合わせは来週の月曜日です", "来週"),
        ("회의에서 결정했다", "회의"),
        ("ประชุมวันจันทร์", "ประชุม"),
        ("繁體中文筆記", "中文"),
        ("繁體中文筆記", "繁體"),
        ("繁體中文筆記", "繁体"),
        ("繁体中文笔记", "繁體"),
    ],
)
def test_a_word_inside_a_run_is_found(text, query, terms_of):
    known = set(terms_of(text))
    assert not [asked for asked in Analyser().concepts(query) if known.isdisjoint(asked)]


def test_every_character_of_a_run_begins_a_term(terms_of):
    assert {term[0] for term in terms_of("今天开会")} == set("今天开会")


def test_a_pair_is_not_found_across_punctuation(terms_of):
    assert "天开" not in terms_of("今天。开会")


@each(
    ("one", "other"),
    [
        ("冬季輪胎放在車庫", "冬季轮胎放在车库"),
        ("頭髮", "头发"),
        ("發票", "发票"),
        ("什麼時候", "什么时候"),
    ],
)
def test_traditional_chinese_gives_the_terms_of_simplified_chinese(one, other, terms_of):
    assert terms_of(one) == terms_of(other)


def test_the_table_of_chinese_has_two_characters_in_each_row_from_the_first_to_the_last():
    table = simplified()
    assert len(table) == 2_427
    assert {ord("丟"): "丢", ord("龜"): "龟"}.items() <= table.items()
    assert all(chr(one) > "一" and "CJK UNIFIED" in name(other) for one, other in table.items())
