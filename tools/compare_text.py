#!/usr/bin/env python3
"""Holds src/text against the official libraries (developer tool; PyPI: tokenizers, jinja2).

    tools/compare_text.py BUILD_DIR tokens FOLDER... [--count N] [--seed S]   random Unicode text
    tools/compare_text.py BUILD_DIR templates [--count N] [--seed S]          random templates
    tools/compare_text.py BUILD_DIR chats TEMPLATE.jinja... [--count N]       random conversations
    tools/compare_text.py BUILD_DIR speed FOLDER TEXTS.jsonl                  side by side

BUILD_DIR is a build with the static libraries and, for speed, bench/text_bench in it (build/cpu);
FOLDER holds tokenizer.json.
"""
import argparse
import copy
import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import make_template_cases

ROOT = pathlib.Path(__file__).resolve().parent.parent


def driver(build):
    binary = pathlib.Path(build) / "text_driver"
    libraries = [str(pathlib.Path(build) / f"libglmtune_{x}.a") for x in ("text", "io", "dist", "ops", "tensor", "cuda", "base")]
    command = ["c++", "-std=c++20", "-O2", f"-I{ROOT}/src", str(ROOT / "tools/text_driver.cpp")]
    subprocess.run(command + libraries + ["-lsimdjson", "-lz", "-lfmt", "-ldnnl", "-fopenmp", "-o", str(binary)], check=True)
    return str(binary)


def ask(command, rows):
    text = "".join(json.dumps(r) + "\n" for r in rows)
    done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


PIECES = ["'s", "'LL", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "123", "\u0661", "the", "Hello", "\u4e2d\u6587",
          "\u0301", "\u0323", "\u1100\u1161\u11a8", "\u212b", "<|user|>", "<think>", "</think>", "[gMASK]", "_", "-", "...", "\u200d", "\U0001f600",
          "!", "and", "12", "ing", "\u017f", "'\u017f", "\x00", "\x7f", "\x1c", "\u0085", "\u180e", "\ufeff", "\ufffd"]


def random_text(rng):
    out = []
    for _ in range(rng.randrange(1, 30)):
        kind = rng.random()
        if kind < 0.45:
            out.append(rng.choice(PIECES))
        elif kind < 0.6:
            out.append("".join(rng.choice("abcdefghijklmnopqrstuvwxyzABC") for _ in range(rng.randrange(1, 12))))
        else:
            limit = rng.choice([0x80, 0x250, 0x2000, 0x3100, 0xA000, 0x10000, 0x20000, 0x110000])
            code = rng.randrange(limit)
            out.append(chr(code) if not 0xD800 <= code < 0xE000 else "x")
    return "".join(out)


def with_added_words(folder, out):
    """The same tokenizer with words of its vocabulary added once more, not as special tokens: a special one never comes
    out of plain text here (it does in the official library where the bytes merge to it)."""
    data = json.load(open(os.path.join(folder, "tokenizer.json")))
    vocabulary = data["model"]["vocab"]
    words = [w for w in ("and", "the", "Hello", "ing", "12", "a", "in") if w in vocabulary]
    for i, word in enumerate(words):
        data["added_tokens"].append({"id": vocabulary[word], "content": word, "special": False, "single_word": i % 4 == 1, "lstrip": False, "rstrip": False, "normalized": False})
    data["added_tokens"].sort(key=lambda t: t["id"])
    json.dump(data, open(os.path.join(out, "tokenizer.json"), "w"))
    return out


def compare_tokens(binary, folders, count, seed):
    with tempfile.TemporaryDirectory() as temporary:
        bad = 0
        for folder in folders:
            own = os.path.join(temporary, os.path.basename(folder.rstrip("/")))
            os.mkdir(own)
            if not os.path.exists(os.path.join(folder, "tokenizer.json")):
                with gzip.open(os.path.join(folder, "tokenizer.json.gz")) as packed, open(os.path.join(own, "tokenizer.json"), "wb") as plain:
                    plain.write(packed.read())
                folder = own
            more = own + "-with-added-words"
            os.mkdir(more)
            for f in (folder, with_added_words(folder, more)):
                bad += compare_tokenizer(binary, f, count, seed)
        return bad


