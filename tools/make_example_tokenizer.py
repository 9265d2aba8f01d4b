#!/usr/bin/env python3
"""Makes examples/tiny/tokenizer.json and tokenizer_config.json from the example conversations.

Developer tool: plain Python, no packages. The tokenizer has the shape of the GLM family's
(byte-level BPE, the same split regex, ignore_merges, control tokens after the vocabulary) with a
vocabulary small enough for a model that trains on a CPU.

    python3 tools/make_example_tokenizer.py
"""
import collections
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent / "examples"
VOCAB_SIZE = 1024
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
# (text, special): the control tokens of the GLM frame.
CONTROL = [("<|endoftext|>", True), ("[MASK]", True), ("[gMASK]", True), ("[sMASK]", True),
           ("<sop>", True), ("<eop>", True), ("<|system|>", True), ("<|user|>", True),
           ("<|assistant|>", True), ("<|observation|>", True), ("<think>", False),
           ("</think>", False), ("<tool_call>", False), ("</tool_call>", False),
           ("<tool_response>", False), ("</tool_response>", False), ("<arg_key>", False),
           ("</arg_key>", False), ("<arg_value>", False), ("</arg_value>", False)]


def byte_letters():
    """The printable letter that stands for each byte in a byte-level vocabulary."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {b: chr(b) for b in kept}
    spare = 256
    for b in range(256):
        if b not in letters:
            letters[b] = chr(spare)
            spare += 1
    return letters


def words(text):
    """Splits as SPLIT does; Python's re has no \\p, and the classes below equal it on these texts."""
    letter, number = r"[^\W\d_]", r"\d"
    pattern = SPLIT.replace(r"[^\r\n\p{L}\p{N}]", r"(?:(?![^\W_])[^\r\n])")
    pattern = pattern.replace(r"[^\s\p{L}\p{N}]", r"(?:(?![^\W_])[^\s])")
    pattern = pattern.replace(r"\p{L}", letter).replace(r"\p{N}", number)
    return re.findall(pattern, text)


def texts():
    """Everything in the training rows that becomes ordinary text."""
    for line in (ROOT / "chat" / "train.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        for message in row["messages"]:
            yield message["content"]
            yield message.get("reasoning_content", "")
            for call in message.get("tool_calls", []):
                yield call["function"]["name"]
                for key, value in call["function"]["arguments"].items():
                    yield key
                    yield value if isinstance(value, str) else json.dumps(value)
        for tool in row.get("tools", []):
            yield json.dumps(tool["function"], ensure_ascii=False)


def train(merges_wanted):
    letters = byte_letters()
    counts = collections.Counter()
    for text in texts():
        for word in words(text):
            counts[tuple(letters[b] for b in word.encode("utf-8"))] += 1
    merges = []
    pieces = {word: list(word) for word in counts}
    while len(merges) < merges_wanted:
        pairs = collections.Counter()
        for word, split in pieces.items():
            for pair in zip(split, split[1:]):
                pairs[pair] += counts[word]
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        joined = best[0] + best[1]
        for word, split in pieces.items():
            i = 0
            while i + 1 < len(split):
                if (split[i], split[i + 1]) == best:
                    split[i:i + 2] = [joined]
                i += 1
    return merges


def main():
    letters = byte_letters()
    merges = train(VOCAB_SIZE - len(CONTROL) - 256)
    vocabulary = sorted(letters.values()) + [a + b for a, b in merges]
    assert len(set(vocabulary)) == len(vocabulary) == VOCAB_SIZE - len(CONTROL)
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": len(vocabulary) + i, "content": text, **flags, "special": special}
             for i, (text, special) in enumerate(CONTROL)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": False}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated",
             "invert": False}, byte_level]},
        "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
                  "vocab": {token: i for i, token in enumerate(vocabulary)},
                  "merges": [list(pair) for pair in merges]}}
    config = {
        "added_tokens_decoder": {
            str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in added},
        "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False, "model_max_length": 2048,
        "tokenizer_class": "PreTrainedTokenizerFast"}
    for name, content in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
        text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
        (ROOT / "tiny" / name).write_text(text, encoding="utf-8")
    print(f"{len(vocabulary)} tokens and {len(CONTROL)} control tokens")


if __name__ == "__main__":
    main()
