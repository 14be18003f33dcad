#!/usr/bin/env python3
"""Compares Paceline's tokenizers with Hugging Face `tokenizers` and SentencePiece on random strings.

    tokenizer_oracle.py --driver build/bin/tokenize_driver --shared ../shared --count 2000 [--only llama-bpe]

Strings are made from a seed: assigned code points of all scripts, words, digits, white space, contractions, decomposed
letters. The tokenizers are built here by hand from vocabulary, merges and the pre-tokenizer sequence of the model,
because loaders that convert GGUF leave parts out (SmolLM2's digit split). Ids and decoded text must be equal.

Exit status: 0 equal, 1 different, 77 nothing to compare with (packages or data missing).
"""
import argparse
import os
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

SKIP = 77

try:
    import gguf
    import sentencepiece
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(SKIP)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTION +
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTION +
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# No scanner of ours knows this one, so it runs through the general engine.
FOREIGN = r"(?:[A-Z]+(?![a-z])|[A-Z]?[a-z]+)|\p{N}{2}|\s+(?=\S)|[^\sA-Za-z\p{N}]+"


class Vocabulary:
    """The tokenizer metadata of a GGUF file."""

    def __init__(self, path):
        fields = gguf.GGUFReader(path).fields
        get = lambda key: fields[key].contents() if key in fields else None
        self.path = path
        self.tokens = get("tokenizer.ggml.tokens")
        self.types = get("tokenizer.ggml.token_type")
        self.scores = get("tokenizer.ggml.scores")
        self.merges = [(m[:m.index(" ", 1)], m[m.index(" ", 1) + 1:]) for m in get("tokenizer.ggml.merges") or []]

    def ids(self):
        """Text -> id of what the model itself makes; user-defined tokens (type 4) are found in the text instead."""
        out = {}
        for wanted in (False, True):
            for i, text in enumerate(self.tokens):
                if (self.types[i] == 4) == wanted:
                    out.setdefault(text, i)
        return out

    def user_defined(self):
        return [t for i, t in enumerate(self.tokens) if self.types[i] == 4]


def byte_level(vocabulary, steps, normalizer=None, ignore_merges=False):
    out = Tokenizer(models.BPE(vocab=vocabulary.ids(), merges=vocabulary.merges, ignore_merges=ignore_merges))
    if normalizer:
        out.normalizer = normalizer
    out.pre_tokenizer = pre_tokenizers.Sequence(steps)
    out.decoder = decoders.ByteLevel()
    out.add_tokens([AddedToken(t, normalized=False, special=False) for t in vocabulary.user_defined()])
    return out


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def raw_bytes(use_regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def digits(individual):
    return pre_tokenizers.Digits(individual_digits=individual)


def falcon_steps():
    return [pre_tokenizers.Punctuation("contiguous"), raw_bytes(True), digits(False), split("[0-9][0-9][0-9]")]


def merges_of_scores(tokens, scores, mergeable):
    """The merges that give SentencePiece's order: a pair's rank is the rank of what it makes."""
    ids = {t: i for i, t in enumerate(tokens) if mergeable(i)}
    merges = []
    for text, i in ids.items():
        pairs = [(text[:k], text[k:]) for k in range(1, len(text)) if text[:k] in ids and text[k:] in ids]
        merges += [(-scores[i], i, n, pair) for n, pair in enumerate(sorted(pairs, key=lambda p: (ids[p[0]], ids[p[1]])))]
    return [pair for _, _, _, pair in sorted(merges)]


def sentencepiece_like(tokens, scores, types):
    merges = merges_of_scores(tokens, scores, lambda i: types[i] in (1, 4, 5))
    vocab = {t: i for i, t in enumerate(tokens)}
    out = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token=tokens[0], fuse_unk=True, byte_fallback=True))
    out.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    out.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return out


def unigram(tokens, scores, scheme):
    pieces = [(t, s) for t, s in zip(tokens, scores)]
    out = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    out.normalizer = normalizers.NFKC()
    out.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=scheme)
    out.decoder = decoders.Metaspace(replacement="▁", prepend_scheme=scheme)
    return out