def compare_tokenizer(binary, folder, count, seed):
    from tokenizers import Tokenizer

    file = os.path.join(folder, "tokenizer.json")
    official = Tokenizer.from_file(file)
    data = json.load(open(file))
    for token in data["added_tokens"]:
        token["special"] = True
    splitting = Tokenizer.from_str(json.dumps(data))
    splitting.encode_special_tokens = True
    rng = random.Random(seed)
    rows = [{"text": random_text(rng)} for _ in range(count)]
    bad = 0
    for row, got in zip(rows, ask([binary, "tokenize", folder], rows)):
        ids = official.encode(row["text"], add_special_tokens=False).ids
        decoded = official.decode(ids, skip_special_tokens=False)
        plain = splitting.encode(row["text"], add_special_tokens=False).ids
        if got["ids"] != ids or got["decoded"] != decoded or got["plain"] != plain:
            bad += 1
            if bad <= 10:
                print(folder, json.dumps(row), "\n  got", got, "\n want", ids, json.dumps(decoded), plain)
    print(f"{folder}: {count} texts, {bad} differences", flush=True)
    return bad


def random_method(rng):
    bound = lambda: rng.choice(["", ", none", ", 1", ", -2", ", 0", ", 99", ", -99", ", x"])
    first = bound()
    place = first + (bound() if first else "")
    fill = ", '*'"
    needle = rng.choice(["'l'", "''", "'o'", "'lo'", "s", "('l', 'H')", "1", "'\u00e9'"])
    return rng.choice([
        f"{rng.choice(['find', 'rfind', 'index', 'rindex', 'count', 'startswith', 'endswith'])}({needle}{place})",
        f"{rng.choice(['ljust', 'rjust', 'center'])}({rng.choice(['9', '14', '-1', 'n'])}{rng.choice(['', ', 42', fill])})",
        f"{rng.choice(['isalnum', 'isalpha', 'isascii', 'isdecimal', 'isdigit', 'islower', 'isnumeric', 'isprintable', 'isspace', 'istitle', 'isupper', 'casefold', 'swapcase', 'title', 'capitalize'])}()",
        f"{rng.choice(['partition', 'rpartition', 'removeprefix', 'removesuffix', 'lstrip', 'strip', 'rsplit', 'split'])}({needle})",
        f"{rng.choice(['expandtabs', 'zfill'])}({rng.choice(['', '4', '16', '-1', 'x'])})", "splitlines(true)", "translate({72: 'x', 108: none})", "format_map(d)", "items()", "copy()",
        "append", "fromkeys([1])", "start", "join(words)", "replace('l', 'X', 1)", "update is defined",
    ])


def random_format_spec(rng):
    field = rng.choice(["", "", "0", "1", "k", "0.a", "0[0]", "k[a]", "2", "q", "0.role"])
    conversion = rng.choice(["", "", "", "!r", "!s", "!a", "!x"])
    spec = "".join([rng.choice(["", "", "<", ">", "^", "=", "*<", "\u00e9^", "0="]), rng.choice(["", "", "+", "-", " "]), rng.choice(["", "", "#", "z"]), rng.choice(["", "", "0"]),
                    rng.choice(["", "5", "12", "{1}"]), rng.choice(["", "", ",", "_"]), rng.choice(["", "", ".0", ".2", ".5", "."]), rng.choice(["", "", "d", "f", "s", "x", "X", "e", "g", "%", "b", "o", "c", "E", "G", "n", "q"])])
    return rng.choice(["", "a", "{{"]) + "{" + field + conversion + rng.choice(["", ":" + spec, ":" + spec]) + "}" + rng.choice(["", "}}", "{}", "}"])


def random_percent(rng):
    name = rng.choice(["", "", "", "(a)", "(b)", "(q)"])
    return rng.choice(["", "%%", "a"]) + "%" + name + rng.choice(["", "", "-", "+", " ", "0", "#", "-0", "+ "]) + rng.choice(["", "5", "12", "*"]) + rng.choice(["", "", ".2", ".0", ".12"]) + rng.choice(
        ["s", "s", "d", "i", "x", "o", "X", "f", "e", "g", "r", "a", "c", "%", "q", "G", "ld"]) + rng.choice(["", "%s"])


