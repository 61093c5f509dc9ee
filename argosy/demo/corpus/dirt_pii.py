"""Personal data that belongs to nobody: reserved, never issued or published as test values."""

from random import Random

KINDS = ("email", "phone", "id_number", "ip", "card")

# Card networks publish these for tests; all pass the Luhn check.
_TEST_CARDS = ("4111111111111111", "4242424242424242", "5555555555554444", "6011111111111117")
_CHECK_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def fake_value(kind: str, lang: str, rng: Random) -> str:
    """A value of one of KINDS in the form that is usual where `lang` is spoken."""
    if kind == "email":
        name = rng.choice(("li.wei", "anna_b", "m.jones", "wangfang", "peter"))
        return f"{name}{rng.randrange(10, 100)}@example.{rng.choice(('com', 'org', 'net'))}"
    if kind == "phone":
        return _chinese_phone(rng) if lang == "zh" else f"(212) 555-01{rng.randrange(100):02d}"
    if kind == "id_number":
        return _chinese_id(rng) if lang == "zh" else f"987-65-43{rng.randrange(20, 30)}"
    if kind == "ip":
        # RFC 5737: addresses for documentation.
        return f"{rng.choice(('192.0.2', '198.51.100', '203.0.113'))}.{rng.randrange(1, 255)}"
    if kind == "card":
        digits = rng.choice(_TEST_CARDS)
        return " ".join(digits[i : i + 4] for i in range(0, 16, 4)) if rng.random() < 0.5 else digits
    raise ValueError(f"kind is {kind!r}, allowed: {KINDS}")


def _chinese_phone(rng: Random) -> str:
    # No operator has been given the prefix 154.
    return f"154{rng.randrange(10**8):08d}"


def _chinese_id(rng: Random) -> str:
    # No region has the code 990101; the check digit is right (GB 11643-1999).
    digits = f"990101{rng.randrange(1950, 2000)}{rng.randrange(1, 13):02d}{rng.randrange(1, 29):02d}"
    digits += f"{rng.randrange(1000):03d}"
    total = sum(int(digit) * weight for digit, weight in zip(digits, _CHECK_WEIGHTS, strict=True))
    return digits + "10X98765432"[total % 11]
