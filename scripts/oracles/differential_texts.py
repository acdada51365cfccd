"""Random texts and vocabularies for them."""

ALPHABET = "abcdefghijklmnopqrstuvwxyz"
CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ\u00c4\u00c9\u0130\u03a3\u1e9e"
OTHERS = "0123456789.,!?'-()#_\u00e4\u00e9\u00df\u0131\u03c3\u4f60\u597d\u6771\u0430\u0301\u0308\u2019\u20ac"
SPECIALS = ("[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]", "<s>", "</s>", "<pad>", "<unk>", "<mask>")
SPACES = " \t\u00a0\u2003\u3000\x0b\x0c\x1c\x1f\x85\u2028\r\u200b\ufeff"
CONTROLS = "\x00\x01\x1b\x7f\u00ad\u200c\u200d\u202e\u2060\ufffd\ue000\U000e0001"
GLUE = " a_-1\u200c\u200d\u24b6\U0001f130\u0301\u4f60\u00e9"  # next to a token that must be a word
BLOCKS = ((0x21, 0x7e), (0xa1, 0x24f), (0x300, 0x36f), (0x370, 0x3ff), (0x400, 0x52f), (0x590, 0x6ff), (0x900, 0xdff),
          (0x1e00, 0x1fff), (0x2000, 0x206f), (0x2070, 0x2bff), (0x3000, 0x30ff), (0x3400, 0x9fff), (0xac00, 0xd7a3),
          (0xf900, 0xfaff), (0xfe00, 0xffef), (0x1d400, 0x1d7ff), (0x1f100, 0x1f9ff), (0x20000, 0x2a6df), (0, 0x10ffff))


def code_point(random):
    while True:
        c = random.randint(*random.choice(BLOCKS))
        if not 0xd800 <= c < 0xe000:
            return chr(c)


def word(random, letters=ALPHABET):
    return "".join(random.choice(letters) for _ in range(random.choice((1, 2, 3, 4, 6, 9))))


def pieces(random, special):
    """A vocabulary of single letters and short words, of which some are missing."""
    letters = [c for c in ALPHABET + OTHERS + CAPITALS if random.random() < 0.95]
    parts = [piece for c in letters for piece in (c, "##" + c)]
    parts += [prefix + word(random) for _ in range(60) for prefix in ("", "##")]
    parts += [word(random, CAPITALS + ALPHABET) for _ in range(10)]
    random.shuffle(parts)
    return list(dict.fromkeys([*special, *parts]))


def part(random, extra):
    kind = random.random()
    if kind < 0.5:
        return word(random)
    if kind < 0.6:
        return word(random, ALPHABET + CAPITALS)
    if kind < 0.7:
        return word(random, OTHERS)
    if kind < 0.78:
        token = random.choice((*SPECIALS, *extra, *extra))
        return token if random.random() < 0.6 else random.choice(GLUE) + token + random.choice(GLUE)
    if kind < 0.82:
        return random.choice(CONTROLS)
    if kind < 0.86:
        return random.choice(SPACES)
    return "".join(code_point(random) for _ in range(random.randint(1, 5)))


def text(random, extra=()):
    """Words, special tokens, controls and any Unicode; rarely empty, blank or very long."""
    kind = random.random()
    if kind < 0.03:
        return random.choice(("", " ", SPACES, "\u0301", "\x00"))
    if kind < 0.06:
        return word(random, ALPHABET + OTHERS) * random.choice((12, 40, 300))
    parts = [part(random, extra) for _ in range(random.choice((1, 2, 4, 8, 16, 60)))]
    return "".join(p + random.choice(("", " ", " ", " ", random.choice(SPACES))) for p in parts)


def line(random, extra=()):
    """A text that a line of a file can hold."""
    return text(random, extra).replace("\n", " ")
