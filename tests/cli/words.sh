# SPDX-License-Identifier: MIT
# words.sh: tests similar and analogy (MiniLM).
. tests/cli/lib.sh
need_model

title 'the cosines equal the cosines of the embeddings'
runs 0 similar 'a happy dog' 'a joyful puppy' 'tax law' --json
cp "$out" table.json
runs 0 embed 'a happy dog' 'a joyful puppy' 'tax law'
python3 - "$out" <<'PY' || failed 'the table'
import json, sys
v = [list(map(float, line.split())) for line in open(sys.argv[1])]
d = json.load(open('table.json'))
assert d['precision'] == 'f32'
assert d['texts'] == ['a happy dog', 'a joyful puppy', 'tax law']
u = 2.0 ** -24
for i in range(3):
    for j in range(3):
        dot = sum(a * b for a, b in zip(v[i], v[j]))
        assert abs(d['cosine'][i][j] - dot) <= 4 * u, (i, j)  # vectors of length 1 within 2 roundings
assert d['cosine'][0][1] > 0.7 > 0.2 > d['cosine'][0][2]
PY
runs 0 similar 'a happy dog' 'a joyful puppy' 'tax law'
prints_part 'nearest: 1 and 2, 0.77'
prints_part 'tax law'

title 'lines of a file are texts too; fewer than two are refused'
printf 'a joyful puppy\ntax law\n' >lines
runs 0 similar 'a happy dog' -f lines --json
check cmp -s "$out" table.json
runs 2 similar alone
says 'qkv: too few texts to compare, expected 2 or more, found 1'

title 'a word has another vector in every sentence, and one static embedding'
runs 0 similar --token flies 'time flies like an arrow' 'fruit flies like a banana' --json
python3 - "$out" <<'PY' || failed 'flies'
import json, sys
d = json.load(open(sys.argv[1]))
assert d['places'] == [{'text': 0, 'begin': 5, 'end': 10}, {'text': 1, 'begin': 6, 'end': 11}]
assert abs(d['static'][0][1] - 1) <= 2.0 ** -22 and d['context'][0][1] < 0.8
PY

title '--with compares with other words: flies is an insect in one text only'
runs 0 similar --token flies 'time flies like an arrow' 'fruit flies like a banana' --with insect,bug --json
python3 - "$out" <<'PY' || failed 'insect'
import json, sys
d = json.load(open(sys.argv[1]))
assert d['texts'][2:] == ['insect', 'bug'] and d['places'][2:] == [{'text': 2, 'begin': 0, 'end': 6}, {'text': 3, 'begin': 0, 'end': 3}]
c = d['context']  # the numbers of transformers
for found, wanted in ((c[0][2], .2691645), (c[1][2], .5421866), (c[0][3], .2552742), (c[1][3], .2534327)):
    assert abs(found - wanted) < 2e-5, (found, wanted)
PY
runs 0 similar --token insect 'insect' --with insect --json # the word alone is the word in that text
python3 -c "import json, sys; assert abs(json.load(open(sys.argv[1]))['context'][0][1] - 1) < 1e-6" "$out" || failed 'itself'
runs 2 similar 'a' 'b' --with insect
says 'qkv: --with requires --token'

title 'a label that is too long keeps the word in brackets'
COLUMNS=60 "$QKV_BIN" similar --token bear 'The hiking trail led us through bear country' 'I cannot bear it' >"$out"
prints_part ' [bear]...'
"$QKV_BIN" explain --context bear 'The hiking trail led us through bear country' 'I cannot bear it' >"$out"
prints_part ' [bear]…  1.00'

title '--nearest lists the words of the vocabulary that are nearest'
runs 2 similar 'a' 'b' --nearest 3
says 'qkv: --nearest requires --token'
runs 0 similar -m "$here/../../models/facts" --token lion 'the lion lives in africa' 'a lion eats' --with six --nearest 1000 --json
python3 - "$out" <<'PY' || failed 'nearest'
import json, sys
d = json.load(open(sys.argv[1]))
lists = [{w['word']: w['cosine'] for w in row} for row in d['nearest']]
assert len({tuple(sorted(w)) for w in lists}) == 1 and 400 < len(lists[0]) < 1000, 'every row has every word'
assert all(list(w.values()) == sorted(w.values(), reverse=True) for w in lists)
assert 'lion' not in lists[0] and all(w.isalpha() and len(w) > 1 for w in lists[0])
for row, context in zip(lists, d['context']):
    assert abs(row['six'] - context[2]) < 1e-6, 'a word alone has the vector that --with has'
PY
runs 0 similar -m "$here/../../models/facts" --token lion 'a lion eats' --nearest 2
prints_part 'nearest of '
[ "$(tail -n 1 "$out" | wc -w)" -eq 4 ] || failed 'two words with their cosines'
runs 2 similar --token a 'a b' --with a,,b
says_part '--with: expected words separated by commas'
runs 2 similar --token a 'a b' --with 'a, '
says "qkv: --with: expected words separated by commas, found an empty word in 'a, '"
runs 2 similar --token a 'a b' --with ' '
says_part 'found an empty word'
runs 0 similar --token flies 'time flies' --with 'insect,bug' --json
cp "$out" tight
runs 0 similar --token flies 'time flies' --with ' insect , bug ' --json
check cmp tight "$out"

