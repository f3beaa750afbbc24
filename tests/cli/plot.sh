#!/bin/sh
# SPDX-License-Identifier: MIT
# plot.sh: tests the curves that qkv plot draws from the logs of a run.
. tests/cli/lib.sh

mkdir run other
i=1
while [ $i -le 40 ]; do
    echo "{\"step\":$i,\"loss\":$((50 - i)).5,\"rate\":0.00$i,\"norm\":1.5}"
    [ $((i % 10)) -ne 0 ] || echo "{\"step\":$i,\"valid_loss\":$((52 - i)).25}"
    i=$((i + 1))
done >run/log.jsonl
head -n 30 run/log.jsonl >other/log.jsonl
for s in 0 10 20; do
    echo "{\"step\":$s,\"tokens\":[\"a\",\"b\"],\"heads\":[[{\"entropy\":0.$((9 - s / 10)),\"top\":[0,1]}]]}"
done >run/probes.jsonl

title 'the finding is printed above the curves'
runs 0 plot run
silent
prints_part 'After 40 steps the validation loss is 12.250, its minimum so far'
prints_part 'step'

title 'without UTF-8 the output is ASCII'
LC_ALL=C runs 0 plot run other
check sh -c "! grep -q '[^ -~]' '$out'"

title 'an SVG and a page are written, and existing files are kept'
runs 0 plot run -o curve.svg
check grep -q '<svg xmlns=' curve.svg
runs 0 plot run other -o both.html
check grep -q "default-src 'none'" both.html
runs 2 plot run -o curve.svg
says_part 'exists already'
runs 0 plot run -o curve.svg --force

title 'a PNG is written'
runs 0 plot run -o curve.png
check sh -c "head -c 4 curve.png | grep -q PNG"

title 'the same log gives the same bytes'
runs 0 plot run -o again.svg
check cmp -s curve.svg again.svg

title 'standard output gets the SVG'
runs 0 plot run -o -
check cmp -s curve.svg "$out"

title 'an unknown file ending is refused before any work'
runs 2 plot run -o curve.gif
says_part 'ends with .svg, .png or .html'

title 'numbers as JSON'
runs 0 plot run --json
check sh -c "python3 -c 'import json,sys; r = json.load(sys.stdin)[\"runs\"][0]; sys.exit(r[\"steps\"] != 40 or r[\"best_step\"] != 40 or r[\"valid_loss\"] != 12.25)' <'$out'"

title 'probes show every head'
runs 0 plot run --probes
prints_part 'L0.H0 fell most, from 0.90 to 0.70 bits'
mkdir little same
for folder in little same; do cp run/log.jsonl $folder/; done
heads() { echo "{\"step\":$1,\"tokens\":[\"a\",\"b\"],\"heads\":[[{\"entropy\":$2,\"top\":[0,1]}]]}"; }
{ heads 0 3.2926; heads 10 3.2911; } >little/probes.jsonl
{ heads 0 3.29; heads 10 3.29; } >same/probes.jsonl
runs 0 plot little --probes
prints_part 'L0.H0 fell most, from 3.293 to 3.291 bits'
runs 0 plot same --probes
prints_part 'L0.H0 stayed at 3.29 bits'
runs 2 plot run other --probes
says_part 'too many runs: the probes of only one run can be plotted'

title 'a folder that is not a run is named'
runs 6 plot nowhere
says_part 'nowhere'
echo '{"step": 1, "loss": ' >other/log.jsonl
runs 3 plot other
says_part 'line 1'
runs 2 plot
finish
