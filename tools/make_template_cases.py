#!/usr/bin/env python3
"""Writes tests/fixtures/text/template_cases.jsonl: small templates with what Jinja2 makes of them.

    tools/make_template_cases.py tests/fixtures/text/template_cases.jsonl

Developer tool (PyPI: jinja2). The environment is the one transformers uses for chat templates.
Each line: {"template", "rendered"} or {"template", "error"}; "context" is the first line.
"""
import datetime
import json
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_support")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _support(self, caller):
        return caller()


def environment():
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols],
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: datetime.datetime(2026, 1, 2, 3, 4, 5).strftime(f)
    return env


CONTEXT = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": " Hi\u00e9\u4e2d \n"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1, "b": ["x", "y"]}}}],
        },
        {"role": "tool", "content": [{"type": "text", "text": "12"}]},
    ],
    "n": 7,
    "x": 2.5,
    "s": "Hello, World",
    "u": "\u00c9t\u00e9 \u0394\u03a3 \u00df \U0001f600",
    "quote": "it's \"q\" \\ \n\t\u0001\u00a0\u200b",
    "d": {"b": 1, "a": "z", "items": [1], "n": None, "t": True},
    "l": [3, 1, 2],
    "words": ["b", "A", "c", "a"],
    "empty": [],
    "none": None,
    "f": [0.1, 1e-5, 1.0, 1e16, 123456789.123, 1e22, -0.0, 5e-324, 1e15, 0.0001],
    "json": {"k": "\u00e9/\u2014\u2028<>&'\"\\\b\f\r\x7f", "e": {}, "l": [], "z": [1, [2, {"q": None}]]},
}