def random_expression(rng, depth=0):
    leaves = ["n", "x", "s", "u", "quote", "d", "l", "words", "empty", "none", "f", "json", "missing", "true", "1", "0", "-3", "2.5",
              "'ab'", "''", "[1, 2]", "{'a': 1}", "messages", "messages[1]", "messages[0].content", "d.a", "l[0]", "'%s'", "range(3)"]
    if depth > 3 or rng.random() < 0.25:
        return rng.choice(leaves)
    e = lambda: random_expression(rng, depth + 1)
    kind = rng.randrange(16)
    if kind == 12:
        return f"({e()}).{random_method(rng)}"
    if kind == 13:
        return f"'{random_format_spec(rng)}'.format({e()}, {rng.choice(['3', 'x', 's'])}, k={e()})"
    if kind == 14:
        return f"('{random_percent(rng)}' % {rng.choice([e(), '(' + e() + ', 2)', '(n, x)', 'd'])})"
    if kind == 15:
        return f"({e()})|" + rng.choice(["urlencode", "striptags", "wordwrap(5)", "wordwrap(3, false)", "wordwrap(7, true, '|', false)", "pprint", "xmlattr", "filesizeformat",
                                         "filesizeformat(true)", "int(7, 0)", "int(base=16)", "round(-1)", "map(default='-', attribute='role')|list", "groupby('role')|map(attribute='grouper')|list",
                                         "truncate(5)", "format(1, 'b')", "attr('upper')|string|length", "reverse|last", "last", "title|wordwrap(4)", "string|pprint"])
    if kind == 0:
        return f"({e()} {rng.choice(['+', '-', '*', '/', '//', '%', '~', '==', '!=', '<', '<=', 'and', 'or', 'in', 'not in'])} {e()})"
    if kind == 1:
        return f"(not {e()})"
    if kind == 2:
        return f"({e()} if {e()} else {e()})"
    if kind == 3:
        return f"({e()})[{e()}]"
    if kind == 4:
        return f"({e()})[{rng.choice(['', '1', '-2'])}:{rng.choice(['', '2', '-1', '9'])}{rng.choice(['', ':', ':-1', ':2'])}]"
    if kind == 5:
        return f"({e()}).{rng.choice(['role', 'content', 'a', 'x', '0'])}"
    if kind in (6, 7, 8):
        return f"({e()})|" + rng.choice(["upper", "lower", "title", "capitalize", "length", "list", "first", "last", "join(',')", "tojson", "trim", "int",
                                         "float", "string", "default('q')", "default('q', true)", "reverse|list", "unique|list", "sort", "sum", "max", "min",
                                         "abs", "round", "replace('l', 'LL')", "indent", "tojson(indent=1)", "map('string')|list", "select|list", "batch(2)|list",
                                         "map(attribute='role')|list", "selectattr('role')|list", "items|list", "dictsort", "wordcount", "center(9)"])
    if kind == 9:
        return f"({e()} is {rng.choice(['', 'not '])}{rng.choice(['defined', 'none', 'string', 'mapping', 'iterable', 'sequence', 'number', 'integer', 'float', 'boolean', 'true', 'odd'])})"
    if kind == 10:
        return f"({e()}).{rng.choice(['strip()', 'upper()', 'split()', 'items()|list', 'keys()|list', 'get(1)', 'split(1)', 'title()', 'splitlines()', 'count(1)', 'isdigit()', 'swapcase()'])}"
    return f"[{e()}, {e()}]"


NAMES = ["n", "s", "l", "v", "w", "n", "s", "l", "v", "w", "kwargs"]  # v, w and kwargs are not in the context


def random_scoped(rng, depth=0):
    """Statements that assign to names and read them in scopes inside each other."""
    out = []
    inner = lambda: random_scoped(rng, depth + 1) if depth < 3 else "{{ n }}"
    name = lambda: rng.choice(NAMES)
    for _ in range(rng.randrange(1, 4)):
        kind = rng.randrange(12)
        if kind < 3:
            out.append("{{ " + rng.choice([name(), name(), name(), "varargs", "kwargs", "caller"]) + " }},")
        elif kind == 3:
            out.append("{% set " + name() + " = " + rng.choice([name(), "1", "'q'", name() + " ~ 'z'", "n if v", "none[:2]"]) + " %}")
        elif kind == 4:
            out.append("{% set " + name() + " %}" + inner() + "{% endset %}")
        elif kind == 5:
            out.append("{% for " + rng.choice(NAMES + ["i", "i", "i"]) + " in " + rng.choice(["[1, 2]", "l", "[]", name()]) + rng.choice(["", "", " if " + name()]) + " %}" + inner() +
                       rng.choice(["", "{% else %}" + inner()]) + "{% endfor %}")
        elif kind == 6:
            out.append("{% if " + name() + " %}" + inner() + rng.choice(["", "{% elif " + name() + " %}" + inner()]) + rng.choice(["", "{% else %}" + inner()]) + "{% endif %}")
        elif kind == 7:
            out.append("{% macro " + rng.choice("mk") + "(" + rng.choice(["", "n", "n=v", "n, v=s", "n=v, v=2", "kwargs", "n, varargs", "caller=1", "n=kwargs, varargs=v"]) + ") %}" + inner() + "{% endmacro %}")
        elif kind == 8:
            out.append("{{ " + rng.choice("mk") + "(" + rng.choice(["", "", "1", "v=3", "1, 2", "1, w=2", "kwargs=4", "1, n=2"]) + ") }}")
        elif kind == 9:
            out.append("{% call " + rng.choice(["m", "k"]) + "() %}" + inner() + "{% endcall %}")
        elif kind == 10:
            out.append("{% with " + name() + " = " + name() + " %}" + inner() + "{% endwith %}")
        else:
            out.append(rng.choice(["{% filter upper %}" + inner() + "{% endfilter %}", "{% generation %}" + inner() + "{% endgeneration %}" if depth == 0 else inner()]))
    return "".join(out)


