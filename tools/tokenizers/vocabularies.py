"""The vocabularies that the tools in this folder use: files of ../shared/tokenizers, and one of them under each
pre-tokenizer name that the plugin bpe knows ("pre:NAME")."""
import pathlib
import re
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT.parent / "shared" / "tokenizers"
TABLE = ROOT / "plugins" / "tokenizers" / "bpe" / "pretokenizers.c"
BASE = "pre/gpt-2"  # the file that becomes pre:NAME


def files():
    """Names like gpt-2 and pre/qwen2."""
    return sorted(str(path.relative_to(FOLDER))[:-5] for path in FOLDER.rglob("*.gguf"))


def pretokenizers(aliases=True):
    """Names like pre:llama-bpe: all, or one of each row of the table."""
    table = TABLE.read_text(encoding="utf-8").split("struct pretokenizer table[]")[1]
    rows = ["".join(re.findall(r'"([^"]*)"', row)).split() for row in
            re.findall(r'^    \{("[^,]*),', table, re.MULTILINE)]
    return ["pre:" + name for row in rows for name in (row if aliases else row[:1])]


def write(name, copy):
    """Copies the file of a name."""
    if not name.startswith("pre:"):
        shutil.copyfile(FOLDER / f"{name}.gguf", copy)
        return
    data = (FOLDER / f"{BASE}.gguf").read_bytes()
    if int.from_bytes(data[8:16], "little"):
        raise ValueError(f"{BASE}.gguf has tensors, which its metadata must not move")
    key, value = b"tokenizer.ggml.pre", name[4:].encode()
    at = data.index(len(key).to_bytes(8, "little") + key) + 8 + len(key) + 4
    old = int.from_bytes(data[at:at + 8], "little")
    copy.write_bytes(data[:at] + len(value).to_bytes(8, "little") + value + data[at + 8 + old:])


def model_of(path):
    """tokenizer.ggml.model, whose key and value stand near the beginning of the file."""
    head, key = path.read_bytes()[:1 << 16], b"tokenizer.ggml.model"
    at = head.index(key) + len(key) + 4
    return head[at + 8:at + 8 + int.from_bytes(head[at:at + 8], "little")].decode()
