# SPDX-License-Identifier: MIT
# view_output.sh: tests qkv view --view output: the logit lens, masks, labels and shares of tokens.
. tests/cli/lib.sh
models=$here/../../models
golden=$here/../golden
[ -f "$models/dates/model.safetensors" ] && [ -f "$models/verse/model.safetensors" ] || {
    echo 'skipped: models/dates and models/verse are not here'
    exit 77
}

title 'the last row of a decoder is what qkv generate predicts'
runs 0 generate 'In the beginning' -m "$models/verse" -n 1 --logprobs 5 --json
cp "$out" generate.json
runs 0 view 'In the beginning' -m "$models/verse" --view output --terminal --json
silent
cp "$out" view.json
python3 - <<'PY' || failed 'other probabilities'
import json, math
g = json.loads(open('generate.json').readline())['logprobs'][0]['top']
v = json.load(open('view.json'))['output']
assert v['kind'] == 'next', v['kind']
last = v['positions'][-1]
assert len(last['rows']) == json.load(open('view.json'))['layers'] + 1
top = last['rows'][-1]['top']
assert len(top) == len(g) == 5
for (name, p), x in zip(top, g):
    assert abs(p - math.exp(x['logprob'])) < 1e-6, (name, p, x)
for position in v['positions']:
    for row in position['rows']:
        p = [x[1] for x in row['top']]
        assert p == sorted(p, reverse=True) and 0 < sum(p) <= 1 + 1e-5, p
    if 'target' in position:  # its place says how many tokens are more likely
        row = position['rows'][-1]
        names = [x[0] for x in row['top']]
        if position['target'] in names:
            assert names.index(position['target']) + 1 == row['target_place'], position
assert 'target' not in last and 'target' in v['positions'][0]
PY

title 'the terminal and pictures show one position, by default the last'
runs 0 view 'In the beginning' -m "$models/verse" --view output --terminal
prints_part 'What comes out?'
prints_part 'The most likely token after “ning” is “'
prints_part 'embeddings'
runs 0 view 'In the beginning' -m "$models/verse" --view output --token the --terminal
prints_part 'The most likely token after “the” is “'
runs 0 view 'In the beginning' -m "$models/verse" --view output -o out.svg
check grep -q '<desc id="finding">The most likely token after “ning” is “' out.svg
runs 0 view 'In the beginning' -m "$models/verse" -o out.html --json
check grep -q '"output":{"kind":"next","stacks":\[0\],"stack":0' out.html
runs 4 view 'In the beginning' -m "$models/verse" --view output -o out.csv
says_part '--view output shows no attention weights'

title 'an encoder-decoder: the step that writes each token'
runs 0 view 'the third of may 1998' -m "$models/dates" --view output --terminal --json
prints_part '"kind":"written"'
cp "$out" view.json
runs 0 generate 'x' -m "$models/verse" -n 1 # another model in between leaves nothing
python3 - <<'PY' || failed 'a step of the decoder'
import json
v = json.load(open('view.json'))['output']['positions']
assert len(v) >= 10
for p in v:  # the model wrote this text by itself: each token was the most likely one
    assert p['rows'][-1]['target_place'] == 1 and p['rows'][-1]['top'][0][0] == p['target'], p
PY
runs 0 view 'the third of may 1998' -m "$models/dates" --view output --terminal
prints_part 'The most likely token of the step that writes “'
runs 0 view 'the third of may 1998' -m "$models/dates" --stack encoder --view output --terminal
prints_part 'The most likely token of the step that writes “'

title 'a recurrent model with attention: the output of each step, which is what qkv translate writes'
runs 0 translate 'the third of may 1998' -m "$models/dates-gru" --beam 1 --logprobs 5 --json
cp "$out" translate.json
runs 0 view 'the third of may 1998' -m "$models/dates-gru" --view output --terminal --json
cp "$out" view.json
python3 - <<'PY' || failed 'other probabilities than the ones of translate'
import json, math
steps = json.loads(open('translate.json').readline())['logprobs']
v = json.load(open('view.json'))['output']
assert v['kind'] == 'written' and len(v['positions']) == len(steps) + 1 == 11, v
for p, step in zip(v['positions'], steps):
    assert len(p['rows']) == 1 and p['rows'][0]['target_place'] == 1, p
    for (name, q), x in zip(p['rows'][0]['top'], step['top']):
        assert abs(q - math.exp(x['logprob'])) < 1e-6, (name, q, x)
PY
runs 0 view 'the third of may 1998' -m "$models/dates-gru" --view output --token 5 --terminal
prints_part 'The most likely token of the step that writes “5” is “5” 1.000.'
runs 0 view 'the third of may 1998' -m "$models/dates-gru" --view output -o gru.svg
check grep -q '<desc id="finding">The most likely token of the step that writes “' gru.svg
runs 0 view 'the third of may 1998' -m "$models/dates-gru" -o gru.html --json
check grep -q '"output":{"kind":"written","stacks":\[0\],"stack":0' gru.html

title 'labels: their probabilities are the ones of qkv classify'
runs 0 view --ids 2,5,4,6,7,3 -m "$golden/bert-labels" --view output -o labels.svg
check grep -q '>probability</text>' labels.svg
runs 0 view --ids 2,5,4,6,7,3 -m "$golden/bert-labels" --view steps -o steps.svg
check grep -q '>divide by</text>' steps.svg
check grep -q '>weight</text>' steps.svg
runs 0 view --ids 2,5,4,6,7,3 -m "$golden/bert-labels" --view output --terminal --json
prints_part '"output":{"kind":"labels","positions":[{"rows":[{"top":[['
python3 - "$out" <<'PY' || failed 'probabilities of labels'
import json, sys
top = json.load(open(sys.argv[1]))['output']['positions'][0]['rows'][0]['top']
assert abs(sum(p for _, p in top) - 1) < 1e-5 and len(top) > 1, top
PY
runs 0 view --ids 2,5,4,6,7,3 -m "$golden/bert-token-labels" --view output --terminal
prints_part 'The most likely label of '

title 'masked tokens: the fills of the mask'
runs 0 view --ids 2,5,4,6,7,3 -m "$golden/bert-tokens" --view output --terminal --json
prints_part '"output":{"kind":"masked"'

title 'an embedder: shares of tokens that add up to 1'
runs 0 view --ids 2,5,4,6,7,3 -m "$golden/bert" --view output --terminal --json
prints_part '"output":{"kind":"shares"'
python3 - "$out" <<'PY' || failed 'shares'
import json, sys
p = json.load(open(sys.argv[1]))['output']['positions']
assert len(p) == 6 and abs(sum(x['rows'][0]['top'][0][1] for x in p) - 1) < 1e-5, p
PY
runs 0 view --ids 2,5,4,6,7,3 -m "$golden/bert" --view output --terminal
prints_part 'has the largest share of the vector of the text'

title 'weights from a file have no output'
runs 0 view --ids 2,5,4 -m "$golden/bert" --terminal -o w.npy
printf 'a\nb\nc\n' >t.txt
runs 4 view --attention w.npy --tokens t.txt --view output --terminal
says_part 'weights from a file have no output'

finish
