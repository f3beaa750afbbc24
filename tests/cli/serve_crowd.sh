# SPDX-License-Identifier: MIT
# serve_crowd.sh: `qkv serve`: one address cannot keep others out.
. tests/cli/lib.sh
verse=$here/../../models/verse
cp -r "$verse" chat
printf '%s' '{% set ns = namespace(system="") %}{% for m in messages %}{% set ns.system = ns.system + m.content %}{% endfor %}{{ ns.system }}' \
    >chat/chat_template.jinja
title 'queue, places, memory and connections are shared'
check python3 -E "$here/serve_crowd.py" "$here/../golden/bert" "$verse" chat
finish
