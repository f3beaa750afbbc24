# SPDX-License-Identifier: MIT
# serve_crowd.sh: `qkv serve`: one address cannot keep others out.
. tests/cli/lib.sh
verse=$here/../../models/verse
cp -r "$verse" chat
printf '%s' '{% set ns = namespace(system="") %}{% for m in messages %}{% set ns.system = ns.system + m.content %}{% endfor %}{{ ns.system }}' \
    >chat/chat_template.jinja
# the model of ranks has one token type
mkdir ranks
sed 's/"BertProcessing"/"RobertaProcessing", "trim_offsets": true, "add_prefix_space": false/' "$here/../golden/bert/tokenizer.json" >ranks/tokenizer.json
cp "$here/../golden/xlm-roberta-labels/config.json" "$here/../golden/xlm-roberta-labels/model.safetensors" ranks
title 'queue, places, memory and connections are shared'
check python3 -E "$here/serve_crowd.py" "$here/../golden/bert" "$verse" chat ranks
finish
