"""What each filter lets be, what it drops for which reason, and what it leaves of a text that it repairs."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from argosy.corpus.cleaning.filter import Resources
from argosy.corpus.cleaning.filters.code_quality import without_licence
from tests.cleaning_fixtures import CHINESE, PROSE, outcome

PAGE = f"{PROSE}\n{PROSE}"
BRACES, LOREM = (f"{PAGE}\n{line}" for line in ("Call f() {{ return 1; }} to get it.", "Lorem ipsum is a text."))
LONG, VERSE = "word " * 40, "\n".join(f"the sea of the {n} is never a sea of glass" for n in ("first", "next", "third"))
MIXED = "\n\n".join([PROSE, PROSE, "Der Zug kommt um acht Uhr morgens am Bahnhof an, und die Kinder sind nicht da. Das "
                     "Wetter war schlecht, deshalb blieben alle zu Hause und lasen, bis es dunkel wurde."])
DATA = "Write to jane@example.org or 13812345678."
TRADITIONAL = "清晨的港口十分安靜，漁民們坐在堤岸上修補漁網。天亮前出海的小船回來了，只帶回不多的鯡魚。"
PROGRAM = 'import os\n\n\ndef names(folder):\n    """List the files."""\n    return sorted(os.listdir(folder))\n'
ICON = base64.encodebytes(bytes(n * 7 % 256 for n in range(3000))).decode()
MIT = "Permission is hereby granted, free of charge, to any person"
ITEMS = [
    {"question": "Who painted the Mona Lisa?", "choices": ["Leonardo da Vinci", "Raphael", "Titian", "Giotto"]},
    {"question": "法国的首都是哪座城市？", "choices": ["巴黎", "里昂", "马赛", "尼斯"]},
    {"question": "The capital of France is", "choices": ["Paris", "Lyon", "Nice", "Lille"]},
    {"question": "A train leaves the station at nine with forty passengers and at each of its three stops ten get off "
                 "and five get on; how many arrive?", "choices": ["25", "30", "35", "40"]}]
Row = str | tuple[Any, ...]  # texts, and the fields of the filter where it has other ones than by default


def rows(table: Mapping[str, Sequence[Row]], texts: int) -> list[Any]:
    """Name of the filter, texts and fields of each row; code is judged in its channel, items are asked for."""
    always = {"code_quality": {"channel": "code"}, "decontamination": {"resources": Resources(benchmark=ITEMS)}}
    every = [(name, row if isinstance(row, tuple) else (row,)) for name, given in table.items() for row in given]
    return [(name, *row[:texts], always.get(name, {}) | dict(*row[texts:])) for name, row in every]


LET_BE: dict[str, list[Row]] = {
    "unicode": ["C’est « déjà vu », à Liège – où l’été…", "ÄÖÜ äöü ß", "Українська мова: її ВІКІ", "Χαίρετε “όλοι”",
                "Brontë…”", "£5 × 3 ÷ 2 ±½", "<a>&amp;</a>"],
    "boilerplate": ["The baker sold cookies, and her privacy was respected by all who came home late."],
    "gopher_quality": [
        "千山鸟飞绝，万径人踪灭。孤舟蓑笠翁，独钓寒江雪。",  # classical poems
        "东风不解愁，偷展湘裙衩\n独夜背纱笼，影著纤腰画\n爇尽水沉烟，露滴鸳鸯瓦\n花骨冷宜香，小立樱桃下"],
    "decontamination": [
        "The artist who painted the Mona Lisa is Leonardo da Vinci, as Raphael knew.",
        "The capital of France is Paris, the largest city of the country; the second is Lyon.",
        "白法国的首都是哪座城市？", "老白法国的首都是哪座城市 A. 巴黎 B. 里昂 C. 马赛 D. 尼斯",
        "法国的首都是巴黎，法国的首都是哪座城市的姐妹城市并不重要。",
        "A train leaves the station at nine with forty passengers."],
    "toxicity": [
        "Scunthorpe and Arsenal, an assassin in the classics", "The idiot is a novel.", "垃圾分类从我做起。",
        f"{PROSE * 40} Fuck, said the idiot.", f"{PROSE} A stupid tool, as its author says, for idiotic questions.",
        "What has a chink, and hears all that is said beside it? A wall.", "警方通报，该成人网站已被依法取缔。"],
    "language": [
        MIXED, (CHINESE, {"least": {"zh": 0.9}}), *((CHINESE, {"lang": tag}) for tag in ("zh-CN", "zho_Hans")),
        *((PROSE, {"lang": tag}) for tag in ("en_US", "EN", "eng", "english", "und")),  # names declare nothing
        ("使用 `git commit -m message` 提交更改，然后运行 python setup.py install 来安装这个软件包。", {"lang": "zh"}),
        ("x = 3.14 * r ** 2", {"lang": "en"})],
    "chinese_quality": [
        "警方昨天通报，一个利用网络赌博平台诈骗的团伙被捣毁，涉案超过两千万元。记者了解到，他们在三个城市租了办公室，"
        "招来的人先要学习。检察院说，这构成开设赌场罪，案件将于下个月开庭。",
        "乳房自我检查应当在月经结束后进行。如果乳头有分泌物，或者摸到肿块，应当到医院检查，多数是良性的。",
        "这家公司的客服电话常年占线，记者打了三次才有人接听，退货要等七天。",
        "空山新雨后，天气晚来秋。\n明月松间照，清泉石上流。\n竹喧归浣女，莲动下渔舟。\n随意春芳歇，王孙自可留。",
        "先写一个函数，再调用它：\n```\ndef area(r):\n    return 3.14 * r ** 2\n```\n运行以后，屏幕上会显示圆的面积。",
        TRADITIONAL, (TRADITIONAL, {"min_traditional_share": 0.5}), (CHINESE, {"max_traditional_share": 0.5}),
        (PROSE, {"min_traditional_share": 1.0, "min_han_share": 1.0})],
    "code_quality": [
        f'"""Lists files. Copyright 2020 Someone."""\n{PROGRAM}', f"#include <a.h>\n/* Copyright 2020 */\n{PROGRAM}",
        f"# Lists files.\n\n{PROGRAM}# Copyright 2020 Someone\n", PROGRAM * 2 + "# do not edit\n",
        PROGRAM, f"# Validates the license keys of customers.\n{PROGRAM}",
        ("Copyright 2020. " + "x" * 2000, {"channel": "web"})],
    "c4_quality": [(PROSE, {"min_sentences": 3}), (BRACES, {"drop_curly_brackets": False})],
    "c4_paragraphs": [f"{LONG}\n{LONG}\n\n{LONG}"],
    "fineweb_quality": [(VERSE, {"pass_without_punctuation": True})],
    "pii": [(DATA, {"action": "drop", "off": ["email", "phone"]})]}


@pytest.mark.parametrize(("name", "text", "fields"), rows(LET_BE, 1))
def test_what_only_looks_alike_stays(name: str, text: str, fields: dict[str, Any]) -> None:
    assert outcome(name, text, **fields) == text


DROPPED: dict[str, list[Row]] = {
    "unicode": [
        *(("characters lost in a wrong decoding", text)
          for text in (CHINESE.encode("gbk").decode("utf-8", "replace"), "锟斤拷" * 5 + CHINESE)),
        ("no visible character", "\u200b\ufeff")],
    "boilerplate": [("mostly boilerplate", "Home | Shop | Cart\nSkip to main content\nshort")],
    "language": [
        ("language de", MIXED.rpartition("\n")[2], {"lang": "en"}),
        ("language ja", "電車は朝の八時に駅に着きます。", {"lang": "zh"}),
        ("language ru", "Поезд прибывает на вокзал в восемь часов утра."),
        ("not the declared language", CHINESE, {"lang": "en"}), ("not the declared language", PROSE, {"lang": "zh"}),
        ("too little en", MIXED, {"least": {"en": 0.8}}), ("language en", MIXED, {"allowed": ["de"]}),
        ("too little zh", f"{CHINESE}\n\n{PROSE}", {"least": {"zh": 0.9}})],
    "gopher_quality": [
        ("too short", "Too short."), ("mean word length", "a b c d e f g h i j k l of the"), ("too short", "短句子"),
        ("too few alphabetic words", "1234 5678 9012 " * 9 + "of the day"),
        ("almost only bullets", "\n".join(f"- the item of number {n} and more" for n in range(9))),
        ("too many ellipses", "\n".join("read more of the story and..." for _ in range(4))),
        ("too few stop words", "网投平台世界杯官网广告牌制作灯箱制作标识牌制作"),
        ("too few stop words", "北京搬家公司，上海搬家公司，广州搬家公司，深圳搬家公司，杭州搬家，南京搬家，天津搬家")],
    "gopher_repetition": [
        ("top 3-gram", "Buy the best watches now and save money today. " * 20), ("duplicate lines", f"{PAGE}\n{PROSE}"),
        ("top 2-gram", "手表批发价格优惠欢迎来电咨询，" * 12)],
    "toxicity": [("insults", f"{PROSE} You bastards, you idiots!"), ("insults", f"{CHINESE}滚开，你这个笨蛋，废物。"),
                 ("insults", "a grommet here", {"resources": Resources(words=["grommet"])})],
    "decontamination": [("benchmark item", text) for text in (
        "Pub quiz!\nWho painted the Mona Lisa?\nA. Leonardo da Vinci B. Raphael", "WHO PAINTED THE «MONA LISA»?",
        "Question: Who painted the Mona Lisa\n(a) Leonardo da Vinci (b) Raphael (c) Titian (d) Giotto",
        "题库：法国的首都是哪座城市？答案：巴黎", "地理。法国的首都是哪座城市？", "猜谜\n法国的首都是哪座城市？",
        "请问法国的首都是哪座城市？", "The capital of France is A. Paris B. Lyon C. Nice D. Lille Answer: A",
        "He asked: at each of its three stops ten get off and five get on; how many arrive? Nobody knew.")],
    "chinese_quality": [
        ("gambling spam", "澳门新葡京娱乐城官网，真人荷官在线发牌，注册送彩金88元，时时彩、百家乐任你选，首存送豪礼。"),
        ("adult spam", "免费毛片在线观看，日韩av无码高清视频，美女裸聊直播福利，成人电影天天更新，激情视频一键下载。"),
        ("advertisement spam", "厂家直销，全国包邮，货到付款！优惠大酬宾，加微信领取优惠券，咨询热线全天开通。"),
        ("short lines", "首页\n新闻中心\n产品展示\n关于我们\n联系方式\n在线留言"),
        ("few lines end a sentence", "\n".join(f"第{number}号仓库里存放的配件和工具清单" for number in "一二三四五六")),
        ("few sentence ends", "港口的早晨渔民的网和小船以及海边的天空" * 30),
        ("few Han characters", "图 " + "=-+*" * 30 + " 表"),
        ("script", TRADITIONAL, {"max_traditional_share": 0.5}), ("script", CHINESE, {"min_traditional_share": 0.5})],
    "code_quality": [
        ("generated", f"# Code generated by protoc. DO NOT EDIT.\n{PROGRAM}"),
        ("generated", f"# Copyright 2020 Someone\n# This file was automatically generated.\n{PROGRAM}"),
        ("long lines", "var a=1;function b(c){return c+a}" * 40), ("encoded data", f"ICON = (\n{ICON})\n{PROGRAM}"),
        ("data", "\n".join(f"{n}.5,{n * 7919},{n * 104729}" for n in range(200))),
        ("few letters and digits", "+-*/<>[]{}().,;:\n" * 40 + "a")],
    "c4_quality": [("too few sentences", PROSE), ("too few sentences", ""), ("lorem ipsum", LOREM),
                   ("curly bracket", BRACES), ("lorem ipsum", LOREM, {"phrases": ("lorem",)})],
    "c4_paragraphs": [("too few paragraphs", f"{LONG}\n{LONG}\n{LONG[:-1]}")],
    "fineweb_quality": [
        ("no text", " \n\n"), ("duplicate lines", PAGE), ("few lines end a sentence", VERSE),
        ("few lines end a sentence", "\n".join(["a line of text which has no end at all"] * 9)),
        ("too many short lines", "\n".join(f"Item {number}." for number in range(9))),
        ("too many short lines", "首页。\n新闻中心。\n港口的早晨。"),
        ("too many newlines", "\n\n".join(f"{'w' * 40}{number}." for number in range(9)))],
    "pii": [("personal data: email", DATA, {"action": "drop"}),
            ("personal data: phone", DATA, {"action": "drop", "off": ["email"]})]}


@pytest.mark.parametrize(("name", "reason", "text", "fields"), rows(DROPPED, 2))
def test_what_is_dropped_has_its_reason(name: str, reason: str, text: str, fields: dict[str, Any]) -> None:
    assert outcome(name, text, **fields) == f"dropped: {reason}"


MENU = ["Home", "Read more...", "Two words.", f"{'x' * 1001} is a word too long.",
        "Please enable JavaScript to read this page.", "By reading on you agree to the Terms of Use.",
        "This line has no end"]
REPAIRED: dict[str, list[Row]] = {
    "unicode": [
        *((text.encode().decode(encoding), text)
          for text in (CHINESE, "“It’s a café” — that’s what the guide said…", "Съешь же ещё этих мягких булок")
          for encoding in ("latin-1", "cp1251", "macroman") if (text, encoding) != (CHINESE, "cp1251")),  # lacks a byte
        (CHINESE.encode().decode("latin-1").encode().decode("latin-1"), CHINESE),  # read wrongly twice
        ("a\u200bb\r\nc\x07 &amp; &#20013;\ufeff", "ab\nc & 中"),
        ("\x0cone\x0ctwo\u2028three\x0c\x0b\nfour\n\x0cfive\x1e", "one\ntwo\nthree\nfour\nfive")],
    "boilerplate": [
        (f"Home | About | Blog | Contact\nWe use cookies. Accept all cookies?\n{PROSE}\nCopyright 2024 Someone Inc.",
         PROSE),
        (f"首页 | 新闻中心 | 关于我们\n{CHINESE}\n版权所有 某某公司", CHINESE)],
    "c4_quality": [
        ("\n".join([*MENU[:4], PAGE, *MENU[4:]]), PAGE), (f"[1] {PAGE}\r\n\r\n{PROSE}  ", f"{PAGE}\n{PROSE}"),
        (f"{PAGE}\nThe sea[12] was [edit]calm[citation needed].", f"{PAGE}\nThe sea was calm."),
        (f"{CHINESE}\n首页\n新闻中心\n{CHINESE}", f"{CHINESE}\n{CHINESE}"),
        (f"{PAGE}\nAn offer of ours.", PAGE, {"phrases": ("Offer",)})],
    "pii": [(DATA, "Write to jane@example.org or <PHONE>.", {"off": ["email"]})]}


@pytest.mark.parametrize(("name", "text", "left", "fields"), rows(REPAIRED, 2))
def test_what_is_repaired_is_left_so(name: str, text: str, left: str, fields: dict[str, Any]) -> None:
    assert outcome(name, text, **fields) == left


@pytest.mark.parametrize(("text", "left"), [
    (f"# Copyright 2020 Someone\n# Licensed under the Apache License\n\n{PROGRAM}", PROGRAM),
    (f"#!/bin/sh\n# SPDX-License-Identifier: MIT\n{PROGRAM}", f"#!/bin/sh\n{PROGRAM}"),
    (f"/*\n * (c) Someone\n * {MIT}\n */\nint main(void);\n", "int main(void);\n"),
    (f"<?php\n// {MIT}\necho 1;\n", "<?php\necho 1;\n"),
    ("<!-- Copyright (c) 2021 Someone -->\n<p>Hello</p>\n", "<p>Hello</p>\n"),
    ("-- 版权所有 某某公司\nselect 1;\n", "select 1;\n")])
def test_licences_go(text: str, left: str) -> None:
    assert without_licence(text) == left