title 'senses of bear: the sport is nearer to the animal than to the burden'
runs 0 similar --token bear 'I love bears' 'She bears the pain' 'Bears won the game' 'bear country' --json
python3 - "$out" <<'PY' || failed 'bears'
import json, sys
d = json.load(open(sys.argv[1]))
c = d['context']
assert [(p['text'], p['begin'], p['end']) for p in d['places']] == [(0, 7, 12), (1, 4, 9), (2, 0, 5), (3, 0, 4)]
assert c[0][2] > c[0][1] and c[0][3] > c[1][3], c
assert all(d['static'][i][j] > 1 - 1e-6 for i in range(3) for j in range(3))
PY

title 'each occurrence of the word is a row; a word of several tokens is their mean'
runs 0 similar --token unaffable 'unaffable people' 'UNAFFABLE? Yes: unaffable' --json
prints_part '"places":[{"text":0,"begin":0,"end":9},{"text":1,"begin":0,"end":9},{"text":1,"begin":16,"end":25}]'
runs 0 similar --token flies 'time flies'
prints_part 'time [flies]'

title 'a text without the word is omitted with a note; if none remains it is an error'
runs 0 similar --token bears 'I love bears' 'She bears the pain' 'Bears won the game' 'bear country'
says "qkv: note: --token: word 'bears' does not occur in 'bear country': the text is skipped"
prints_part 'I love [bears]'
runs 0 similar --token bears 'bear country' 'I love bears' 'She bears the pain' --json
says "{\"note\":\"--token: word 'bears' does not occur in 'bear country': the text is skipped\"}"
prints_part '"places":[{"text":1,"begin":7,"end":12},{"text":2,"begin":4,"end":9}]'
python3 - "$out" <<'PY' || failed 'the rows that are left'
import json, sys
d = json.load(open(sys.argv[1]))
assert len(d['texts']) == 3 and [len(r) for r in d['context']] == [2, 2]
assert abs(d['context'][0][0] - 1) < 1e-6 and d['static'][0][1] > 1 - 1e-6
PY
runs 2 similar --token cat 'a dog' 'scatter'
says "qkv: --token: word 'cat' does not occur in any of the 2 texts"
runs 2 similar --token cat 'a dog'
says "qkv: --token: word 'cat' does not occur in 'a dog'"
long=$(python3 -c "print('é' * 300)")
runs 2 similar --token cat "$long"
says "qkv: --token: word 'cat' does not occur in '$(python3 -c "print('é' * 30)")...'"

title 'a truncated occurrence is omitted with a note'
python3 -c "print('word ' * 600 + 'bear')" >late
runs 0 similar --token bear --truncate 'a bear' -f late --json
says_part "was truncated: this occurrence is skipped"
prints_part '"places":[{"text":0,"begin":2,"end":6}],"context":[['
[ "$(wc -c <"$err")" -le 160 ] || failed 'a note with the whole text'
runs 2 similar --token bear --truncate -f late
says_part "every occurrence of 'bear' was truncated"

title 'king - man + woman lists queen first; paris - france + italy lists rome among five'
runs 0 analogy king - man + woman --json
prints_part '"nearest":[{"word":"queen"'
runs 0 analogy -n 5 Paris - France + Italy
prints_part rome
[ "$(wc -l <"$out")" -eq 6 ] || failed 'five words and a heading'

title 'the sum may be written in several ways'
cp "$out" five
for way in 'Paris -France +Italy' '+Paris - France + Italy' '+Italy +Paris -France'; do
    runs 0 analogy -n 5 $way
    [ "$(tail -n 5 "$out")" = "$(tail -n 5 five)" ] || failed "$way"
done
runs 0 analogy -n 5 'Paris - France + Italy'
check cmp -s "$out" five
runs 0 analogy -n 5 -- Paris - France + Italy
check cmp -s "$out" five

title 'an invalid sum is refused'
runs 2 analogy Paris France
says "qkv: two consecutive words in the sum, expected + or - before 'France'"
runs 2 analogy Paris - + France
says "qkv: two consecutive signs in the sum, expected a word, found '+'"
runs 2 analogy king - king
says 'qkv: words of the sum cancel, expected a sum that is not 0'
runs 2 analogy paris - france + italy + france - italy - paris
runs 2 analogy Paris -
says 'qkv: sum ends with a sign, expected a word after it'
runs 2 analogy ' '
says_part 'no words'
runs 2 analogy unaffable + king
says_part "'unaffable' is not a word of the model's vocabulary, expected a single token, found"
runs 2 analogy -n 0 king

finish