def assigned_code_points():
    return [c for c in range(1, 0x110000)
            if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]


WORDS = ("the of and to in is you that it he was for on are with they be at one have this from or had by hot but some "
         "Hello World don't I'm we've they'LL it'S naïve Ärger français español русский текст привет 你好 世界 こんにちは "
         "カタカナ 한국어 العربية עברית हिन्दी ไทย 123 4567 3.14159 1,000,000 foo_bar(baz) x=1; // */ <br> https://a.b/c?d=e "
         "CamelCaseWord HTTPServer αβγ ΑΒΓ ① ½ ² ʰ Ⅷ ﬁ ŉ İ ẞ ſ 'ſ 🦙 👩‍👩‍👧 🏳️‍🌈 é ệ ▁ ▁▁ <0x41>").split()
SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", " \n ", "\u00a0", "\u3000", "\u2028", "\x85", ""]


def random_text(rng, code_points):
    kind = rng.random()
    if kind < 0.35:
        return "".join(chr(rng.choice(code_points)) for _ in range(rng.randint(1, 24)))
    if kind < 0.5:  # one narrow stretch of the code space: real scripts
        start = rng.randrange(len(code_points))
        block = code_points[start:start + 64]
        return "".join(rng.choice([chr(rng.choice(block)), rng.choice(SPACES)]) for _ in range(rng.randint(1, 40)))
    if kind < 0.6:
        return "".join(rng.choice("aA1'sStT .,!?\n\r\t_-/éÉ²½ ") for _ in range(rng.randint(1, 40)))
    parts = []
    for _ in range(rng.randint(1, 14)):
        parts += [rng.choice(WORDS), rng.choice(SPACES)]
    text = "".join(parts)
    return unicodedata.normalize("NFD", text) if rng.random() < 0.2 else text


def without_recent_characters(text):
    """The reference normalizes with tables of an old Unicode version, so what came after 3.2 is left out for it."""
    return "".join(c for c in text if unicodedata.ucd_3_2_0.category(c) != "Cn")


def inputs_for(tokenizer, texts):
    plain = tokenizer.normalizer is None or "NF" not in repr(tokenizer.normalizer)
    return texts if plain else [without_recent_characters(text) for text in texts]


def run_driver(driver, model, texts):
    data = b"".join(struct.pack("<I", len(t)) + t for t in (text.encode() for text in texts))
    done = subprocess.run([driver, model], input=data, stdout=subprocess.PIPE, check=True)
    at, out = 0, []
    for _ in texts:
        (count,) = struct.unpack_from("<I", done.stdout, at)
        ids = list(struct.unpack_from(f"<{count}i", done.stdout, at + 4))
        at += 4 + 4 * count
        (length,) = struct.unpack_from("<I", done.stdout, at)
        out.append((ids, done.stdout[at + 4:at + 4 + length].decode()))
        at += 4 + length
    return out


def compare(name, driver, model, texts, encode, decode):
    wrong = 0
    for text, (ids, decoded), want in zip(texts, run_driver(driver, model, texts), encode(texts)):
        want_text = decode(want) if decode else decoded
        if ids == want and decoded == want_text:
            continue
        wrong += 1
        if wrong <= 5:
            print(f"{name}: {text!r}\n  ids  want {want}\n       got  {ids}\n  text want {want_text!r}\n       got  {decoded!r}")
    print(f"{name}: {len(texts)} strings, {wrong} different", flush=True)
    return wrong


def with_huggingface(tokenizer):
    return (lambda texts: [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)],
            lambda ids: tokenizer.decode(ids, skip_special_tokens=False))


