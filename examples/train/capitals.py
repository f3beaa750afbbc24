#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""capitals.py OUT: writes a text of simple sentences about countries, capitals and families to learn word vectors from.

A sentence is a pattern whose gaps are words of one row of a table: a country, its capital, its people, its river.  A
word is so surrounded by words of two kinds: words of its row (french, seine) and words of its role (mayor, army).  Word
vectors learn both from the neighbours alone.  Writes OUT/capitals.txt, one sentence per line, the same bytes on every
machine.
"""
import os
import sys
from dates import Random

COUNT = 60000
COUNTRIES = """france paris french seine
italy rome italian tiber
germany berlin german spree
spain madrid spanish manzanares
japan tokyo japanese sumida
greece athens greek ilisos
egypt cairo egyptian nile
russia moscow russian moskva
england london english thames
austria vienna austrian danube"""
ABOUT_COUNTRIES = """the {2} army guards the border of {0}
the {2} parliament makes the law of {0}
{0} is a country and its people speak {2}
farmers in {0} grow {2} wheat
the {3} flows through {0} to the sea
the president of {0} gave a {2} passport to the sailor
the {2} map shows {0} and its neighbours"""
ABOUT_CAPITALS = """the {2} mayor works in the town hall of {1}
the {2} underground runs below the streets of {1}
{1} is a city with many {2} shops
a bridge in {1} crosses the {3}
tourists in {1} take a taxi to the {2} museum
the {3} divides the old town of {1}
the suburbs of {1} have {2} schools"""
FAMILIES = """king man prince boy he
queen woman princess girl she"""
ABOUT_FAMILIES = """the {0} wears a crown and {4} rules the kingdom
{4} is the {0} and sits on the throne
the {2} lives in the palace and {4} is young
the {2} has a crown and toys for {4} is young
the {1} walks to work and {4} pays the rent
{4} is a {1} who works in the factory
the {3} goes to school and {4} is young
{4} is a {3} who plays with toys"""


def main():
    out = sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__)
    countries = [line.split() for line in COUNTRIES.split("\n")]
    families = [line.split() for line in FAMILIES.split("\n")]
    places = (ABOUT_COUNTRIES + "\n" + ABOUT_CAPITALS).split("\n")
    people = ABOUT_FAMILIES.split("\n")
    random = Random(2013)
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "capitals.txt"), "w", encoding="ascii", newline="\n") as f:
        for _ in range(COUNT):
            rows, patterns = (families, people) if random.below(5) == 0 else (countries, places)
            f.write(patterns[random.below(len(patterns))].format(*rows[random.below(len(rows))]) + "\n")


if __name__ == "__main__":
    main()
