#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""dates.py OUT: writes dates in many forms with their ISO form: "the third of May 1987", tab, "1987-05-03".

A form is a choice for each of its parts: order, weekday, day, month, year, case and the words between.  One form in
ten is held out for testing and one in fifty for validation: their parts occur in other forms, but no training date
has such a form.  Writes OUT/dates/train.tsv, valid.tsv, test.tsv, the same bytes on every machine.
The separators of numeric dates decide their order: 31.12.1999 day first, 12/31/1999 month first, 1999-12-31 year
first.
"""
import datetime
import os
import sys

COUNTS = {"train": 200000, "valid": 2000, "test": 5000}
FIRST, LAST = 1500, 2199

ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen seventeen eighteen nineteen").split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
ORDINALS = ("_ first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
            "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth").split()
MONTHS = ("January February March April May June July August September October November December").split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


class Random:
    """SplitMix64: pseudo-random numbers, the same on every machine."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        x = self.state
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
        return (x ^ x >> 31) * n >> 64


def two_digits(n):
    """Returns 0..99 in words."""
    if n < 20:
        return ONES[n]
    return TENS[n // 10] + ("-" + ONES[n % 10] if n % 10 else "")


def ordinal(n):
    """Returns an ordinal 1..31 in words: "twenty-first"."""
    if n <= 20:
        return ORDINALS[n]
    return "thirtieth" if n == 30 else TENS[n // 10] + "-" + ORDINALS[n % 10]


def suffix(n):
    """Returns an ordinal 1..31 in digits: "21st"."""
    return str(n) + ("th" if 11 <= n <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th"))


def year_pairs(y):
    """Returns a year as "nineteen ninety-nine", "nineteen oh five", "twenty-one hundred"; 2000..2009 as thousands."""
    if 2000 <= y < 2010:
        return year_thousand(y)
    high, low = divmod(y, 100)
    return two_digits(high) + " " + ("hundred" if not low else "oh " + ONES[low] if low < 10 else two_digits(low))


def year_hundred(y):
    """Returns a year as "nineteen hundred and five"; years 2000..2099 as thousands."""
    if y // 100 == 20:
        return year_thousand(y, " and")
    high, low = divmod(y, 100)
    return two_digits(high) + " hundred" + (" and " + two_digits(low) if low else "")


def year_thousand(y, joint=""):
    """Returns a year as "two thousand five"."""
    high, low = divmod(y, 1000)
    hundreds, rest = divmod(low, 100)
    return (ONES[high] + " thousand" + (" " + ONES[hundreds] + " hundred" if hundreds else "") +
            (joint + " " + two_digits(rest) if rest else ""))


DAY = {
    "5": str, "05": lambda d: f"{d:02}", "5th": suffix, "fifth": ordinal,
    "the 5th of": lambda d: "the " + suffix(d) + " of", "the fifth of": lambda d: "the " + ordinal(d) + " of",
    "5th of": lambda d: suffix(d) + " of", "the fifth day of": lambda d: "the " + ordinal(d) + " day of",
}
DAY_LAST = {k: DAY[k] for k in ("5", "05", "5th", "fifth")}  # no "of" after a month
DAY_LAST["the fifth"] = lambda d: "the " + ordinal(d)
DAY_LAST["the 5th"] = lambda d: "the " + suffix(d)
MONTH = {
    "March": lambda m: MONTHS[m - 1], "Mar": lambda m: MONTHS[m - 1][:3],
    "Mar.": lambda m: MONTHS[m - 1] if m == 5 else MONTHS[m - 1][:3] + ".",
}
YEAR = {
    "1999": str, "nineteen ninety-nine": year_pairs, "nineteen hundred and ninety-nine": year_hundred,
    "one thousand nine hundred ninety-nine": year_thousand, "the year 1999": lambda y: f"the year {y}",
    "in 1999": lambda y: f"in {y}", "A.D. 1999": lambda y: f"A.D. {y}",
}
WEEKDAY = {
    "": lambda w: "", "Monday, ": lambda w: WEEKDAYS[w] + ", ", "Mon ": lambda w: WEEKDAYS[w][:3] + " ",
    "on ": lambda w: "on ", "on Monday ": lambda w: "on " + WEEKDAYS[w] + " ",
    "Monday ": lambda w: WEEKDAYS[w] + " ",
}
CASE = {"As": lambda s: s[0].upper() + s[1:], "as": str.lower, "AS": str.upper}
ORDER = ("dmy", "mdy", "ymd", "ydm")
BETWEEN = (" ", ", ")
NUMBERS = {
    "31.12.1999": lambda d: f"{d.day}.{d.month}.{d.year}", "1999-12-31": lambda d: f"{d.year}-{d.month}-{d.day}",
    "12/31/1999": lambda d: f"{d.month}/{d.day}/{d.year}", "01.02.1999": lambda d: f"{d.day:02}.{d.month:02}.{d.year}",
    "02/01/1999": lambda d: f"{d.month:02}/{d.day:02}/{d.year}", "1999/12/31": lambda d: f"{d.year}/{d.month}/{d.day}",
}


def forms():
    """Returns every form as a tuple of names."""
    for order in ORDER:
        days = DAY if order.index("d") < order.index("m") else DAY_LAST
        for weekday in WEEKDAY:
            for day in days:
                for month in MONTH:
                    for year in YEAR:
                        for between in BETWEEN:
                            for case in CASE:
                                yield (order, weekday, day, month, year, between, case)
    for number in NUMBERS:  # numeric forms have no parts from which another form could be learned: all are for training
        yield (number,)


def write_date(form, date):
    if form[0] in NUMBERS:
        return NUMBERS[form[0]](date)
    order, weekday, day, month, year, between, case = form
    days = DAY if order.index("d") < order.index("m") else DAY_LAST
    part = {"d": days[day](date.day), "m": MONTH[month](date.month), "y": YEAR[year](date.year)}
    words = [part[c] for c in order]
    # A comma comes before or after the year, as in print.
    if order[2] == "y":
        text = words[0] + " " + words[1] + between + words[2]
    else:
        text = words[0] + between + words[1] + " " + words[2]
    return CASE[case](WEEKDAY[weekday](date.weekday()) + text)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    every = list(forms())
    draw = Random(1)
    order = every[:-len(NUMBERS)]
    for i in range(len(order) - 1, 0, -1):  # Fisher-Yates shuffle
        j = draw.below(i + 1)
        order[i], order[j] = order[j], order[i]
    test, valid = len(order) // 10, len(order) // 50
    parts = {"test": order[:test], "valid": order[test:test + valid],
             "train": order[test + valid:] + every[-len(NUMBERS):] * 100}
    first = datetime.date(FIRST, 1, 1).toordinal()
    days = datetime.date(LAST, 12, 31).toordinal() - first + 1
    os.makedirs(f"{sys.argv[1]}/dates", exist_ok=True)
    for name, count in COUNTS.items():
        path = f"{sys.argv[1]}/dates/{name}.tsv"
        with open(path + ".tmp", "w", encoding="utf-8", newline="\n") as f:
            for _ in range(count):
                date = datetime.date.fromordinal(first + draw.below(days))
                form = parts[name][draw.below(len(parts[name]))]
                f.write(f"{write_date(form, date)}\t{date.isoformat()}\n")
        os.replace(path + ".tmp", path)
    print(f"forms: {len(parts['train']) - 99 * len(NUMBERS)} to learn, {valid} to validate, {test} to test")


if __name__ == "__main__":
    main()