def gguf_cases(shared, real_model):
    vocab = lambda name: Vocabulary(os.path.join(shared, "data", "tokenizers", f"ggml-vocab-{name}.gguf"))
    smol = [digits(True), raw_bytes(True)]
    yield "llama-bpe", vocab, lambda v: byte_level(v, [split(LLAMA3), raw_bytes()], ignore_merges=True)
    yield "qwen2", vocab, lambda v: byte_level(v, [split(QWEN2), raw_bytes()], normalizer=normalizers.NFC())
    yield "gpt-2", vocab, lambda v: byte_level(v, [raw_bytes(True)])
    yield "starcoder", vocab, lambda v: byte_level(v, smol)
    yield "falcon", vocab, lambda v: byte_level(v, falcon_steps())
    yield "llama-spm", vocab, lambda v: sentencepiece_like(v.tokens, v.scores, v.types)
    if real_model:
        yield "smollm2", lambda _: Vocabulary(real_model), lambda v: byte_level(v, smol)


def json_cases(shared):
    """Tokenizers that only exist as tokenizer.json: chains of steps over a vocabulary we have."""
    path = os.path.join(shared, "data", "tokenizers", "ggml-vocab-gpt-2.gguf")
    gpt2 = Vocabulary(path)
    for name, pattern in (("tekken", TEKKEN), ("gpt-4o", GPT4O), ("qwen35", QWEN35), ("foreign", FOREIGN)):
        yield f"json {name}", byte_level(gpt2, [split(pattern), raw_bytes()])
    yield "json falcon", byte_level(gpt2, falcon_steps())
    yield "json command-r", byte_level(gpt2, [digits(True), raw_bytes(True)])
    yield "json accents", byte_level(
        gpt2, [pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True)],
        normalizer=normalizers.Sequence([normalizers.Lowercase(), normalizers.NFD(), normalizers.StripAccents()]))
    for behavior in ("removed", "merged_with_previous", "merged_with_next", "contiguous"):
        yield f"json {behavior}", byte_level(gpt2, [pre_tokenizers.Split(Regex(r"\p{P}"), behavior), raw_bytes(True)])
    yield "json whitespace", byte_level(gpt2, [pre_tokenizers.Whitespace(), raw_bytes()])
    yield "json bert", byte_level(gpt2, [pre_tokenizers.BertPreTokenizer(), raw_bytes()])
    spm = Vocabulary(os.path.join(shared, "data", "tokenizers", "ggml-vocab-llama-spm.gguf"))
    for scheme in ("always", "first", "never"):
        yield f"json unigram {scheme}", unigram(spm.tokens, [-0.001 * i for i in range(len(spm.tokens))], scheme)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", required=True)
    parser.add_argument("--shared", required=True)
    parser.add_argument("--real-model", default="")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    folder = os.path.join(args.shared, "data", "tokenizers")
    if not os.path.isdir(folder):
        print(f"skipped: no {folder}")
        return SKIP
    rng = random.Random(args.seed)
    code_points = assigned_code_points()
    texts = [random_text(rng, code_points) for _ in range(args.count)]
    wanted = lambda name: not args.only or args.only in name
    real_model = args.real_model if os.path.exists(args.real_model) else ""
    wrong = 0

    for name, load, build in gguf_cases(args.shared, real_model):
        if wanted(name):
            vocabulary = load(name)
            tokenizer = build(vocabulary)
            wrong += compare(name, args.driver, vocabulary.path, inputs_for(tokenizer, texts),
                             *with_huggingface(tokenizer))
    for name, tokenizer in json_cases(args.shared):
        if wanted(name):
            with tempfile.TemporaryDirectory() as temp:
                tokenizer.save(os.path.join(temp, "tokenizer.json"))
                wrong += compare(name, args.driver, temp, inputs_for(tokenizer, texts), *with_huggingface(tokenizer))
    if wanted("mistral_v1"):
        model = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, "mistral_v1", "tokenizer.model"))
        wrong += compare("mistral_v1", args.driver, os.path.join(folder, "mistral_v1"), texts,
                         lambda batch: [model.encode(text) for text in batch], model.decode)
    if wanted("deepseek_v4"):
        tokenizer = Tokenizer.from_file(os.path.join(folder, "deepseek_v4", "tokenizer.json"))
        tokenizer.encode_special_tokens = True
        wrong += compare("deepseek_v4", args.driver, os.path.join(folder, "deepseek_v4"), texts,
                         *with_huggingface(tokenizer))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