PRINTED = """
n x s u quote d l words empty none f json missing messages[3] true none|string
n+1 n-10 n*2 n/2 n//2 -n//2 n%4 -n%4 n**2 2**-1 x*2 x//1 -x%2 n~x~s 7/7 1.0 1e3 1_000 0x1F
1<2<3 1<3<2 1==1.0 true==1 "a"<"b" [1,2]<[1,3] n>=7 n!=8 "1"==1 (1,2)==(1,2) {"a":1}=={"a":1.0}
not~n n~and~s empty~or~s none~or~0 s~if~n~else~u s~if~empty
"el"~in~s "x"~not~in~s 1~in~l "a"~in~d "z"~in~d "x"~in~missing none~in~[none]
s[0] s[-1] s[1:4] s[::-1] s[::2] s[-3:] s[10:2:-3] l[0] l[-1] l[5] l[1:] l[::-1] l[:-1] u[1:5] u[-1] s[99] s[5:2]
s.0 l.1 d.a d['a'] d['items'] d.items()|list d.keys()|list d.values()|list d.get('q') d.get('q',3) d.missing d.0
messages.1.role messages[0].content messages[-1].content.0.text s.missing n.missing none.missing l.foo
s.upper() s.lower() u.upper() u.lower() u.title() u.capitalize() s.swapcase() s.title() "they're"|title "they're".title()
u|title u|capitalize u|upper u|lower "ǆx".title() "ŉ"|upper "ΑΣ"|lower "ΑΣΑ"|lower
s.split(',') s.split() s.split('l',1) s.rsplit('l',1) "a,,b,".split(',') "".split(',') "".split() "~a~~b~".split()
s.startswith('He') s.endswith(('x','ld')) s.find('o') s.rfind('o') s.count('l') s.replace('l','LL') s.replace('l','',1) s.index('W')
"xxaxx".strip('x') "xxaxx".lstrip('x') "xxaxx".rstrip('x') "ab".join(['1','2']) "x".join([]) "".replace('','-') "ab".replace('','-') "ab".replace('','-',2)
"5".zfill(3) "-5".zfill(4) "ab".center(7,'*') "ab".center(5) "ab".ljust(4)~'|' "ab".rjust(4) "abc".center(6,'*')
"a-b-c".partition('-') "a-b-c".rpartition('-') "abc".partition('x') "abc".removeprefix('a') "abc".removesuffix('c')
"12".isdigit() "ab".isalpha() "a1".isalnum() "".isdigit() "~".isspace() "AB".isupper() "ab".islower() "1".isupper()
"a\\nb\\r\\nc".splitlines() "a\\n".splitlines(true) "{}-{}".format(1,"b") "{0}{k}".format("a",k=2) "{{}}".format()
"%s-%d-%.2f-%5s|%-5s|%05d|%x|%%"%("a",3,x,"r","l",42,255) "%s"%n "%s"%none "%r"%s "%(a)s"%d
s.find('l',3) s.find('l',-3,-1) s.rfind('l',0,3) s.find('',99) s.find('',12) s.index('o',5) s.rindex('l',none,5) s.count('l',3) s.count('',2,4) s.count('',5,2) s.startswith('W',7) s.endswith('lo',0,5) s.startswith('',99) ''.startswith('',1) u.find('\u00df') u.find('\u03a3',3) u.count('',1) s.startswith(('x','W'),7) "aXbX".rfind('X',-9,9) l.index(2,1) l.index(3,-3) (1,2).index(2) (1,2,1).count(1) range(5).index(3) range(5).count(9) range(5).start range(1,9,3).stop
"a\tb".expandtabs() "a\tb\n\tc".expandtabs(4) "\t".expandtabs(0) u.casefold() "\u00df\u0130\ufb01\u1e9e".casefold() "\u13a0\uab70".casefold() "\u01c5".swapcase() "\u00df\u01c9a".swapcase() u.swapcase() "\u00bd".isdigit() "\u00b2".isdigit() "\u00b2".isdecimal() "\u4e00".isnumeric() "\u4e00".isdigit() "\u0661".isdecimal() "Ab~Cd".istitle() "AB".istitle() "\u01c5".istitle() "\u01c5".isupper() "\u00aa".isupper() "\u00aa".islower() "a\u0345".islower() "ab".isascii() "".isascii() "\n".isprintable() "".isprintable() "\u00bd".isalnum() "abc".translate({97:'x',98:none,99:100}) "{a}".format_map({'a':3}) {}.fromkeys([1,2,1]) {}.fromkeys('ab',0) "x".ljust(3,'\u00e9') "5".zfill(0)
'{:>5}'.format('a') '{:<5}|'.format(1) '{:^7}'.format('ab') '{:*^8}'.format('abc') '{:=+6}'.format(3) '{:06.2f}'.format(x) '{:,}'.format(1234567) '{:_}'.format(1234567) '{:010,}'.format(1234) '{:09,}'.format(12) '{:,.2f}'.format(1234567.891) '{:x}'.format(255) '{:#X}'.format(255) '{:#b}'.format(5) '{:_b}'.format(65) '{:o}'.format(8) '{:e}'.format(12345.678) '{:.2E}'.format(x) '{:g}'.format(1e10) '{:g}'.format(100.0) '{:.3}'.format(12345.678) '{:.1}'.format(2.0) '{:.5}'.format(100.0) '{:.3}'.format(0.00001) '{:.3}'.format(0.0012345) '{:%}'.format(0.5) '{:.1%}'.format(0.1234) '{:.2}'.format('abc') '{:c}'.format(65) '{:5c}|'.format(65) '{:+}'.format(3) '{:~}'.format(3) '{:+d}'.format(-3) '{:d}'.format(true) '{:>6}'.format(true) '{}'.format(true) '{:z.1f}'.format(-0.01) '{:.0f}'.format(2.5) '{:#.0f}'.format(2.5) '{:n}'.format(1234) '{:05}'.format('a') '{:<05}'.format(5) '{:.3f}'.format(7) '{:10}|'.format('\u00e9') '{:\u00e9>4}'.format('a') '{:}'.format(none) '{:,}'.format(1e20) '{:}'.format(1.0) '{:.{}f}'.format(x,3) '{:{}{}}'.format('a','>',4) '{:{w}}|'.format('a',w=4) '{0}{1}{0}'.format(1,2) '{0[a]}'.format(d) '{0[1]}{1.role}'.format(l,messages[0]) '{a[b]}'.format(a={'b':5}) '{!r}'.format('a') '{!r:>6}'.format('a') '{!a}'.format('\u00e9') '{!s:^5}'.format(1) '{{{}}}'.format(1) '{0.zz}'.format(d) '{:>5}'.format(missing) '{}'.format(missing)
"%c%c"%(65,'b') "%5c|%-5c|"%('a','b') "%+.5d|%#.5x|%010.5d|%-10.5d|%#010.5x"%(3,255,42,42,255) "%x|%X|%o"%(-255,-255,-8) "%#x|%#o"%(255,8) "%0*d|%-*d|%.*f"%(5,3,5,3,2,1.5) "%ld"%3 "%.3r|%a"%('abcdef','\u00e9') "%05d|%~d|%05.1f|%+05.1f"%(-3,3,-2.25,2.25) "%5s|%-7s|"%(none,true) "%.2g|%#g|%#.0f"%(1234567,1.0,1.0) "%d|%i|%u"%(2.9,-2.9,true) "%s"%missing "%%|%5s|%05s"%('a','b') "%(a)s~%(b)d"%d "%E|%F|%G"%(x,x,x) "%c"%128512
n|tojson x|tojson f|tojson json|tojson d|tojson(indent=2) json|tojson(indent=1) d|tojson(sort_keys=true) d|tojson(separators=(',',':')) u|tojson(ensure_ascii=true) u|tojson(ensure_ascii=False) empty|tojson(indent=2) [1,[2]]|tojson(indent='--') (1,2)|tojson {1:2,none:3,true:4,1.5:5}|tojson quote|tojson json|tojson(true) messages|tojson
missing|default('q') none|default('q') none|default('q',true) ''|d('e',true) missing|d
l|length s|length u|length d|length missing|length l|count l|first l|last empty|first s|first l|sum f|sum
l|join(',') d|join('-') s|join('.') words|join(d='+') messages|join(',',attribute='role') [1,none,true]|join
l|sort words|sort words|sort(case_sensitive=true) l|sort(reverse=true) messages|sort(attribute='role')|map(attribute='role')|list d|dictsort d.items()|list|sort(attribute=0)|first
l|reverse|list s|reverse words|unique|list ["a","A"]|unique|list l|min l|max words|min words|max empty|max
l|map('string')|list messages|map(attribute='role')|list messages|map(attribute='zz',default='-')|list words|map('upper')|join words|map('replace','a','_')|list
l|select('odd')|list l|reject('odd')|list l|select|list messages|selectattr('role','equalto','user')|list|length messages|rejectattr('content')|list|length messages|selectattr('role','in',['user','tool'])|map(attribute='role')|list messages|selectattr('tool_calls','defined')|list|length l|select('>',1)|list
missing|int missing|float none|map('string')|list 0|select|list n[1:] x[:2] d[1:2] 5|indent u|map('string')|list s|map('upper')|list s|select|list s|unique|list u|sort s|batch(3)|list s|max s|slice(3)|list s|groupby(0)|list d|map('upper')|list
l|batch(2)|list l|batch(2,'-')|list l|slice(2)|list l|slice(2,'x')|list messages|groupby('role')|map('first')|list
"a~b&c/\u00e9~~"|urlencode d|urlencode {'a~b':'c/d','e':1}|urlencode [(1,2),('a','b')]|urlencode 5|urlencode none|urlencode missing|urlencode "<b>x</b>~&amp;~&lt;y&copy&#233;&#x1f600;<!--c-->~~z"|striptags "a&nosuch;&ampx&notit;&#0;&#128;&#xD800;&#1;&~<"|striptags 5|striptags 1|filesizeformat 999|filesizeformat 1000|filesizeformat 13000|filesizeformat 1234567|filesizeformat(true) 1e27|filesizeformat '2048'|filesizeformat(binary=true) 0.5|filesizeformat {'a':1,'b':none,'c':"<'\"&"}|xmlattr {'a':1}|xmlattr(false) {}|xmlattr
s|wordwrap(5) s|wordwrap(3) 'a~long-hyphenated~word~--~and--more'|wordwrap(8) 'a~long-hyphenated~word'|wordwrap(8,break_on_hyphens=false) 'abcdefghij~k'|wordwrap(4) 'abcdefghij~k'|wordwrap(4,false) 'a\n\nb~c'|wordwrap(2) 'a~b~c'|wordwrap(3,wrapstring='|') u|wordwrap(4) 'x'|wordwrap ''|wordwrap '\u00e9t\u00e9-caf\u00e9-noir'|wordwrap(6) 'a-b-c-d'|wordwrap(3) 'well-known--dash'|wordwrap(7)
d|pprint l|pprint s|pprint json|pprint messages|pprint (messages,)|pprint [1,'a',none]|pprint {2:1,1:2}|pprint {'b':1,1:2}|pprint (s*9)|pprint [s*9,1]|pprint (('ab~'*20)+'\n'+('cd~'*40))|pprint {'k':('word~'*30)}|pprint missing|pprint [missing]|pprint ('x'*99)|pprint range(3)|pprint ()|pprint {}|pprint [quote*5]|pprint
'upper'~is~filter 'nope'~is~filter 'odd'~is~test 'nope'~is~test 1~is~filter none~is~test
'1_000'|int '1__0'|int '_1'|int '0x_1f'|int(base=16) '0b11'|int(base=2) '0o17'|int(base=8) '010'|int(base=0) '0x1f'|int(base=0) '10'|int(base=0) '0'|int(base=0) '-9223372036854775808'|int '1_0.5'|float '+5'|int '--5'|int 'inf'|int 'nan'|int(3) 1234|round(-2) 1250|round(-2) 1350|round(-2) -1250|round(-2) 1234.5|round(-2) messages|map(default='-',attribute='zz')|list (messages|groupby('role')|list)[0].grouper (messages|groupby('role')|list)[0].list|length messages|groupby('role')|map(attribute='grouper')|list d|last l|map('string')|first
s|trim "~a~"|trim 'xax'|trim('x') s|replace('o','0') 5|replace('5','6') s|wordcount s|center(20) s|truncate(9,true) s|truncate(9) s|truncate(20) s|truncate(8,true,'.',0)
'3.7'|int '3'|int 'z'|int 'z'|int(9) '0x1f'|int(base=16) x|int '2.5'|float 'z'|float none|int 3|float true|int '~12~'|int
2.5|round 3.5|round 2.567|round(2) 2.5|round(0,'ceil') 2.5|round(0,'floor') 7|round 1.005|round(2) -1|abs -1.5|abs true|abs
'a\\nb\\n\\nc'|indent 'a\\nb'|indent(2,true) 'a\\n\\nb'|indent(2,blank=true) 'a\\nb\\n'|indent('>>')
n~is~odd n~is~even n~is~divisibleby(7) n~is~divisibleby~7 n~is~defined zz~is~defined zz~is~undefined zz~is~not~defined none~is~none n~is~none s~is~string n~is~string
d~is~mapping l~is~mapping l~is~iterable s~is~iterable n~is~iterable zz~is~iterable l~is~sequence d~is~sequence n~is~sequence n~is~number x~is~number true~is~number true~is~integer n~is~integer x~is~float true~is~boolean n~is~boolean true~is~true 1~is~true false~is~false
n~is~eq(7) n~is~sameas(7) none~is~sameas(none) 1~is~in([1]) s~is~upper 'A'~is~upper n~is~lt(8) range~is~callable n~is~callable d.get~is~callable (n,)~is~sequence
range(3)|list range(1,4)|list range(5,0,-2)|list range(0)|list dict(a=1) dict(d,c=2)|length namespace(a=1).a joiner('-')() strftime_now('%Y-%m-%d~%H:%M:%S~%d~%b') 
l+[4] (1,)+(2,) [1]*3 'ab'*2 2*'ab' 'a'*-1 [] () (1,) (1) {} {'a':[1,(2,)]} [none,true,1.5,'q']
'a'~'b'~1 "a"'b' 'a\\tb' '\\u00e9' '\\x41' '\\101' '\\q' "\\"" '\\'' '\\\\n'
quote|e s|safe s|string|length n|string~'1' s|attr('upper')|string|length>5 d|attr('a') d|items|list missing|items|list
l|map('abs')|sum|string|length s|list|length d|list d.items()|length d.keys() d.items() l|reverse|first
(n,s) 1,2 n if n > 3 else s loop caller
-n|abs -2**2 n|string + 'x' s.split(', ')[1].lower() not n == 7 n is not none and s
""".replace("\\\\", "\\")

