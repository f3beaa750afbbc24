#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""golden_templates.py: writes chat templates, messages and the prompts that Jinja2 makes of them, rendered as transformers does.

    golden_templates.py tests/golden/templates.json

The prompt of a case that qkv refuses is null, and "says" is a part of its message. Needs jinja2.
"""
import json
import sys

from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

LARGE, SMALL = 2 ** 63 - 1, -2 ** 63
MESSAGES = [{"role": "system", "content": "be kind "},
            {"role": "user", "content": "\u00e9\u4e2d\U0001f600x", "a": SMALL, "b": -1, "n": LARGE, "m": {"k": [1, "\u00e9"]}},
            {"role": "user", "content": "\u00a0\u3000 hi \u2003\u001c", "m": {"k": [1, "\u00e9"]}}]
CASES = [
    # numbers
    "{{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ -7 % -3 }} {{ 0 % 5 }} {{ -6 % 3 }}",
    "{{ messages[1].a % messages[1].b }} {{ messages[1].a % 10 }} {{ messages[1].n % -10 }}",
    "{{ 1 + 5 % 2 }} {{ 5 - 2 - 1 }} {{ 3 ~ 1 % 2 ~ 4 }} {{ - - 3 }} {{ 2 - -3 }} {{ -messages[1].b }}",
    "{{ -messages[1].b % 2 }} {{ 'n' ~ (1 + 2) }} {{ messages[1].n - 1 }} {{ messages[1].a + 1 }}",
    # white space, tags, line ends
    "a\n", "a\n\n", "a\r\nb\rc\r\n", "{{ 'a' }}\n", "{% if true %}\r\n  a\n{% endif %}\n", "  {# c #}\n{#- d -#} a {%- set x = 1 %}\n{{ x }}",
    "{% for m in messages -%}\n  {{ m.role }}\n{%- endfor %}\nb",
    "{{ '\\n\\t\\'\\\\\\x41\\u00e9\\U0001F600' }}",
    # characters
    "{{ 'é' | length }} {{ messages[1].content | length }} {{ messages[1].content[0] }} {{ messages[1].content[2] }} {{ messages[1].content[-4] }}",
    "[{{ messages[1].content[4] }}{{ messages[1].content[-5] }}]", "[{{ messages[2].content | trim }}]", "[{{ messages[2].content.strip() }}]",
    "[{{ messages[2].content.lstrip() }}] [{{ messages[2].content.rstrip() }}]", "{{ 'é→xé→'.strip('→é') }} {{ 'xay'.strip('yx') }} {{ 'a' | trim }}",
    "{{ '中a中b'.split('中') | length }} {{ '中a中b'.split('中')[1] }} {{ 'abc'.upper() }} {{ 'ABC' | lower }}",
    "{{ '\u2028a\u0085'.strip() }} {{ '\u200ba'.strip() | length }} {{ 'xxabxx' | trim('x') }}",
    # tests, comparisons
    "{{ 'a' ~ 'b' is string }} {{ 'a' ~ 1 is number }}",
    "{{ x is defined }} {{ not x is defined }} {{ x is not defined }} {{ messages is sequence }} {{ 'a' in 'cab' }} {{ 'z' not in 'cab' }}",
    "{{ messages[1].m == messages[2].m }} {{ messages[1] == messages[2] }} {{ [1, 'a'] == [1, 'a'] }} {{ messages[1].m.k[1] }}",
    "{{ not not 1 }} {{ not 0 }} {{ not not '' }} {{ not 1 == 2 }} {{ true and not false }}", "{{ messages[0].get('none') }}|{{ messages[0].get('role') }}",
    "{{ 1 if false else 2 if false else 3 }} {{ (1 if true else 2) + 1 }} {{ 'a' if x is defined }}|",
    "{% for m in messages[1:] %}{{ loop.index0 % 2 }}{{ loop.last }}{% endfor %} {{ messages[::-1][0].role }} {{ messages[-2:] | length }}",
    "{% set ns = namespace(a=1) %}{% for m in messages %}{% set ns.a = ns.a + loop.index %}{% endfor %}{{ ns.a }} {{ none }} {{ [1, 2] | first }}",
    # refused by qkv
    ("{{ messages[1].n + 1 }}", "too large"), ("{{ messages[1].a - 1 }}", "too large"), ("{{ -messages[1].a }}", "too large"),
    ("{{ 1 % 0 }}", "division by 0"), ("{{ -[1] }}", "no integer"), ("{{ messages[1].content | upper }}", "not ASCII"),
    ("{{ '\\d' }}", "escape '\\d'"), ("{{ '\\ud800' }}", "escape '\\u'"), ("{{ '\\x4' }}", "escape '\\x'"),
    ("{{ messages['a':] }}", "slice"), ("{{ [1] | first(2) }}", "with an argument"), ("{{ messages | tojson }}", "tojson"),
    ("{{ raise_exception('no ' ~ messages[0].role) }}", "refuses the messages: no system"), ("{% for m in messages %}{{ y.z }}{% endfor %}", "undefined"),
    ("{{ 'a' + 1 }}", "not both texts"), ("{{ 1 < 'a' }}", "no integers"), ("a\nb\n{% macro f() %}{% endmacro %}", "line 3: the statement 'macro'"),
]


def refuse(message):
    raise TemplateError(message)


def main():
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    cases = []
    for case in CASES:
        if isinstance(case, str):
            prompt = environment.from_string(case).render(messages=MESSAGES, bos_token="<s>", eos_token="</s>", add_generation_prompt=True)
            cases.append({"template": case, "prompt": prompt})
        else:
            cases.append({"template": case[0], "prompt": None, "says": case[1]})
    with open(sys.argv[1], "w", encoding="ascii") as f:
        json.dump({"messages": MESSAGES, "cases": cases}, f, indent=1)
        f.write("\n")


main()
