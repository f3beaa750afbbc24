# SPDX-License-Identifier: MIT
# view.sh: tests the picture in the terminal and the HTML page (MiniLM).
. tests/cli/lib.sh
need_model
animal='The animal didn'"'"'t cross the street because it was too tired'

title 'two sentences give a picture, a finding in words and the name of a page'
runs 0 view 'time flies like an arrow' 'fruit flies like a banana'
silent
prints_part 'all-MiniLM-L6-v2  6 layers × 12 heads × 32  10 tokens, 3 special hidden'
prints_part 'also: “'
prints_part 'view.html: '
prints_part 'stores all 12168 weights, exact'
check test -s view.html
cp view.html first.html

title 'a second run uses another name, and the page has the same bytes'
runs 0 view 'time flies like an arrow' 'fruit flies like a banana' --threads 2
prints_part 'view-2.html: '
check cmp -s view-2.html first.html
check cmp -s view.html first.html

title 'an existing page is not replaced without --force'
runs 2 view "$animal" -o view.html
check cmp -s view.html first.html
runs 0 view "$animal" -o view.html --force
runs 6 view "$animal" -o no/such/folder/view.html

title 'what one word attends to, in a given layer and head'
runs 0 view "$animal" --terminal --token it --layer 3 --heads 1,6,7,9
silent
prints_part '“it” attends to “animal” .64, “street” .05 (L3.H1); to “The” .25 (L3.H7).'
prints_part 'L5.H11 .65'
prints_part '“it” in layer 3 attends to'
check test ! -e view-3.html
runs 0 view "$animal" --terminal --token 10 --layer 5 --heads 11
prints_part '“it” attends to “animal” .65'

title 'the terminal picture and a named file at once'
runs 0 view "$animal" --terminal -o both.html
prints_part 'both.html: '
prints_part '“it” attends to “animal” .64, “street” .05 (L3.H1).'
check grep -q 'doctype html' both.html

title 'a view as a picture, by the ending of the file name'
runs 0 view "$animal" --view steps --token it --layer 3 --heads 1 -o steps.svg
prints 'steps.svg: picture of the view'
runs 0 view "$animal" --view steps --token it --layer 3 --heads 1 -o steps.svg --force --terminal
prints_part 'How does “it” attend to “animal”?'
prints_part 'steps.svg: picture of the view'
runs 0 view "$animal" --view steps --token it --layer 3 --heads 1 --plain -o plain.svg
check grep -q '<desc id="finding">Layer 3, head 1, 32 dimensions per vector' plain.svg
check grep -q '<title' plain.svg
check test "$(grep -o '<text' plain.svg | wc -l)" -lt "$(grep -o '<text' steps.svg | wc -l)"
runs 0 view "$animal" --view steps --token it --layer 3 --heads 1 --size column -o column.svg
check grep -q '<svg [^>]*width="84mm" height="[0-9.]*mm" viewBox="0 0 400 ' column.svg
runs 0 view "$animal" --size page -o page.svg
check grep -q '<svg [^>]*width="174mm"' page.svg
runs 2 view "$animal" --size wide -o wide.svg
runs 0 view "$animal" --view residual --token it -o residual.svg --terminal
prints_part 'The residual stream of “it” goes from norm'
prints_part 'In a post-norm model the change includes the layer norm.'
check grep -q '<desc id="finding">The residual stream of “it” goes from norm' residual.svg
check grep -q 'change by feed-forward<' residual.svg
check [ -z "$(grep ' adds<' residual.svg)" ]
check grep -q '<desc id="finding">Layer 3, head 1, 32 dimensions per vector' steps.svg
runs 0 view "$animal" --view model -o model.png
check sh -c "head -c 4 model.png | grep -q PNG"
runs 2 view "$animal" --view model -o model.png
runs 2 view "$animal" --view compare -o compare.svg

title '--json prints the files and the finding'
runs 0 view "$animal" --terminal --json --precision bf16
prints_part '"precision":"bf16"'
runs 0 view "$animal" -o told.html --json
python3 - "$out" "$(wc -c <told.html)" <<'PY' || failed 'the object'
import json, sys
d = json.load(open(sys.argv[1]))
assert (d['file'], d['bytes'], d['model']) == ('told.html', int(sys.argv[2]), 'all-MiniLM-L6-v2'), d
assert (d['tokens'], d['layers'], d['heads'], d['weights']) == (15, 6, 12, 6 * 12 * 15 * 15), d
assert d['kind'] == 'dense' and d['error'] == 0 and d['sentence'].startswith('“it” attends to '), d
PY
runs 0 view "$animal" --terminal --json --token it --layer 3 --heads 1
prints_part '{"file":null,"model":"all-MiniLM-L6-v2","precision":"f32","tokens":15,'
prints_part '"sentence":"“it” attends to “animal” .64'
runs 2 view "$animal" --layer 6 --terminal --json
says '{"status":"usage","code":2,"text":"unknown layer 6, expected 0 to 5"}'