def random_template(rng):
    if rng.random() < 0.4:
        return "{% macro m() %}{{ caller() if caller }}" + random_scoped(rng, 2) + "{% endmacro %}" + random_scoped(rng)
    out = []
    for _ in range(rng.randrange(1, 5)):
        kind = rng.randrange(8)
        e = random_expression(rng)
        sign = lambda: rng.choice(["", "", "-", "+"])
        space = rng.choice(["", " ", "\n", "\n  ", " \n"])
        if kind < 3:
            out.append("{{" + rng.choice(["", "-"]) + f" {e} " + rng.choice(["", "-"]) + "}}" + space)
        elif kind == 3:
            out.append("{%" + sign() + f" if {e} " + sign() + "%}" + space + "yes{% else %}no" + space + "{%" + sign() + " endif %}")
        elif kind == 4:
            out.append("{%" + sign() + f" for a in {e} " + sign() + "%}" + space + "{{ a }}{{ loop.index }}{% if loop.index > 5 %}{% break %}{% endif %}{% endfor %}" + space)
        elif kind == 5:
            out.append("{% set n = " + e + " %}" + space)
        elif kind == 6:
            out.append("{% macro m(a, b=1) %}" + space + "<{{ a }}|{{ " + e + " }}>{% endmacro %}{{ m(2) }}")
        else:
            out.append(space + "{#" + rng.choice(["", "-"]) + " c " + rng.choice(["", "-"]) + "#}" + space)
    return "".join(out)


WORDS = ["hi", "", " ", "two\nlines\n", "<think>why</think>ok", "</think>", "<think>", "<|user|>", "\u00e9\u4e2d\U0001f600", "/nothink", "a{{ b }}", "x\u001c ",
         "<tool_call>f</tool_call>", "<tool_response>1</tool_response>", "\\ \"q\" 'p'", "1e-5", "# Tools", "None", "  padded  "]


def random_value(rng, depth=0):
    kind = rng.randrange(9 if depth < 3 else 6)
    if kind < 2:
        return rng.choice(WORDS)
    if kind < 6:
        return rng.choice([0, 1, -3, 2.5, 1e-5, 1e16, True, False, None, ""])
    if kind == 6:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(3))]
    return {rng.choice(["a", "b", "items", "\u00e9", "city"]): random_value(rng, depth + 1) for _ in range(rng.randrange(3))}


def random_content(rng):
    kind = rng.random()
    if kind < 0.7:
        return rng.choice(WORDS) + rng.choice(WORDS)
    if kind < 0.8:
        return None
    if kind < 0.95:
        part = lambda: rng.choice([{"type": "text", "text": rng.choice(WORDS)}, rng.choice(WORDS), {"type": "image"}, {"output": "o"}, {"type": "tool_reference", "name": "f"}])
        return [part() for _ in range(rng.randrange(3))]
    return random_value(rng)


def random_tool(rng):
    f = {"name": rng.choice(["f", "get_weather"]), "description": rng.choice(WORDS), "parameters": rng.choice([
        {"type": "object", "properties": {"city": {"type": "string", "description": rng.choice(WORDS), "enum": ["a", "b"]}, "n": {"type": ["integer", "null"], "default": 3}}, "required": ["city"]},
        {"type": "object", "properties": {}}, random_value(rng)])}
    return rng.choice([{"type": "function", "function": f}, f])


