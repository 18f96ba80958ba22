"""export.py: writes a checkpoint of train.py as a GGUF file in F32; `engine quantize` makes Q8_0 of it.

    python3 export.py checkpoint.pt spm.model OUT.gguf

Needs the Python package gguf (llama.cpp's) beside PyTorch and SentencePiece.
"""
import sys

import gguf
import sentencepiece
import torch

TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def add_vocabulary(out, spm):
    tokens, scores, types = [], [], []
    for i in range(spm.get_piece_size()):
        tokens.append(spm.id_to_piece(i).encode())
        scores.append(spm.get_score(i))
        types.append(gguf.TokenType.UNKNOWN if spm.is_unknown(i) else gguf.TokenType.CONTROL if spm.is_control(i)
                     else gguf.TokenType.BYTE if spm.is_byte(i) else gguf.TokenType.NORMAL)
    out.add_tokenizer_model("llama")
    out.add_tokenizer_pre("default")
    out.add_token_list(tokens)
    out.add_token_scores(scores)
    out.add_token_types(types)
    out.add_bos_token_id(spm.bos_id())
    out.add_eos_token_id(spm.eos_id())
    out.add_eot_token_id(spm.piece_to_id("<|im_end|>"))
    out.add_unk_token_id(spm.unk_id())
    out.add_add_bos_token(True)
    out.add_add_eos_token(False)
    out.add_add_space_prefix(False)
    out.add_chat_template(TEMPLATE)


def interleaved(matrix, n_heads):
    """Rows of a query or key matrix: rotary pairs from (i, i + half) to GGUF's (2i, 2i + 1)."""
    rows, dim = matrix.shape
    return matrix.view(n_heads, 2, rows // n_heads // 2, dim).transpose(1, 2).reshape(rows, dim)


def tensors(weights, s):
    yield "token_embd.weight", weights["embedding.weight"]  # the output matrix as well
    yield "output_norm.weight", weights["norm.weight"]
    q, kv = s["n_heads"] * s["head"], s["n_kv"] * s["head"]
    for i in range(s["n_layers"]):
        old, new = "layers.%d." % i, "blk.%d." % i
        wq, wk, wv = weights[old + "qkv.weight"].split([q, kv, kv])
        gate, up = weights[old + "gate_up.weight"].chunk(2)
        yield new + "attn_norm.weight", weights[old + "attn_norm.weight"]
        yield new + "attn_q.weight", interleaved(wq, s["n_heads"])
        yield new + "attn_k.weight", interleaved(wk, s["n_kv"])
        yield new + "attn_v.weight", wv
        yield new + "attn_output.weight", weights[old + "o.weight"]
        yield new + "ffn_norm.weight", weights[old + "ffn_norm.weight"]
        yield new + "ffn_gate.weight", gate
        yield new + "ffn_up.weight", up
        yield new + "ffn_down.weight", weights[old + "down.weight"]


def main():
    checkpoint, vocabulary, path = sys.argv[1:]
    saved = torch.load(checkpoint, map_location="cpu")
    s, spm = saved["sizes"], sentencepiece.SentencePieceProcessor(model_file=vocabulary)
    out = gguf.GGUFWriter(path, "llama")
    out.add_name("demo")
    out.add_description("Short stories and simple questions; trained from scratch on generated text")
    out.add_license("MIT")
    out.add_context_length(s["context"])
    out.add_embedding_length(s["dim"])
    out.add_block_count(s["n_layers"])
    out.add_feed_forward_length(s["ffn"])
    out.add_head_count(s["n_heads"])
    out.add_head_count_kv(s["n_kv"])
    out.add_rope_dimension_count(s["head"])
    out.add_rope_freq_base(s["theta"])
    out.add_layer_norm_rms_eps(s["eps"])
    out.add_vocab_size(spm.get_piece_size())
    out.add_file_type(gguf.LlamaFileType.ALL_F32)
    add_vocabulary(out, spm)
    for name, tensor in tensors(saved["model"], s):
        out.add_tensor(name, tensor.float().contiguous().numpy())
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main()