WHOLE = r"""
{% for a in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }};{% endfor %}
{% for a in l %}{{ loop.previtem }}<{{ a }}>{{ loop.nextitem }} {% endfor %}
{% for a in l %}{{ loop.cycle('x', 'y') }}{{ loop.changed(a > 1) }}{% endfor %}
{% for a in empty %}x{% else %}none{% endfor %}|{% for a in l %}x{% else %}none{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'é中' %}<{{ c }}>{% endfor %}
{% for a in l if a > 1 %}{{ a }}{{ loop.length }}{% endfor %}
{% for a in l %}{% if a == 1 %}{% continue %}{% endif %}{% if a == 2 %}{% break %}{% endif %}{{ a }}{% endfor %}
{% for a in l %}{% for b in l %}{% if b == 2 %}{% break %}{% endif %}{{ a }}{{ b }} {% endfor %}{% endfor %}
{% for a in [[1, [2, [3]]]] recursive %}{% if a is number %}{{ a }}{% else %}({{ loop(a) }}){% endif %}{{ loop.depth0 }}{% endfor %}
{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% set y = 1 %}{% for a in l %}{% set y = a %}{{ y }}{% endfor %}{{ y }}
{% set y = 1 %}{% if true %}{% set y = 2 %}{% endif %}{{ y }}
{% for a in l %}{% if a == 3 %}{% set q = 'set' %}{% endif %}{{ q is defined }}{{ q }}{% endfor %}{{ q is defined }}
{% set ns = namespace(a=0, b='x') %}{% for a in l %}{% set ns.a = ns.a + a %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = (b, a) %}{{ a }}{{ b }}
{% set t %}a{{ n }}b{% endset %}{{ t }}{{ t|length }}{% set t | upper %}xy{% endset %}{{ t }}
{% macro m(a, b=2, c=none) %}[{{ a }}|{{ b }}|{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(c=1, a=4) }}{{ m() }}
{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3) }}{{ m(1, z=2) }}
{% macro m() %}{{ n }}{{ y }}{% endmacro %}{% set y = 5 %}{{ m() }}{% set y = 6 %}{{ m() }}
{% macro a(k) %}{% if k > 0 %}{{ k }}{{ a(k - 1) }}{% endif %}{% endmacro %}{{ a(5) }}
{% macro m() %}{% set y = 9 %}{{ y }}{% endmacro %}{% set y = 1 %}{{ m() }}{{ y }}
{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}body{{ n }}{% endcall %}
{% macro m() %}{% for a in l %}{{ caller(a) }}{% endfor %}{% endmacro %}{% call(a) m() %}({{ a }}){% endcall %}
{% for a in l %}{% macro m() %}{{ a }}{% endmacro %}{{ m() }}{% endfor %}
{% if n %}{% macro m() %}in if{% endmacro %}{% endif %}{{ m() }}
{% filter upper %}abc{{ s }}{% endfilter %}{% filter replace('a', 'b') | upper %}xaz{% endfilter %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}
{% generation %}x{% set y = 3 %}{{ y }}{% endgeneration %}{{ y is defined }}
{% for a in l %}{% generation %}{{ loop.index }}{{ a }}{% endgeneration %}{% endfor %}
{% raw %}{{ n }}{% if %}{% endraw %}|{%- raw -%}  x  {%- endraw -%}  |
a{# comment {{ n }} #}b{#- c -#}  d
  {% if true %}
    x
  {% endif %}
y
  {%+ if true %}z{% endif %}
a   {{- n -}}   b {%- if true -%}  c  {%- endif %}  d
{% if false %}1{% elif none %}2{% elif n %}3{% else %}4{% endif %}
{% if not empty and (n > 5 or zz) %}yes{% endif %}{{ {'a': {'b': 1}}.a.b }}{{ {'a': 1}['a'] }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{% set j = joiner() %}{{ j() }}{{ j() }}
{% for m in messages %}{{ m.role }}:{{ m.content }};{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments | tojson }}{% endif %}{% endfor %}
{% for m in messages[1:] %}{{ loop.index0 }}{{ m['role'] }}{% endfor %}{% for m in messages|selectattr('role', 'equalto', 'tool') %}{{ m.content[0].type }}{% endfor %}
{% if messages|selectattr('role', 'equalto', 'nobody') %}generators are true{% endif %}{% set g = l|map('string') %}{{ g|list }}{{ g|list }}
{%- for m in messages -%}
  {{- '<|' + m.role + '|>' -}}
  {%- if m.content is string -%}{{ m.content.strip() }}{%- endif -%}
{%- endfor -%}
{% macro m() %}[{{ n }}]{% endmacro %}{{ m() }}{% set n = 1 %}{{ m() }}
{% for a in [1] %}[{{ n }}]{% endfor %}{% set n = 1 %}{% for a in [1] %}[{{ n }}]{% endfor %}
{{ n }}{% for a in [1] %}[{{ n }}]{% endfor %}{% set n = 1 %}
{% if s %}{% set n = 1 %}{% endif %}{% macro m() %}[{{ n }}]{% endmacro %}{{ m() }}
{% macro m() %}[{{ n }}]{% endmacro %}{{ m() }}{% if s %}{% set n = 1 %}{% endif %}{{ m() }}
{% set n %}<{{ n }}>{% endset %}{{ n }}
{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}[{{ n }}]{% endcall %}{% set n = 2 %}
{% for a in [1, 2] %}{% macro m() %}[{{ s }}]{% endmacro %}{{ m() }}{% set s = a %}{{ m() }}{% endfor %}{{ s }}
{{ s }}{% for a in [1] %}{% macro m() %}[{{ s }}]{% endmacro %}{{ m() }}{% set s = a %}{{ m() }}{% endfor %}
{% with %}{% macro m() %}[{{ s }}]{% endmacro %}{{ m() }}{% set s = 1 %}{{ m() }}{% endwith %}{{ s }}
{% for a in [] %}{% else %}{% macro m() %}[{{ s }}]{% endmacro %}{{ m() }}{% set s = 1 %}{{ m() }}{% endfor %}
{% generation %}[{{ n }}]{% endgeneration %}{% set n = 2 %}
{% filter upper %}[{{ s }}]{% endfilter %}{% set s = 'b' %}{{ s }}
{% for a in [1] if n %}{{ a }}{% endfor %}.{% set n = 1 %}
{% macro m() %}{% set n = 1 %}{% for a in [1] %}{{ n }}{% endfor %}{% endmacro %}{{ m() }}{{ n }}
{% macro m(a=b, b=1) %}{{ a }}-{{ b }}|{% endmacro %}{{ m() }}{{ m(b=5) }}{{ m(2) }}
{% macro m(s=s) %}<{{ s }}>{% endmacro %}{{ m() }}{{ m('q') }}
{{ none[:9] }}|{{ none[:9] or 'q' }}|{{ (1)[1:] is defined }}|{{ none[:9] ~ 'x' }}|{{ [none[:2], 1]|length }}
{{ 'abc'['x':] }}|{{ 'abc'[:none[:1]] }}|{{ (1)[:2]|default('d') }}
{{ [none[:9]] }}
{{ (none[:9], n) }}
{{ none[:9] + 'a' }}
{{ none[:9][:3] }}
{{ [1][::0] }}
{{ ('a' if false) ~ none[:9] }}
{{ n if none[:9] else s }}
{{ n if not none[:9] else s }}
{{ 5[:1] == n }}
{{ [5[:1] == 6, n] }}
{% set q = none[:9] %}
{% set q = none[:9] or 4 %}{{ q }}
{% if none[:9] %}a{% endif %}
{% if not none[:9] %}a{% endif %}
{% for a in none[:9] %}{% endfor %}
{{ none[:9]|map('upper')|list }}
{{ none[:9]|list }}{{ none[:9]|join }}{{ none[:9]|upper }}
{{ s[missing:] }}
{% macro m() %}x{% endmacro %}{% call m() %}{% endcall %}
{% macro m() %}{{ caller() if caller }}{% endmacro %}{{ m() }}{% call m() %}y{% endcall %}
{% macro m() %}{{ kwargs|length }}{% endmacro %}{% call m() %}{% endcall %}{{ m(a=1) }}
{% macro m() %}{{ varargs }}{% endmacro %}{{ m(1, 2) }}{% macro k() %}{% endmacro %}{{ k(1) }}
{{ '{:>5}'.format(none) }}
{{ '{:>5}'.format(l) }}
{{ '{:d}'.format(1.5) }}
{{ '{:d}'.format('a') }}
{{ '{:s}'.format(1) }}
{{ '{:,x}'.format(1) }}
{{ '{:=5}'.format('a') }}
{{ '{:+}'.format('a') }}
{{ '{:.2d}'.format(1) }}
{{ '{:5.}'.format(1) }}
{{ '{:qq}'.format(1) }}
{{ '{}{0}'.format(1) }}
{{ '{0}{}'.format(1) }}
{{ '{2}'.format(1) }}
{{ '{q}'.format(1) }}
{{ '{'.format(1) }}
{{ '}'.format(1) }}
{{ '{!x}'.format(1) }}
{{ '{!}'.format(1) }}
{{ '{:{:{}}}'.format(3, 4, 5) }}
{{ '{0[a}'.format(d) }}
{{ '{0[]}'.format(d) }}
{{ '{0.__class__}'.format(d) }}
{{ '%x' % 1.5 }}
{{ '%c' % 'ab' }}
{{ '%c' % -1 }}
{{ '%5%' % () }}
{{ '%q' % 1 }}
{{ '%' % 1 }}
{{ '%d' % 'a' }}
{{ '%(a)s %s' % d }}
{{ '%d' % missing }}
{{ s.find(sub='l') }}
{{ s.find('l', 'x') }}
{{ s.ljust(9, 'ab') }}
{{ s.center() }}
{{ s.zfill(9, '0') }}
{{ s.upper(1) }}
{{ l.index(9) }}
{{ l.index(3, 1) }}
{{ d.get(key='b') }}
{{ d.update }}{{ range(3).append is defined }}{{ range(3).index is defined }}
{{ [1]|list|reverse|last }}
{{ l|map('string')|last }}
{{ 'a'|wordwrap(0) }}
{{ 5|wordwrap }}
{{ 'z'|filesizeformat }}
{{ none|filesizeformat }}
{{ {'a b': 1}|xmlattr }}
{{ l|xmlattr }}
{{ [1]|urlencode }}
{{ l is filter }}
{{ '%s'|format(1, a=2) }}
{{ '%s' % missing }}{{ 'z' % missing }}
{{ '%(a)s' % missing }}
{{ range(3)|tojson }}
{% set ns = namespace(a=1, b='x') %}{{ ns }}{{ [ns] }}{{ namespace() }}{{ namespace({'k': ["it's"]}) }}
{% set ns = namespace(a=1) %}{% set ns.b = ns %}{{ ns }}{% set ns.b = [ns] %}{{ ns }}
{% for a in l %}{{ loop }}{% endfor %}{% macro m() %}{% endmacro %}{{ m }}{{ [m] }}
{{ range(5)[::3] }}{{ range(5)[::-2] }}{{ range(5)[:0] }}{{ range(3, 0) }}{{ range(9, 2, -4)[1:] }}{{ range(7)[-2:] }}
{{ range(3) }}{{ range(1, 9, 3) }}{{ range(9)[2:5] }}{{ range(0, 10, 2)[::-1] }}{{ range(4)[9:] }}
{{ none[:9] if none else ((none if true else n) or 'q') }}{{ [(n if false else 3)[:1], 4]|length }}
{{ [d, d]|unique|list }}
{{ {l: 1} }}
{{ l in d }}
{{ d.get(l) }}
{{ 'z' % [] }}{{ 'z' % l }}{{ '%s' % [] }}{{ 'z' % d }}
{{ 'z' % s }}
{{ range(3) + [1] }}
{{ range(3) <= [1] }}
{{ range(3) == [0, 1, 2] }}{{ range(3)|list + [1] }}{{ range(5)[1:3]|list }}
{% set x = [] %}{% for a in l %}{% set x = x + [a] %}{% endfor %}{{ x }}
{{ '{{' }}{{ "%}" }}{% set a = '-%}' %}{{ a }}
line{{ '\n' }}end   
{% set o = {'a': 1} %}{{ o.update({'b': 2}) }}
{{ l.append(4) }}
{{ missing.x }}
{{ missing() }}
{{ missing + 'a' }}
{{ 'a' + missing }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ none + 'a' }}
{{ n.x.y }}
{{ none() }}
{{ 1 / 0 }}
{{ l|map('string')|length }}
{{ raise_exception('bad ' ~ n) }}
{{ missing|tojson }}
{{ range|tojson }}
{{ s|nofilter }}
{{ s is notest }}
{{ 'a' < 1 }}
{{ 1 in 's' }}
{{ 1 in 1 }}
{% for a in 5 %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% set n.a = 1 %}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=1) }}
{{ s.split('') }}
{{ s.index('zz') }}
{{ l[missing] }}
{{ s.join(l) }}
{{ d|dictsort(by='x') }}
{{ range(1000000)|length }}
{{ l|sort(attribute='x') }}
{{ [1, 'a']|sort }}
{{ (1, 2)|tojson(indent=none) }}{{ [1]|tojson(separators=none) }}
{% macro m(kwargs) %}{{ kwargs }}{% endmacro %}{{ m(1) }}
{% macro m(kwargs) %}{{ kwargs }}{% endmacro %}{{ m(1, z=2) }}
{% macro m(kwargs) %}{{ kwargs }}{% endmacro %}{{ m(z=2) }}
{% macro m(kwargs) %}{{ kwargs }}{% endmacro %}{{ m(kwargs=2) }}
{% macro m(a, varargs) %}{{ varargs }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a, varargs) %}{{ varargs }}{% endmacro %}{{ m(1, 2, 3) }}
{% macro m(a, varargs) %}{{ varargs }}{% endmacro %}{{ m(1) }}
{% macro m(varargs, kwargs) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, kwargs=4) }}
{% macro m(varargs, kwargs) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3) }}
{% macro m(varargs, kwargs) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, z=3) }}
{% macro m(caller) %}x{% endmacro %}{{ m(1) }}
{% macro m(caller=3) %}x{% endmacro %}{{ m(1) }}
{% macro m(caller=3) %}{{ caller }}{% endmacro %}{{ m(1) }}
{% macro m(caller=3) %}{{ caller }}{% endmacro %}{{ m() }}
{% macro m(caller=3) %}{{ caller() }}{% endmacro %}{% call m() %}q{% endcall %}
{% macro m(a, caller=3) %}{{ caller() }}{{ a }}{% endmacro %}{% call m(1) %}q{% endcall %}
{% macro m(a, caller=3) %}{{ caller }}{{ a }}{% endmacro %}{{ m(1, 2) }}{{ m(1) }}{{ m(1, caller=5) }}
{% macro m(a, caller=3) %}{{ a }}{% endmacro %}{% call m(1) %}q{% endcall %}
{% macro m(a, caller=3) %}{{ a }}{% endmacro %}{% call m(1, 2) %}q{% endcall %}
{% macro m(a, caller=3) %}{{ caller }}{{ kwargs }}{% endmacro %}{% call m(1, 2) %}q{% endcall %}
{% macro m(a) %}{{ caller }}{{ kwargs }}{{ varargs }}{% endmacro %}{{ m(1, 2, caller=none) }}
{% macro m(a) %}{{ caller }}{{ kwargs }}{{ varargs }}{% endmacro %}{{ m(1, 2, caller=4, q=5) }}
{% macro m(kwargs=1) %}{{ kwargs }}{% endmacro %}{{ m() }}{{ m(2) }}
{% macro m(varargs=1) %}{{ varargs }}{% endmacro %}{{ m() }}{{ m(2) }}{{ m(2, 3) }}
{% macro m(a, kwargs) %}{% for x in [1] %}{{ kwargs }}{% endfor %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a, kwargs) %}{{ kwargs }}{{ varargs }}{% endmacro %}{{ m(1, 2, 3) }}
{% macro m(a, varargs) %}{{ kwargs }}{{ varargs }}{% endmacro %}{{ m(1, 2, q=3) }}
{% macro m(a, varargs) %}{{ kwargs }}{{ varargs }}{% endmacro %}{{ m(1, 2) }}
{% macro m() %}{% set kwargs = 1 %}{{ kwargs }}{% endmacro %}{{ m() }}
{% macro m() %}{% set kwargs = 1 %}{{ kwargs }}{% endmacro %}{{ m(a=1) }}
{% macro m() %}{% for kwargs in [1] %}{{ kwargs }}{% endfor %}{% endmacro %}{{ m(a=1) }}
{% macro m() %}{% set varargs = 1 %}{{ varargs }}{% endmacro %}{{ m(1) }}
{% macro m(a=kwargs) %}{{ a }}{% endmacro %}{{ m(q=1) }}
{% macro m(a=kwargs) %}{{ a }}{{ kwargs }}{% endmacro %}{{ m(q=1) }}
{% macro m(a=varargs) %}{{ a }}{{ varargs }}{% endmacro %}{{ m() }}
{% macro m(a=caller) %}{{ a }}{% endmacro %}{{ m() }}
{% macro m(a=caller) %}{{ a }}{{ caller is defined }}{% endmacro %}{{ m() }}
{% macro m() %}{% macro k() %}{{ kwargs }}{% endmacro %}{{ k(a=1) }}{% endmacro %}{{ m(b=2) }}
{% macro m() %}{% macro k() %}{{ kwargs }}{% endmacro %}{{ k(a=1) }}{% endmacro %}{{ m() }}
{% macro m() %}{{ caller(1, kwargs=2) }}{% endmacro %}{% call(a, kwargs) m() %}{{ a }}{{ kwargs }}{% endcall %}
{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(b, caller=3) m() %}{{ b }}{{ caller }}{% endcall %}
{{ m is defined }}{% macro m(a, a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a, a) %}{{ a }}{% endmacro %}{{ m(1) }}
{% macro m(a) %}{{ kwargs }}{% endmacro %}{{ m(1, a=2) }}
{% macro m(caller=3, b=2) %}{{ caller }}{{ b }}{% endmacro %}{{ m() }}{{ m(b=1) }}{{ m(1, 2) }}
{% macro m(caller=3, b=2) %}{{ caller }}{{ b }}{% endmacro %}{{ m(1) }}
{% macro m() %}{% set kwargs %}{{ kwargs }}{% endset %}{% endmacro %}{{ m(a=1) }}
{% macro m() %}{{ kwargs }}{% set kwargs = 1 %}{{ kwargs }}{% endmacro %}{{ m(a=1) }}
{% macro m() %}{% with kwargs = kwargs %}{{ kwargs }}{% endwith %}{% endmacro %}{{ m(a=1) }}
{% macro m() %}{% for x in [1] if varargs %}{{ x }}{% endfor %}{% endmacro %}{{ m(1) }}{{ m() }}
{% macro m() %}{% filter replace('a', varargs[0]) %}abc{% endfilter %}{% endmacro %}{{ m('z') }}
{{ m.a
{% if %}
{% if n %}
{% endif %}
{% for a in %}{% endfor %}
{{ n | }}
{{ (n }}
{{ n) }}
{{ 'a }}
{# open
{% unknown %}
{% break %}
{% set true = 1 %}
{{ a b }}
{% raw %}x
{{ }}
{% macro m(a=1, b) %}{% endmacro %}
{{ f(a=1, 2) }}
{{ x is odd is even }}
{{ 1 if }}
{{ [1, 2 }}
{{ {'a' 1} }}
{{ n ! }}
"""


