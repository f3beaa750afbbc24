# SPDX-License-Identifier: MIT
# serve_memory.sh: `qkv serve` without memory for an allocation: the answer is whole or an error.
. tests/cli/lib.sh
# the allocator of a sanitizer is not replaced
[ -n "${QKV_SLOW:-}" ] && [ "$QKV_SLOW" != OFF ] && exit 77
mkdir labels
cp "$here/../golden/bert/tokenizer.json" "$here/../golden/bert-labels/config.json" "$here/../golden/bert-labels/model.safetensors" labels
cp -r "$here/../../models/verse" chat
printf '%s' '{% for m in messages %}{{ m.content }}{% endfor %}' >chat/chat_template.jinja
title 'an allocation that fails is no wrong answer'
check python3 -E "$here/serve_memory.py" "$here/../golden/bert" chat labels
finish
