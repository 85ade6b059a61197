#!/usr/bin/env python3
"""Writes test/data/jinja.json: what transformers makes of chat templates, for test/formats/jinja_test.cpp.

  tools/make_jinja_golden.py

Templates are written for this test, in the forms that published ones have: turns between markers with a first message
by default, headers, instructions in brackets, tools, what is thought and left out of earlier turns. Needs .venv.
"""

import json
from pathlib import Path

from transformers.utils import chat_template_utils

REPOSITORY = Path(__file__).resolve().parent.parent

CHAT = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "  What is due?\n"},
        {"role": "assistant", "content": "12.50 €"}, {"role": "user", "content": "When?"},
        {"role": "assistant", "content": "<think>\nMay?\n</think>\n\nIn May."}]
TOOLS = [{"type": "function", "function": {"name": "find", "description": "Finds \"it\" é",
                                          "parameters": {"type": "object", "properties": {"n": {"type": "integer"}},
                                                         "required": []}}}]
TEMPLATES = {
    "markers": """{%- if messages[0]['role'] == 'system' -%}
    {%- set first = messages[0]['content'] -%}
{%- else -%}
    {%- set first = 'Help.' -%}
{%- endif -%}
{%- for message in messages -%}
    {%- if loop.first and messages[0]['role'] != 'system' -%}
        {{- '<|a|>system\\n' + first + '<|b|>\\n' -}}
    {%- endif -%}
    {{- '<|a|>' + message['role'] + '\\n' + message['content'] + '<|b|>' + '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|a|>assistant\\n' -}}
{%- endif -%}""",
    "blocks": """{% for message in messages %}
    {% if message.role == 'user' %}
User: {{ message.content }}
    {% elif message.role == "assistant" %}
Answer: {{ message.content | trim }}{{ eos_token }}
    {% else %}
 ({{ message.content }})
    {% endif %}
{% endfor %}
{% if add_generation_prompt %}
Answer:
{% endif %}
""",
    "headers": """{{- bos_token }}
{%- if custom is defined %}{%- set tools = custom %}{%- endif %}
{%- if not date is defined %}{%- set date = "26 Jul 2024" %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = "" %}
{%- endif %}
{{- "<|h|>system<|e|>\\n\\n" }}
{{- "Today: " + date + "\\n\\n" }}
{%- if tools is not none %}
    {{- "Functions:" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system }}{{- "<|t|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|h|>' + message['role'] + '<|e|>\\n\\n'+ message['content'] | trim + '<|t|>' }}
    {%- endif %}
{%- endfor %}""",
    "brackets": """{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0]['content'] %}{% else %}{% set rest = messages %}{% set system = false %}{% endif %}{% for message in rest %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}{% if loop.index0 == 0 and system != false %}{% set content = '<<S>>\\n' + system + '\\n<</S>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[I] ' + content.strip() + ' [/I]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}""",
    "thoughts": """{%- set ns = namespace(multi=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi and message.role == "user" and message.content is string and not(message.content.startswith('<r>') and message.content.endswith('</r>')) %}
        {%- set ns.multi = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- set thought = '' %}
    {%- if message.role == 'assistant' and '</think>' in content %}
        {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {%- if loop.index0 > ns.last and (loop.last or thought) %}
        {{- '<s>' + message.role + '\\n<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content }}
    {%- else %}
        {{- '<s>' + message.role + '\\n' + content }}
    {%- endif %}
    {{- '<e>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<s>assistant\\n' }}
    {%- if thinking is defined and thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""",
    "macros": """{% macro line(text, mark='-', times=2) %}{{ mark * times }} {{ text|upper }}{% endmacro %}
{% for m in messages if m.role != 'system' %}
{{ line(m.content|trim, times=loop.index) }}
{% else %}
nothing
{% endfor %}
{% for m in messages %}{% if loop.index > 3 %}{% break %}{% endif %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.role[:2] ~ loop.index }};{% endfor %}
{# a comment #}
{{ messages|map(attribute='role')|unique|join('+') }} {{ messages|selectattr('role', 'equalto', 'user')|list|length }}
{% set joined %}<{{ eos_token }}>{% endset %}{{ joined }}
{% generation %}{{ messages[-1].content[-4:-1] }}{% endgeneration %}
""",
    "values": """{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 1.5 + 1 }} {{ 2 * 3 - 1 }} {{ 'a' in 'cab' }} {{ 1 in [1, 2] }}
{{ none }} {{ true }} {{ [1, 'a', none, 2.0] }} {{ {'k': "it's"} }} {{ missing }}|{{ missing|default('d') }}|{{ ''|default('e', true) }}
{{ 'a' if false else 'b' }}{{ 'c' if false }} {{ not false and 1 == 1.0 }} {{ 3 is odd }} {{ 4 is divisibleby(2) }} {{ 'x' is string }}
{{ 'one two  three'.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'Hello wORLD'|capitalize }} {{ 'hello world'.title() }} {{ range(3)|list }} {{ range(6, 0, -2)|join(' ') }}
{{ 'äöü'[1] }} {{ 'äöü'|length }} {{ 'abc'[::-1] }} {{ [1,2,3,4][1:3] }} {{ [3,1]|first }} {{ {'a': 1, 'b': [true, none]}|tojson }} {{ ('a' ~ 1) ~ none }}
{{ "a\\nb"|indent(2) }} {{ 'x'.replace('x', 'yy') }} {{ {'a': 1}.get('b', 5) }} {% for k, v in {'p': 1, 'q': 2}.items() %}{{ k }}={{ v }} {% endfor %}{{ '5'|int + 1 }} {{ 3 > 2 and 2 >= 2 }} {{ loop is defined }} {{ raise_exception is defined }} {{ {0: 'zero', 5: 'five'}[5] }}
{{ -3|abs }} {{ 1 < 3 < 2 }} {{ 1 < 2 < 3 }} {{ '12abc'|int }} {{ ' 12 '|int }} [{{ '\u3000é è\u00a0'|trim }}] [{{ 'éaé'.strip('è') }}] {{ 'é</t>x'.find('</t>') }} {{ ' a  é b '.split() }} {{ 'a b c d'.split(none, 2) }}
{% macro pair(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ pair('x') }}
  {%+ if true %}kept{% endif %}
{{- ' end' -}}
   """,
}
VALUES = {
    "chat": {"messages": CHAT, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", "tools": None},
    "short": {"messages": CHAT[1:3], "add_generation_prompt": False, "bos_token": "", "eos_token": "</s>", "tools": TOOLS},
    "quiet": {"messages": CHAT[:2], "add_generation_prompt": True, "thinking": False, "bos_token": "<s>", "eos_token": "",
              "tools": None},
}


def main():
    cases = []
    for template, source in TEMPLATES.items():
        compiled = chat_template_utils._compile_jinja_template(source)
        for values in VALUES.values():
            cases.append({"name": template, "values": values, "expected": compiled.render(**values)})
    (REPOSITORY / "test" / "data" / "jinja.json").write_text(
        json.dumps({"templates": TEMPLATES, "cases": cases}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