def cases():
    for line in PRINTED.strip().split("\n"):
        for word in line.split():
            expression = word.replace("~", " ") if "~and~" in word or "~or~" in word else word
            yield "{{ " + expression.replace("~", " ") + " }}"
    # Whole lines of PRINTED hold expressions with spaces too; these are written out here.
    for expression in (
        "n ~ x ~ s", "n ~ none ~ missing", "'a' ~ 'b' ~ 1", "n|string + 'x'", "-2**2", "not n == 7",
        "s.split(', ')[1].lower()", "n is not none and s", "1, 2", "n if n > 3 else s",
        "s if empty", "(s if empty) is defined", "[1, 2,]", "{'a': 1,}", "l | length > 2",
        "n is odd or missing.x", "'%s %s' | format(1, 'b')", "'%(q)s' | format(q=3)",
        "d['items'][0]", "range(3) | map('string') | join(', ')", "a.b if a is defined else 'no'",
        "messages | map(attribute='content') | select('string') | list",
        "messages | map(attribute='tool_calls.0.function.name') | list",
        "messages[2].tool_calls[0]['function']", "'x' if 'name' in messages[2] else 'y'",
        "(l | first) + (l | last)", "l | join(', ') | upper", "3 * (1 + 2) - 4 // 3",
        "'é中😀'[1]", "'é中😀'[-1:]", "'é中😀' | length", "'a b'.split(' ', 1)", "'a  b c'.split(none, 1)",
        "' a b c '.rsplit(none, 1)", "'\u001c x \u2003'.strip()", "'\u200bx'.strip()", "'x' * 3 ~ 'y'",
        "dict([('a', 1), ('b', 2)])", "dict(a=1, **{'b': 2})", "(1, 2) + (3,)", "[[1, 2], [3]] | sum(start=[])",
        "l | sum(start=10)", "[{'a': 1}, {'a': 2}] | sum(attribute='a')", "1.5 // 0.5", "-7 // 2", "-7 % 3", "7 % -3",
        "-7.5 % 2", "1e400", "-1e400", "(1e400 - 1e400)", "[1e400] | tojson", "9223372036854775807",
    ):
        yield "{{ " + expression + " }}"
    block = []
    for line in WHOLE.strip("\n").split("\n"):
        block.append(line)
        text = "\n".join(block)
        multi = text.startswith("  {% if true %}") or text.startswith("{%- for m in messages -%}")
        if multi and not (text.endswith("z{% endif %}") or text.endswith("{%- endfor -%}")):
            continue
        yield text
        block = []
    for end in ("\n", "\n\n", " \n", "\r\n", "\r"):
        yield "a" + end + "b" + end
    yield "{% if n %}\r\n x\r\n{% endif %}\r\ny"
    yield "a\n  {# c #}\n  b\n {#- c -#}\n d {#+ e +#}\n f"
    yield "  {{ n }}\n  {% set q = 1 %}  \n {{ q }}"
    yield "{% for a in l -%}\n  {{ a }}\n{%- endfor %}\n."
    yield "{% for a in l +%}\n{{ a }}\n{% endfor +%}\n."


def main():
    env = environment()
    with open(sys.argv[1], "w") as out:
        out.write(json.dumps({"context": CONTEXT}, ensure_ascii=True) + "\n")
        seen = set()
        for text in cases():
            if text in seen:
                continue
            seen.add(text)
            row = {"template": text}
            try:
                row["rendered"] = env.from_string(text).render(**CONTEXT)
            except Exception as e:  # whatever Python raises is the expected result
                row["error"] = type(e).__name__
            out.write(json.dumps(row, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
