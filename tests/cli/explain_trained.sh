#!/bin/sh
# SPDX-License-Identifier: MIT
# explain_trained.sh: checks the topics of qkv explain that train while the reader waits, and analogies of word vectors.
. tests/cli/lib.sh

title 'selection: attention weights are the softmax over the keys, the weights of lasso are the same for every sample'
runs 0 explain --selection --json
check python3 - "$out" <<'END'
import json, re, sys
r = json.load(open(sys.argv[1]))
lasso, pooling, random, trained = [[float(x) for x in row[1:]] for row in r["table"][1:]]
# the target has variance 1: a method that knows nothing has an error of 1 or more
assert lasso[0] < .1 and lasso[1] > .8 and min(pooling) > 1.5 and min(random) > .8 and max(trained) < .4, r["table"]
panels = r["panels"]
bars = panels[1]["lines"][0]["y"]
assert len(bars) == 12 and abs(sum(bars) - 1) < 1e-5 and max(bars) > .5, bars
assert abs(sum(panels[3]["lines"][0]["y"]) - 1) < 1e-4
for grid in panels[5], panels[7]:
    assert abs(sum(map(sum, grid["values"])) - 1) < 1e-4, grid["name"]
# on new data the trained heads find the places of the form: 3 of 113 windows, 2 of 324 patches, 1 of 64 patches in each
# of 5 frames; their shares of the weight are .64, .94 and .79, the shares of uniform weights .03, .01 and .02
shares = dict(re.findall(r"(series|image|video) (\d*\.\d+)", r["sentence"]))
weights = panels[3]["lines"][0]["y"], sum(panels[5]["values"], []), sum(panels[7]["values"], [])
for name, least, places, w in zip(("series", "image", "video"), (.5, .8, .6), (3, 2, 5), weights):
    share, largest = float(shares[name]), sum(sorted(w)[-places:])
    assert least < share <= largest + .005, (name, share, largest)
END
mv "$out" seed1.json
runs 0 explain --selection --json
check cmp "$out" seed1.json

title 'scores: the trained heads beat random ones, and the merged matrix has the weights of the dot product'
runs 0 explain --scores --json
check python3 - "$out" <<'END'
import json, sys
r = json.load(open(sys.argv[1]))
dot, bilinear, additive, odd = r["table"][1:]
assert max(float(x[4]) for x in (dot, bilinear, additive)) < .2 and float(odd[4]) > .8, r["table"]
assert all(x[5] == "within 1e-3" for x in r["table"][1:]), r["table"]  # the slope of the loss, measured by steps
assert min(float(x[3]) for x in r["table"][1:]) > .8, r["table"]
assert [int(x[2]) for x in r["table"][1:]] == [98, 147, 203, 203], r["table"]
for p in r["panels"]:
    assert abs(sum(p["lines"][0]["y"]) - 1) < 1e-5
# scores of at most 50 in floats, merged in another order
assert "(the difference is less than 1e-04)" in r["sentence"], r["sentence"]
END

title 'analogies: word vectors of both objectives name the capital of another country first'
check python3 "$here/../../examples/train/capitals.py" .
head -n 20000 capitals.txt >some.txt
for objective in --window=5 --cbow; do
    runs 0 train some.txt --per-line --objective words --width 50 $objective --out "words$objective"
    for country in italy=rome japan=tokyo greece=athens; do
        runs 0 analogy -m "words$objective" paris - france + "${country%=*}" -n 1 --json
        check grep -q "\"${country#*=}\"" "$out"
    done
done

finish
