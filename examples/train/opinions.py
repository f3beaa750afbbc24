#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""opinions.py OUT: writes short opinions in English with a label, positive or negative, made by a small grammar.

Opinions are about films, meals, rooms and the like: plain ("the soup was delicious"), denied ("the soup was not bad"),
contrasted, where the part after "but" counts ("a slow start, but i loved the end"), and with words that say nothing.  The
same bytes on every machine.  Three ways to be unseen are held out:

  OUT/opinions/train.tsv   sentence, tab, label
  OUT/opinions/valid.tsv   other sentences of the same grammar
  OUT/opinions/test.tsv    sentences of forms that do not occur in training
"""
import os
import sys

from dates import Random

GOOD = """good great excellent wonderful lovely delicious brilliant superb perfect beautiful amazing fantastic charming clever funny
fresh friendly clean bright kind warm helpful honest fair gentle quick reliable solid smooth strong tasty tender useful witty
enjoyable exciting gripping impressive inspiring moving outstanding pleasant remarkable satisfying splendid touching delightful elegant
fine fun graceful happy memorable nice original polished powerful refreshing rich sweet thoughtful thrilling comfortable cheerful""".split()
BAD = """bad awful terrible horrible poor boring dull ugly dirty rude slow broken cheap cold confusing weak stale bitter bland
clumsy dishonest disappointing dreadful empty false flat foolish greasy harsh lazy loud mean messy nasty noisy painful pointless predictable
rotten ruined sad shallow silly sloppy sour stupid tasteless tedious tired unfair unfriendly unpleasant useless vague wasteful worthless
annoying depressing dry forgettable frustrating gloomy hopeless lifeless mediocre pathetic tiresome uncomfortable""".split()
THINGS = """film movie book story song concert play show ending actor actress singer music picture plot joke scene soup meal dinner pizza
bread cake coffee tea wine fish salad sauce waiter service restaurant hotel room bed bath view breakfast staff driver train flight trip
phone camera battery screen keyboard chair table lamp jacket coat shoe dress bag game teacher lesson course lecture letter garden park beach""".split()
LIKE = "love loved like liked enjoy enjoyed admire admired adore adored praise praised recommend recommended appreciate appreciated".split()
HATE = "hate hated dislike disliked regret regretted despise despised detest detested avoid avoided resent resented".split()
VERY = ["", "", "", "very", "really", "so", "truly", "quite", "rather", "extremely", "absolutely"]
OPEN = ["", "", "", "honestly,", "in short,", "to be fair,", "in the end,", "last night", "again,", "for us,", "i think", "my sister says"]
CLOSE = ["", "", "", "", "as everyone said", "this time", "from start to end", "for the price", "in every way", "once more", "at home"]

# {G} {B}: a good or bad word, {g} {b}: another one, {T} {t}: things, {L} {H}: verbs, {V}: very.  The label is of the form.
FORMS = [
    (1, "the {T} was {V} {G}"), (0, "the {T} was {V} {B}"), (1, "a {V} {G} {T}"), (0, "a {V} {B} {T}"),
    (1, "the {T} was {G} and {g}"), (0, "the {T} was {B} and {b}"), (1, "i {L} the {T}"), (0, "i {H} the {T}"),
    (1, "i {L} the {G} {T}"), (0, "i {H} the {B} {T}"), (1, "what a {G} {T}"), (0, "what a {B} {T}"),
    (0, "the {T} was not {G}"), (1, "the {T} was not {B}"), (0, "the {T} was never {G}"), (1, "the {T} was never {B}"),
    (0, "i did not find the {T} {G}"), (1, "i did not find the {T} {B}"), (0, "there was nothing {G} about the {T}"),
    (1, "there was nothing {B} about the {T}"), (1, "the {T} was {B}, but the {t} was {G}"), (0, "the {T} was {G}, but the {t} was {B}"),
    (1, "the {T} was {B}, but i {L} it"), (0, "the {T} was {G}, but i {H} it"), (1, "although the {T} was {B}, the {t} was {G}"),
    (0, "although the {T} was {G}, the {t} was {B}"), (1, "the {T} was not {B} but {G}"), (0, "the {T} was not {G} but {B}"),
    (1, "i {L} this {T}"), (0, "i {H} this {T}"), (1, "we {L} it"), (0, "we {H} it"), (0, "i do not {L} the {T}"), (1, "i do not {H} the {T}"),
    (1, "not {B} at all"), (0, "not {G} at all"), (1, "the best {T} of all"), (0, "the worst {T} of all"), (1, "one of the best, a {G} {T}"),
    (0, "one of the worst, a {B} {T}"), (1, "it is a {G} {T}"), (0, "it is a {B} {T}"), (1, "the {T} is {G} and i {L} the {t}"),
    (0, "the {T} is {B} and i {H} the {t}"), (0, "i wanted to {L} it, but the {T} was {B}"), (1, "i wanted to {H} it, but the {T} was {G}"),
    (1, "not only {G} but also {g}"), (0, "not only {B} but also {b}"), (1, "everything about the {T} was {G}"), (0, "everything about the {T} was {B}"),
    (1, "the {T} and the {t} were {V} {G}"), (0, "the {T} and the {t} were {V} {B}"), (0, "neither {G} nor {g}"), (1, "neither {B} nor {b}"),
]
UNSEEN = [
    (1, "we found the {T} {V} {G}"), (0, "we found the {T} {V} {B}"), (1, "a {G}, {g} {T}"), (0, "a {B}, {b} {T}"),
    (0, "this {T} is not {V} {G}"), (1, "this {T} is not {B} at all"), (1, "a {B} {T}, but a {G} {t}"), (0, "a {G} {T}, but a {B} {t}"),
    (1, "the {T} could be {B}, but it was {G}"), (0, "the {T} could be {G}, but it was {B}"), (1, "they {L} this {G} {T}"), (0, "they {H} this {B} {T}"),
]
COUNTS = (("train", FORMS, 60000), ("valid", FORMS, 1000), ("test", UNSEEN, 1000))


def sentence(random, forms):
    def pick(words):
        return words[random.below(len(words))]
    label, form = pick(forms)
    good, bad = pick(GOOD), pick(BAD)
    other = [w for w in GOOD if w != good], [w for w in BAD if w != bad]
    text = form.format(G=good, B=bad, g=pick(other[0]), b=pick(other[1]), T=pick(THINGS), t=pick(THINGS), L=pick(LIKE), H=pick(HATE), V=pick(VERY))
    return " ".join(f"{pick(OPEN)} {text} {pick(CLOSE)}".split()) + ("." if random.below(3) else ""), label


def main():
    out = os.path.join(sys.argv[1], "opinions")
    os.makedirs(out, exist_ok=True)
    random, seen = Random(1), set()
    for name, forms, count in COUNTS:
        rows = []
        while len(rows) < count:
            text, label = sentence(random, forms)
            if text not in seen:
                seen.add(text)
                rows.append(f"{text}\t{('negative', 'positive')[label]}\n")
        with open(os.path.join(out, name + ".tsv"), "w", encoding="utf-8", newline="\n") as f:
            f.writelines(rows)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
