# SPDX-License-Identifier: MIT
# serve_limits.sh: `qkv serve`: the memory of answers and requests is bounded, and connections share the models.
. tests/cli/lib.sh
verse=$here/../../models/verse
cp -r "$verse" chat
printf '%s' '{% for m in messages %}{{ m.content }}{% endfor %}' >chat/chat_template.jinja
mkdir ranks odd
sed 's/"BertProcessing"/"RobertaProcessing", "trim_offsets": true, "add_prefix_space": false/' \
    "$here/../golden/bert/tokenizer.json" >ranks/tokenizer.json
cp "$here/../golden/xlm-roberta-labels/config.json" "$here/../golden/xlm-roberta-labels/model.safetensors" ranks
cp "$here/../golden/bert/tokenizer.json" "$here/../golden/bert-labels/config.json" "$here/../golden/bert-labels/model.safetensors" odd
title 'answers, values, shares of connections, the log'
check python3 -E "$here/serve_limits.py" "$here/../golden/bert" "$verse" chat ranks odd
finish
