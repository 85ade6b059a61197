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
    # The filters, methods and forms of those that write tools, and some that are rare.
    "filters": """{{ [3, 1, 2]|sort }} {{ ['b', 'A', 'c']|sort }} {{ ['b', 'A']|sort(case_sensitive=true) }} {{ [1, 3, 2]|sort(true)|join }}
{{ messages|sort(attribute='role')|map(attribute='role')|join(',') }} {% for k, v in {'b': 1, 'A': 3, 'c': 2}|dictsort %}{{ k }}{{ v }} {% endfor %}{% for k, v in {'b': 2, 'a': 3}|dictsort(by='value', reverse=true) %}{{ k }}{{ v }} {% endfor %}
{{ [3, 1]|max }} {{ [3, 1]|min }} {{ ['b', 'C']|max }} {{ messages|map(attribute='content')|map('trim')|map('length')|sum }} {{ [{'n': 2}, {'n': 3}]|sum('n', 1) }} {{ messages|max(attribute='role')|length }}|{{ []|max }}|
{{ [0, 1, '', 'a']|select|list }} {{ [1, 2, 3]|select('odd')|list }} {{ [1, 2, 3]|reject('equalto', 2)|list }} {{ [1, 5]|select('gt', 2)|list }} {{ [1, 2]|select('in', [2, 3])|list }}
{{ 42.55|round(1) }} {{ 2.5|round }} {{ 3.5|round }} {{ 42.51|round(1, 'floor') }} {{ 4.2|round(method='ceil')|int }} {{ 7|round }} {{ 2 ** 3 }} {{ 2 ** 0.5 }} {{ 2 ** -1 }}
{{ ', '.join(['a', 'b']) }} {{ 'a\nb\r\nc'.splitlines() }} {{ 'a\n'.splitlines(true) }} {{ 'abcabc'.rfind('b') }} {{ 'abcabc'.count('bc') }} {{ 'äbc'.index('c') }} {{ 'xay'.removeprefix('x').removesuffix('y') }}
{{ '12'.isdigit() }} {{ ''.isdigit() }} {{ ' '.isspace() }} {{ 'a-b-c'.rsplit('-', 1) }} {{ 'aaa'.replace('a', 'b', 2) }} {{ ['a', 'b']|map('upper')|list }} {{ [{'a': 1}, {}]|map(attribute='a', default=0)|list }}
{{ '\x41\u00e9\101\a'|length }} {{ 'x' is sameas('x') }} {{ 1 is sameas(true) }} {{ 3 is gt(2) }} {{ 3 is lessthan 2 }} {{ 'ab' is lower }} {{ 'AB' is upper }} {{ '1' is lower }}
{{ {'b': 1, 'a': 'é"\u0001'}|tojson(ensure_ascii=true) }} {{ {'b': 1, 'a': [1, {}]}|tojson(sort_keys=true) }} {{ {'b': 1, 'a': [1, 2]}|tojson(separators=(',', ':')) }} {{ {'a': [1]}|tojson(indent=1, separators=(' ,', '=')) }}
{{ 'a\n\nb'|indent(2, true, true) }} {{ 'x'|int(5) }} {{ 'x'|float(2.5) }} {{ ['b', 'B', 'a']|unique|list }} {{ ['b', 'B']|unique(true)|list }} {{ messages|join('+', attribute='role') }}""",
    # Calls of tools, their answers, and contents in parts.
    "tools": """{%- if tools %}
    {{- '<|a|>system\\n# Tools\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' }}{{- tool | tojson }}
    {%- endfor %}
    {{- '\\n</tools><|b|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.content is string %}{% set content = message.content %}{% elif message.content is iterable and message.content is not none %}
        {%- set parts = namespace(text='') %}
        {%- for part in message.content %}{% if part.type == 'text' %}{% set parts.text = parts.text + part.text %}{% endif %}{% endfor %}
        {%- set content = parts.text %}
    {%- else %}{% set content = '' %}{% endif %}
    {%- if message.role == 'tool' %}
        {%- if loop.first or loop.previtem.role != 'tool' %}{{- '<|a|>user' }}{% endif %}
        {{- '\\n<answer>' + content + '</answer>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}{{- '<|b|>\\n' }}{% endif %}
    {%- elif message.role == 'assistant' %}
        {{- '<|a|>assistant\\n' + content }}
        {%- for call in message.tool_calls or [] %}
            {%- if call.function %}{% set call = call.function %}{% endif %}
            {{- '\\n<call>{"name": "' ~ call.name ~ '", "arguments": ' }}
            {{- call.arguments if call.arguments is string else call.arguments | tojson }}
            {{- '}</call>' }}
        {%- endfor %}
        {{- '<|b|>\\n' }}
    {%- else %}
        {{- '<|a|>' + message.role + '\\n' + content + '<|b|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|a|>assistant\\n' }}{% endif %}""".replace("\\\\", "\\"),
}
CALLS = [{"role": "user", "content": [{"type": "text", "text": "Due"}, {"type": "text", "text": "?"}]},
         {"role": "assistant", "content": None,
          "tool_calls": [{"type": "function", "function": {"name": "find", "arguments": {"n": 2, "a": ["é"]}}},
                         {"type": "function", "function": {"name": "find", "arguments": '{"n": 3}'}}]},
         {"role": "tool", "content": "12.50"}, {"role": "tool", "content": "May"},
         {"role": "assistant", "content": "12.50 in May."}]
VALUES = {
    "chat": {"messages": CHAT, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", "tools": None},
    "short": {"messages": CHAT[1:3], "add_generation_prompt": False, "bos_token": "", "eos_token": "</s>", "tools": TOOLS},
    "quiet": {"messages": CHAT[:2], "add_generation_prompt": True, "thinking": False, "bos_token": "<s>", "eos_token": "",
              "tools": None},
    "calls": {"messages": CALLS, "add_generation_prompt": True, "bos_token": "", "eos_token": "</s>", "tools": TOOLS},
}
# Templates that take each content as text.
TEXTS_ALONE = {"markers", "blocks", "headers", "brackets", "thoughts", "macros", "filters"}


def main():
    cases = []
    for template, source in TEMPLATES.items():
        compiled = chat_template_utils._compile_jinja_template(source)
        for key, values in VALUES.items():
            if key == "calls" and template in TEXTS_ALONE:
                continue
            cases.append({"name": template, "values": values, "expected": compiled.render(**values)})
    (REPOSITORY / "test" / "data" / "jinja.json").write_text(
        json.dumps({"templates": TEMPLATES, "cases": cases}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