def random_message(rng):
    m = {"role": rng.choice(["system", "user", "user", "assistant", "assistant", "assistant", "tool", "developer", "observation"])}
    if rng.random() < 0.95:
        m["content"] = random_content(rng)
    if rng.random() < 0.4:
        m["reasoning_content"] = rng.choice(WORDS + [None])
    if rng.random() < 0.2:
        m["thinking"] = rng.choice(WORDS)
    if rng.random() < 0.35 or m["role"] == "tool":
        arguments = rng.choice([{"city": random_value(rng), "n": random_value(rng)}, {}, json.dumps({"a": 1}), random_value(rng)])
        call = {"id": rng.choice(["c1", "c2"]), "type": "function", "function": {"name": "f", "arguments": arguments}}
        m["tool_calls" if m["role"] != "tool" else "tool_call_id"] = rng.choice([[call], [call, call], [], None, [call["function"]]]) if m["role"] != "tool" else rng.choice(["c1", "c2"])
    if rng.random() < 0.1:
        m["name"] = "f"
    return m


def random_chat(rng):
    context = {"messages": [random_message(rng) for _ in range(rng.randrange(0, 7))], "add_generation_prompt": rng.random() < 0.5}
    context["tools"] = rng.choice([None, None, [random_tool(rng) for _ in range(rng.randrange(3))]])
    for name in ("enable_thinking", "clear_thinking", "thinking"):
        if rng.random() < 0.3:
            context[name] = rng.choice([True, False, None])
    if rng.random() < 0.2:
        context["reasoning_effort"] = rng.choice(["low", "high", "medium", "x", None])
    context["bos_token"], context["eos_token"] = "<s>", "</s>"
    return context


def compare_chats(binary, files, count, seed):
    env = make_template_cases.environment()
    bad = errors = 0
    for file in files:
        source = pathlib.Path(file).read_text()
        template = env.from_string(source)
        rng = random.Random(seed)
        for first in range(0, count, 2000):
            rows = [{"template": source, "context": random_chat(rng)} for _ in range(min(2000, count - first))]
            for row, got in zip(rows, ask([binary, "render"], rows)):
                try:
                    want = {"text": template.render(**row["context"])}
                except Exception as e:
                    want = {"error": type(e).__name__}
                    errors += 1
                if got.get("text") != want.get("text") or got.get("error", "").split(":")[0] != want.get("error", ""):
                    bad += 1
                    if bad <= 10:
                        print(file, json.dumps(row["context"]), "\n  got", got, "\n want", want)
        print(f"{file}: {count} conversations, {bad} differences so far, {errors} of all are errors")
    return bad


def compare_templates(binary, count, seed):
    env = make_template_cases.environment()
    context = make_template_cases.CONTEXT
    rng = random.Random(seed)
    bad = 0
    for first in range(0, count, 1000):
        rows = [{"template": random_template(rng), "context": context} for _ in range(min(1000, count - first))]
        for row, got in zip(rows, ask([binary, "render"], rows)):
            try:
                want = {"text": env.from_string(row["template"]).render(**copy.deepcopy(context))}
            except Exception as e:
                want = {"error": type(e).__name__}
            if "text" in want and " at 0x" in want["text"]:
                continue  # Python's addresses
            if got.get("text") != want.get("text") or ("error" in got) != ("error" in want):
                bad += 1
                if bad <= 20:
                    print(json.dumps(row["template"]), "\n  got", got, "\n want", want)
        print(f"{first + len(rows)} templates, {bad} differences", flush=True)
    return bad


def compare_speed(build, folder, file):
    from tokenizers import Tokenizer

    # Processor time on both sides, one thread each.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["RAYON_NUM_THREADS"] = "1"
    ours = json.loads(subprocess.run([str(pathlib.Path(build) / "bench/text_bench"), folder, file], stdout=subprocess.PIPE, check=True).stdout)
    start = time.process_time()
    official = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    load = time.process_time() - start
    texts = [json.loads(line)["text"] for line in open(file)]
    size = sum(len(t.encode()) for t in texts)
    best, tokens = 1e9, 0
    for _ in range(3):
        start = time.process_time()
        tokens = sum(len(official.encode(t, add_special_tokens=False).ids) for t in texts)
        best = min(best, time.process_time() - start)
    print("ours    ", ours)
    print("official", {"load_s": load, "MB_per_s": size / best / 1e6, "tokens": tokens, "M_tokens_per_s": tokens / best / 1e6})
    print(f"ratio {ours['MB_per_s'] / (size / best / 1e6):.1f}")
    return int(ours["tokens"] != tokens)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("what", choices=["tokens", "templates", "chats", "speed"])
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    if a.what == "tokens":
        bad = compare_tokens(driver(a.build), a.paths, a.count, a.seed)
    elif a.what == "templates":
        bad = compare_templates(driver(a.build), a.count, a.seed)
    elif a.what == "chats":
        bad = compare_chats(driver(a.build), a.paths, a.count, a.seed)
    else:
        bad = compare_speed(a.build, *a.paths)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
