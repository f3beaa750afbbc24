#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""facts.py OUT: writes small sentences about capitals, opposites, days, months, numbers and animals, for masked training.

Each fact is written in every form of its kind; one (fact, form) in eight is held out, the same on every machine, so that
the held-out sentences have known words and known facts in forms that were not seen with them.

  OUT/facts/train.txt    one sentence per line, each twelve times, in an order that does not depend on the machine
  OUT/facts/valid.txt    the held-out sentences, for the loss during training
  OUT/facts/test.tsv     the held-out sentences with [MASK] for the word that the fact determines, a tab, the word
"""
import hashlib
import os
import sys

CAPITALS = """france paris; italy rome; spain madrid; germany berlin; austria vienna; poland warsaw; norway oslo; sweden stockholm;
finland helsinki; denmark copenhagen; greece athens; portugal lisbon; ireland dublin; hungary budapest; england london;
belgium brussels; russia moscow; turkey ankara; egypt cairo; kenya nairobi; japan tokyo; china beijing; india delhi;
cuba havana; peru lima; chile santiago; canada ottawa; iceland reykjavik; scotland edinburgh; wales cardiff"""
OPPOSITES = """hot cold; big small; old new; fast slow; high low; long short; happy sad; good bad; light dark; rich poor;
strong weak; wet dry; hard soft; open closed; full empty; early late; loud quiet; sweet sour; thick thin; clean dirty; wide narrow;
deep shallow; heavy light; sharp blunt; rough smooth; true false; right wrong; near far; first last; cheap expensive; easy difficult;
alive dead; tall short; young old; brave afraid; warm cool"""
ANIMALS = """dog puppy barks; cat kitten meows; cow calf moos; sheep lamb bleats; horse foal neighs; lion cub roars; duck duckling quacks;
hen chick clucks; pig piglet grunts; goose gosling honks; wolf pup howls; frog tadpole croaks"""
COLOURS = """snow white; coal black; grass green; blood red; sky blue; lemon yellow; banana yellow; milk white; night black;
tomato red; leaf green; sea blue; gold yellow; rose red; salt white; chocolate brown; mouse grey; frog green"""
MADE = """bread baker; shoe cobbler; chair carpenter; song singer; poem poet; picture painter; dress tailor; wall mason; clock clockmaker;
book writer; bridge engineer; ring jeweller; garden gardener; meal cook; letter secretary; pot potter"""
DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
MONTHS = "january february march april may june july august september october november december".split()
NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen".split()

# Forms of each kind; * marks the word that the fact determines.
FORMS = {
    "capital": ["{1} is the *capital* of {0}.", "the capital of {0} is *{1}*.", "*{1}* is the capital of {0}.", "{1} is the capital of *{0}*.",
                "the city of {1} is in *{0}*.", "in {0}, the capital is *{1}*.", "{0} has its capital in *{1}*.",
                "if you are in {1}, you are in *{0}*.", "the king of {0} lives in *{1}*.", "people in {1} live in *{0}*."],
    "opposite": ["the opposite of {0} is *{1}*.", "the opposite of {1} is *{0}*.", "what is not {0} is *{1}*.", "what is not {1} is *{0}*.",
                 "it was not {0} but *{1}*.", "it was not {1} but *{0}*.", "first it was {0}, then it was *{1}*."],
    "animal": ["a young {0} is a *{1}*.", "a *{1}* is a young {0}.", "a {1} will be a *{0}* one day.", "the {0} *{2}*.", "the animal that {2} is a *{0}*.",
               "the {1} is the child of the *{0}*.", "the {0} and her *{1}* sleep."],
    "colour": ["the {0} is *{1}*.", "it is as *{1}* as a {0}.", "a {0} has the colour *{1}*.", "the colour of the {0} is *{1}*.", "like a {0}, it is *{1}*."],
    "made": ["the {0} was made by the *{1}*.", "the *{1}* made the {0}.", "a {1} makes a *{0}*.", "who makes a {0}? the *{1}*.", "to get a {0}, ask the *{1}*."],
    "order": ["the day after {0} is *{1}*.", "the day before {1} is *{0}*.", "after {0} comes *{1}*.", "before {1} comes *{0}*.", "{0} is followed by *{1}*.",
              "today is {0}, so tomorrow is *{1}*.", "today is {1}, so yesterday was *{0}*."],
    "month": ["the month after {0} is *{1}*.", "the month before {1} is *{0}*.", "after {0} comes *{1}*.", "before {1} comes *{0}*.", "{0} is followed by *{1}*."],
    "sum": ["{0} and {1} is *{2}*.", "{0} plus {1} makes *{2}*.", "if i have {0} and get {1}, i have *{2}*.", "{2} less {1} is *{0}*."],
}
COPIES = 12


def number(text):
    """Hashes a text to a pseudo-random number, the same on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def facts():
    for kind, text in (("capital", CAPITALS), ("opposite", OPPOSITES), ("animal", ANIMALS), ("colour", COLOURS), ("made", MADE)):
        for row in text.split(";"):
            yield kind, tuple(row.split())
    for kind, names in (("order", DAYS), ("month", MONTHS)):
        for i, name in enumerate(names):
            yield kind, (name, names[(i + 1) % len(names)])
    for a in range(1, 10):
        for b in range(1, 10):
            yield "sum", (NUMBERS[a], NUMBERS[b], NUMBERS[a + b])


def main():
    out = os.path.join(sys.argv[1], "facts")
    os.makedirs(out, exist_ok=True)
    train, valid, test = [], [], []
    for kind, words in facts():
        for form in FORMS[kind]:
            marked = form.format(*words)
            before, answer, after = marked.split("*")
            sentence = before + answer + after
            if number(form + " ".join(words)) % 8:
                train += [(number(f"{sentence} {copy}"), sentence) for copy in range(COPIES)]
            else:
                valid.append(sentence)
                test.append(f"{before}[MASK]{after}\t{answer}")
    for name, lines in (("train.txt", [s for _, s in sorted(train)]), ("valid.txt", valid), ("test.tsv", test)):
        with open(os.path.join(out, name), "w", encoding="utf-8", newline="\n") as f:
            f.write("".join(line + "\n" for line in lines))
    print(f"{len(train) // COPIES} sentences for training, {len(test)} held out")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
