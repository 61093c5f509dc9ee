"""Chinese web text: spam by weighted words, lists, the two scripts; and what only looks alike."""

import pytest

from tests.cleaning_fixtures import CHINESE, PROSE, outcome

TRADITIONAL = "清晨的港口十分安靜，漁民們坐在堤岸上修補漁網。天亮前出海的小船回來了，只帶回不多的鯡魚。"
KEPT = {
    "an article about gambling": "警方昨天通报，一个利用网络赌博平台诈骗的团伙被捣毁，涉案超过两千万元。"
                                 "记者了解到，他们在三个城市租了办公室，招来的人先要学习。"
                                 "检察院说，这构成开设赌场罪，案件将于下个月开庭。",
    "a medical article": "乳房自我检查应当在月经结束后进行。"
                         "如果乳头有分泌物，或者摸到肿块，应当到医院检查，多数是良性的。",
    "an article about shops": "这家公司的客服电话常年占线，记者打了三次才有人接听，退货要等七天。",
    "a poem": "空山新雨后，天气晚来秋。\n明月松间照，清泉石上流。\n"
              "竹喧归浣女，莲动下渔舟。\n随意春芳歇，王孙自可留。",
    "Chinese about programs": "先写一个函数，再调用它：\n```\ndef area(r):\n    return 3.14 * r ** 2\n```\n"
                              "运行以后，屏幕上会显示圆的面积。"}
DROPPED = {
    "gambling spam": "澳门新葡京娱乐城官网，真人荷官在线发牌，注册送彩金88元，时时彩、百家乐任你选，首存送豪礼。",
    "adult spam": "免费毛片在线观看，日韩av无码高清视频，美女裸聊直播福利，成人电影天天更新，激情视频一键下载。",
    "advertisement spam": "厂家直销，全国包邮，货到付款！优惠大酬宾，加微信领取优惠券，咨询热线全天开通。",
    "short lines": "首页\n新闻中心\n产品展示\n关于我们\n联系方式\n在线留言",
    "few lines end a sentence": "\n".join(f"第{number}号仓库里存放的配件和工具清单" for number in "一二三四五六"),
    "few sentence ends": "港口的早晨渔民的网和小船以及海边的天空" * 30,
    "few Han characters": "图 " + "=-+*" * 30 + " 表"}


@pytest.mark.parametrize("kind", KEPT)
def test_good_chinese_stays(kind: str) -> None:
    assert outcome("chinese_quality", KEPT[kind]) == KEPT[kind]


@pytest.mark.parametrize("reason", DROPPED)
def test_chinese_that_is_no_prose_goes_with_its_reason(reason: str) -> None:
    assert outcome("chinese_quality", DROPPED[reason]) == f"dropped: {reason}"


def test_a_script_can_be_asked_for() -> None:
    for text, share in ((TRADITIONAL, {"min_traditional_share": 0.5}), (CHINESE, {"max_traditional_share": 0.5})):
        assert outcome("chinese_quality", text) == outcome("chinese_quality", text, **share) == text
    assert outcome("chinese_quality", TRADITIONAL, max_traditional_share=0.5) == "dropped: script"
    assert outcome("chinese_quality", CHINESE, min_traditional_share=0.5) == "dropped: script"
    assert outcome("chinese_quality", PROSE, min_traditional_share=1.0, min_han_share=1.0) == PROSE