title 'the page may be written to standard output'
runs 0 view "$animal" -o -
check cmp -s "$out" told.html
runs 2 view "$animal" -o - --json
runs 2 view "$animal" -o - --terminal

title 'unknown layers, heads and words are refused with the valid ones'
runs 2 view "$animal" --heads 3,1,3 --terminal
says 'qkv: --heads: number 3 occurs twice, expected each number once'
runs 2 view "$animal" --layer 6 --terminal
says 'qkv: unknown layer 6, expected 0 to 5'
runs 2 view "$animal" --heads 3,12 --terminal
says 'qkv: unknown head 12, expected 0 to 11'
runs 2 view "$animal" --heads 3,x --terminal
runs 2 view "$animal" --token giraffe --terminal
says 'qkv: --token: expected a token of the text or its index from 0 to 14, found '"'giraffe'"
runs 2 view '' --terminal
says 'qkv: the text is empty, expected words'
runs 2 view '  ' --terminal
runs 2 view "$animal" --budget nothing
runs 5 view "$animal" --budget 1K
says_part 'expected at most the budget of 1000'
check test ! -e view-3.html

title 'a long text is truncated on request, and the number of tokens is printed'
long=$(yes 'time flies like an arrow and' | head -n 200 | tr '\n' ' ')
runs 2 view "$long" --terminal
most=512 bytes=6100000
[ -z "${QKV_SLOW:-}" ] || most=128 bytes=4100000
runs 0 view "$long" --max-length $most -o long.html
says_part "the text was cut to $most tokens"
[ "$(wc -c <long.html)" -le $bytes ] || failed "the page is larger than $bytes bytes"
prints_part 'long.html: '

title 'padding changes nothing'
runs 0 view "$animal" -o plain.html
runs 0 view "$animal" -o padded.html --pad --max-length 64
check cmp -s plain.html padded.html

title 'ids without a text'
runs 0 view --ids 101,2051,10029,102 --terminal
prints_part 'flies'

title 'ids have a story too, and no hidden token is marked'
runs 0 view --ids 101,999,0,103,30521 --terminal
prints_part '“!” attends to “##～” .34, special tokens .64'
prints_part '“!” in layer 0 attends to'

title 'any width, any locale, colour only on a terminal'
for columns in 1 20 40 79 150 500; do
    export COLUMNS=$columns
    runs 0 view "$animal" --terminal --token it
    check test -s "$out"
done
unset COLUMNS

title 'the shares of tokens follow from the hidden states, in the page and in the terminal'
runs 0 trace "$animal" --what hidden -o hidden.safetensors
runs 0 view "$animal" -o shares.html
runs 0 view "$animal" --view output --terminal
cp "$out" shares.txt
runs 0 view "$animal" --view output --terminal --json
python3 - "$out" hidden.safetensors shares.html shares.txt <<'PY' || failed 'shares of MiniLM'
import array, decimal, json, re, struct, sys
positions = json.load(open(sys.argv[1]))["output"]["positions"]
told = [p["rows"][0]["top"][0][1] for p in positions]
data = open(sys.argv[2], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
tensor = json.loads(data[8:8 + size])["hidden_states.6"]
_, n, width = tensor["shape"]
begin, end = tensor["data_offsets"]
flat = array.array("f", data[8 + size + begin:8 + size + end])
hidden = [flat[i * width:(i + 1) * width] for i in range(n)]
mean = [sum(h[e] for h in hidden) / n for e in range(width)]
square = sum(x * x for x in mean)
shares = [sum(a * b for a, b in zip(h, mean)) / n / square for h in hidden]
assert len(told) == n and abs(sum(told) - 1) < 1e-5, told
for h, a, b in zip(hidden, told, shares):
    # a sum of `width` products of floats, each rounded a few times
    bound = (width + 4) * 2 ** -24 * sum(abs(x * y) for x, y in zip(h, mean)) / n / square
    assert abs(a - b) <= bound + 1e-8, (a, b, bound)
page = open(sys.argv[3], encoding="utf-8").read()
output = json.loads(re.search(r'"output":(\{.*?\})', page, re.S).group(1))
assert output["kind"] == "shares" and len(output["values"]) == n, output
assert all(abs(v / 1e5 - s) <= .5e-5 + 1e-7 for v, s in zip(output["values"], told)), output["values"]
three = [str(decimal.Decimal(s).quantize(decimal.Decimal(".001"), decimal.ROUND_HALF_UP))[1:] for s in told]
text = open(sys.argv[4], encoding="utf-8").read()
assert abs(sum(map(float, three)) - 1) <= n * .0005, three
assert not set(three) - set(re.findall(r"\.\d{3}\b", text)), (three, text)
PY
LC_ALL=C runs 0 view 'naïve 日本 café' --terminal
[ -z "$(LC_ALL=C tr -d '\n -~' <"$out")" ] || failed 'bytes that are not ASCII'
finish
