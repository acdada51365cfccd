"""The sentences behind the encoder oracles: for learning a vocabulary, encoding, and three pair batches."""

LONG = ("The old lighthouse keeper, who had watched the harbour for forty years, counted every ship that "
        "came home before the storm, wrote its name in a book, and lit the lamp again. ") * 8

# One per line in tests/oracles/sentences.txt; the empty sentence is intended.
SENTENCES = [
    "A man is playing a guitar.",
    "Two dogs run through the snow, barking at a red ball!",
    "The children's choir sang \u201cSilent Night\u201d in an old caf\u00e9.",
    "hello",
    "",
    "Ships leave the harbour before the storm.",
    "M\u00fcnchen and \u00c5rhus: 2 cities, 3 rivers, 100% rain.",
    "\u6771\u4eac is written with two characters",
    "An unfathomable zyzzyva\u2014unknown \u2603 pieces...",
    "WOMEN ARE READING NEWSPAPERS ON A TRAIN",
    "A keeper wrote the name of every ship that came home before the storm in his book, and then he lit "
    "the lamp again, while two dogs were barking at the children in the snow.",
    LONG.strip(),
]

PAIRS = [
    ("A man is playing a guitar.", "A person makes music.", 0, 4.2),
    ("Two dogs run through the snow.", "The dogs are sleeping.", 2, 1.4),
    ("Women are reading newspapers on a train.", "Women are waiting for news.", 1, 2.6),
    ("A keeper lit the lamp again.", "The lamp is lit.", 0, 4.6),
    ("Hello", "Ships leave the harbour before the storm, counting every name in the book.", 1, 0.0),
    ("Children are singing in an old church.", "The choir sings.", 1, 3.2),
    ("A woman is slicing bread.", "Nobody is in the kitchen.", 2, 0.8),
    ("Two men are talking.", "Two men are talking.", 0, 5.0),
    ("A boy throws a red ball to his brother in the park on a sunny day.", "A ball is thrown.", 0, 3.8),
    ("The city has three rivers.", "It rains in the city.", 1, 1.8),
    ("A train leaves the station.", "The train has stopped at the station.", 2, 2.2),
    ("Someone writes a name.", "A person is writing.", 0, 4.0),
]

CORPUS = SENTENCES + [text for pair in PAIRS for text in pair[:2]]
