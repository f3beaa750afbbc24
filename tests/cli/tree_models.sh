# SPDX-License-Identifier: MIT
# The models of the tree for fill and classify are found without --model, and know what their cards state.
. ./tests/cli/lib.sh
mkdir models
for name in facts opinions verse; do ln -s "$here/../../models/$name" models/$name; done # a tree without a download

title 'fill completes simple facts'
while read -r word sentence; do
    runs 0 fill "$sentence" -n 1
    grep -q "^ *1  $word " "$out" || failed "not $word: $sentence"
done <<'EOF'
capital Paris is the [MASK] of France.
cold the opposite of hot is [MASK].
tuesday the day after monday is [MASK].
white the snow is [MASK].
puppy a young dog is a [MASK].
five two and three is [MASK].
EOF
runs 0 fill 'the day after monday is [MASK].' -n 3 --json
prints_part '"masks":[{"at":24,'

title 'classify tells good from bad opinions, also denied and contrasted ones'
while read -r label sentence; do
    runs 0 classify "$sentence"
    grep -q "^$label " "$out" || failed "not $label: $sentence"
done <<'EOF'
positive i love this film
negative the food was cold and the waiter was rude
positive not bad at all
negative a wonderful book, but the ending was disappointing
positive the ending was disappointing, but a wonderful book
EOF

title 'info names them and their folders open as models'
runs 0 info models/facts
prints_part 'family      bert'
runs 0 info models/opinions --json
prints_part '"labels":2'
runs 0 info models/opinions
prints_part 'labels      2: positive, negative'
! "$QKV_BIN" info models/facts | grep '^labels' || failed 'labels of a model without them'
finish
