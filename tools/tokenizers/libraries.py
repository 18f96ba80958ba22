#!/usr/bin/env python3
"""SentencePiece and HF tokenizers on the vocabularies of GGUF files. Runs in the peers (../shared/peers/in).

  libraries.py ids LIBRARY VOCABULARY.gguf TEXTS           the ids of each text, one line each
  libraries.py time LIBRARY VOCABULARY.gguf TEXTS ROUNDS   the seconds of each round, one thread

LIBRARY: sentencepiece or hf. TEXTS: a file of texts, each ended by a NUL. The contents of the file are converted to the
library's own format; missing parts (a regular expression that cuts texts) are as the model's authors published them."""
import os
import struct
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from gguf import GGUFReader  # noqa: E402  (what reads the environment comes behind it)

# tokenizer.ggml.pre -> the expression in the tokenizer.json of models that it stands for
ENDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
EXPRESSIONS = {
    "llama-bpe": ENDS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + REST,
    "qwen2": ENDS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + REST,
}


class Vocabulary:
    """What a file says."""

    def __init__(self, path):
        self.fields = GGUFReader(path).fields
        self.model = self.get("model")
        self.tokens = self.get("tokens")
        self.types = self.get("token_type") or [1] * len(self.tokens)
        self.scores = self.get("scores") or [0.0] * len(self.tokens)

    def get(self, key, preset=None):
        field = self.fields.get("tokenizer.ggml." + key)
        return preset if field is None else field.contents()


# ---- SentencePiece: its model is a message of Protocol Buffers ----

def number(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(tag, value):
    if isinstance(value, float):
        return number(tag << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return number(tag << 3) + number(value)
    return number(tag << 3 | 2) + number(len(value)) + value


def sentencepiece_model(vocabulary):
    """A function from a text to its ids."""
    import sentencepiece
    message = bytearray()
    for piece, score, kind in zip(vocabulary.tokens, vocabulary.scores, vocabulary.types):
        message += field(1, field(1, piece.encode()) + field(2, float(score)) + field(3, int(kind)))
    unigram = vocabulary.model == "t5"
    message += field(2, field(3, 1 if unigram else 2) + field(35, int(6 in vocabulary.types)) +
                     field(40, vocabulary.get("unknown_token_id", 0)))
    charsmap = bytes(vocabulary.get("precompiled_charsmap") or b"")
    message += field(3, field(1, b"file") + field(2, charsmap) + field(3, int(vocabulary.get("add_space_prefix", True))) +
                     field(4, int(vocabulary.get("remove_extra_whitespaces", False))) + field(5, 1))
    processor = sentencepiece.SentencePieceProcessor(model_proto=bytes(message))
    return lambda text: processor.encode(text, out_type=int)


# ---- HF tokenizers ----

def hf_model(vocabulary):
    """A function from a text to its ids."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers  # noqa: F401
    ids = {piece: i for i, piece in enumerate(vocabulary.tokens)}
    if vocabulary.model == "gpt2":
        merges = []
        for merge in vocabulary.get("merges"):
            blank = merge.index(" ", 1)
            merges.append((merge[:blank], merge[blank + 1:]))
        tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges))
        pre = vocabulary.get("pre")
        if pre in ("gpt-2", "mpt"):
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        elif pre in ("starcoder", "refact"):
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
                pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
        elif pre in EXPRESSIONS:
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
                pre_tokenizers.Split(Regex(EXPRESSIONS[pre]), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        else:
            sys.exit(f"libraries.py: no expression is known for {pre}")
    elif vocabulary.model == "bert":
        # A GGUF file marks what begins a word with U+2581, the library what goes on with ##.
        pieces = {}
        for piece, i in ids.items():
            special = vocabulary.types[i] == 3
            pieces[piece if special else piece[1:] if piece.startswith("\u2581") else "##" + piece] = i
        tokenizer = Tokenizer(models.WordPiece(vocab=pieces, unk_token="[UNK]", max_input_chars_per_word=1 << 30))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    elif vocabulary.model == "t5":
        scores = [(piece, float(score)) for piece, score in zip(vocabulary.tokens, vocabulary.scores)]
        tokenizer = Tokenizer(models.Unigram(scores, unk_id=vocabulary.get("unknown_token_id"), byte_fallback=False))
        tokenizer.normalizer = normalizers.Sequence([
            normalizers.Precompiled(bytes(vocabulary.get("precompiled_charsmap"))),
            normalizers.Strip(left=True, right=True), normalizers.Replace(Regex(" {2,}"), " ")])
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always", split=True)
    elif vocabulary.model == "llama":
        ranked = sorted(range(len(vocabulary.tokens)), key=lambda i: -vocabulary.scores[i])
        merges = []
        for i in ranked:
            piece = vocabulary.tokens[i]
            if vocabulary.types[i] != 1:
                continue
            splits = [(piece[:j], piece[j:]) for j in range(1, len(piece)) if piece[:j] in ids and piece[j:] in ids]
            merges += sorted(splits, key=lambda split: (ids[split[0]], ids[split[1]]))
        tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    else:
        sys.exit(f"libraries.py: HF tokenizers has nothing for {vocabulary.model}")
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def main():
    what, library, path, texts_path = sys.argv[1:5]
    vocabulary = Vocabulary(path)
    encode = sentencepiece_model(vocabulary) if library == "sentencepiece" else hf_model(vocabulary)
    with open(texts_path, "rb") as file:
        texts = [text.decode("utf-8", "replace") for text in file.read().split(b"\0")]
    if not texts[-1]:
        texts.pop()
    if what == "ids":
        for text in texts:
            print(*encode(text))
        return
    for _ in range(int(sys.argv[5])):
        begin = time.perf_counter()
        for text in texts:
            encode(text)
        print(f"{time.perf_counter() - begin:.6f}")


if __name__ == "__main__":
    main()
