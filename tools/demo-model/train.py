"""train.py: trains the demo model on rows of tokens that corpus.py has written.

A Llama: RMS norms, rotary positions, grouped-query attention, SwiGLU, the embedding tied to the output. Matrices are
trained with Muon (orthogonalised momentum), the embedding and the norms with Adam. After a short warm-up the learning
rate falls linearly to zero.

    python3 train.py --data DIR --out DIR [--steps N]

A run that finds OUT/checkpoint.pt goes on from there; SIGTERM ends one with a checkpoint. Matrix products are done in
bfloat16, everything else in float32; one thread. Needs no newer PyTorch than Debian 12's (1.13).
"""
import argparse
import json
import os
import signal
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

SIZES = {"n_vocab": 2560, "n_layers": 6, "dim": 192, "n_heads": 6, "n_kv": 2, "head": 32, "ffn": 512,
         "context": 512, "theta": 10000.0, "eps": 1e-5}
BOS = 1
ANSWER, ANSWER_WEIGHT = 2, 2.5  # the code of answers in `learn`, and how much a token of theirs counts


class Norm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):  # [rows, T, dim]
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Layer(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        q_dim, kv_dim = s["n_heads"] * s["head"], s["n_kv"] * s["head"]
        self.attn_norm, self.ffn_norm = Norm(s["dim"], s["eps"]), Norm(s["dim"], s["eps"])
        self.qkv = nn.Linear(s["dim"], q_dim + 2 * kv_dim, bias=False)
        self.o = nn.Linear(q_dim, s["dim"], bias=False)
        self.gate_up = nn.Linear(s["dim"], 2 * s["ffn"], bias=False)
        self.down = nn.Linear(s["ffn"], s["dim"], bias=False)

    def attend(self, x, cos, sin, mask):
        s, (rows, length, _) = self.s, x.shape
        n_q, n_kv, head = s["n_heads"], s["n_kv"], s["head"]
        heads = self.qkv(x).view(rows, length, n_q + 2 * n_kv, head).transpose(1, 2)
        qk, v = heads[:, :n_q + n_kv].float(), heads[:, n_q + n_kv:]
        half = head // 2  # pairs (i, i + half); export.py reorders them to GGUF's (2i, 2i + 1)
        a, b = qk[..., :half], qk[..., half:]
        qk = torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(v.dtype)
        q = qk[:, :n_q].reshape(rows, n_kv, n_q // n_kv * length, head)  # the queries of one kv head together
        scores = torch.matmul(q * head**-0.5, qk[:, n_q:].transpose(2, 3))
        scores = scores.view(rows, n_kv, n_q // n_kv, length, length) + mask
        weights = torch.softmax(scores, -1).view(rows, n_kv, n_q // n_kv * length, length)
        out = torch.matmul(weights.to(v.dtype), v).view(rows, n_q, length, head)
        return self.o(out.transpose(1, 2).reshape(rows, length, n_q * head))

    def forward(self, x, cos, sin, mask):
        x = x + self.attend(self.attn_norm(x), cos, sin, mask)
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        self.embedding = nn.Embedding(s["n_vocab"], s["dim"])
        self.layers = nn.ModuleList(Layer(s) for _ in range(s["n_layers"]))
        self.norm = Norm(s["dim"], s["eps"])
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)
        for layer in self.layers:
            for w in (layer.o.weight, layer.down.weight):
                nn.init.normal_(w, std=0.02 / (2 * s["n_layers"]) ** 0.5)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.look_back()
        angles = torch.arange(s["context"])[:, None] / s["theta"] ** (torch.arange(0, s["head"], 2) / s["head"])[None]
        self.register_buffer("cos", angles.cos(), persistent=False)  # [context, head / 2]
        self.register_buffer("sin", angles.sin(), persistent=False)

    @torch.no_grad()
    def look_back(self):
        """Lets the first layer's first key/value head begin as what most models take long to find: its queries attend to
        the token before, the one before that, and so on, and copy something of each. The first dimension of all
        embeddings is the same at first; queries and keys are made of it alone, turned against each other."""
        s, layer = self.s, self.layers[0]
        dim, head, n = s["dim"], s["head"], s["n_heads"] // s["n_kv"]
        half, key, value = head // 2, s["n_heads"] * head, (s["n_heads"] + s["n_kv"]) * head
        self.embedding.weight[:, 0] = 0.06 * dim**0.5
        self.norm.weight[0] = 0  # so that it says nothing of the next token
        w, angle = layer.qkv.weight, s["theta"] ** -(torch.arange(half) / half)
        fast = (torch.arange(half) < half // 2).float()
        w[:n * head] = 0
        w[key:key + head] = 0
        w[key:key + half, 0] = 1.6 * fast
        for i in range(n):
            w[i * head:i * head + half, 0] = 1.6 * fast * torch.cos(angle * (i + 1))
            w[i * head + half:(i + 1) * head, 0] = -1.6 * fast * torch.sin(angle * (i + 1))
        w[value:value + head] = torch.linalg.qr(torch.randn(dim, head))[0].t()
        layer.o.weight[:, :n * head] = 0.05 * (dim / head) ** 0.5 * torch.linalg.qr(torch.randn(dim, n * head))[0]

    def forward(self, tokens):
        """tokens [rows, T] -> hidden states [rows, T, dim]. Texts in a row begin with BOS and don't see each other."""
        length = tokens.shape[1]
        text = (tokens == BOS).cumsum(1)
        seen = (text[:, :, None] == text[:, None, :]) & torch.ones(length, length, dtype=torch.bool).tril()
        mask = torch.zeros(seen.shape).masked_fill(~seen, -1e9)[:, None, None]  # [rows, 1, 1, T, T]
        if torch.is_autocast_cpu_enabled():
            mask = mask.to(torch.bfloat16)
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.cos[:length], self.sin[:length], mask)
        return self.norm(x)

    def logits(self, hidden):
        return F.linear(hidden, self.embedding.weight)


def orthogonalised(g):
    """The nearest orthogonal matrix, roughly, by five quintic Newton-Schulz steps (Jordan et al., Muon, 2024)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    wide = x if x.shape[0] <= x.shape[1] else x.t()
    x = wide / (wide.float().norm() + 1e-7)
    for _ in range(5):
        y = x @ x.t()
        x = a * x + (b * y + c * (y @ y)) @ x
    return (x if g.shape[0] <= g.shape[1] else x.t()).float()


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum=0.95, decay=0.05):
        super().__init__(params, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "m" not in state:
                    state["m"] = torch.zeros_like(p)
                state["m"].mul_(group["momentum"]).add_(p.grad)
                update = p.grad + group["momentum"] * state["m"]
                # qkv and gate_up hold several matrices each, of which each is made orthogonal on its own.
                parts = [orthogonalised(part) * max(1, part.shape[0] / part.shape[1]) ** 0.5
                         for part in update.split(p.splits)]
                p.mul_(1 - group["lr"] * group["decay"]).add_(torch.cat(parts), alpha=-group["lr"])


def optimizers(model, args):
    s, matrices = model.s, []
    q, kv = s["n_heads"] * s["head"], s["n_kv"] * s["head"]
    for layer in model.layers:
        for linear, splits in ((layer.qkv, [q, kv, kv]), (layer.o, [s["dim"]]),
                               (layer.gate_up, [s["ffn"]] * 2), (layer.down, [s["dim"]])):
            linear.weight.splits = splits
            matrices.append(linear.weight)
    own = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in own]
    return [Muon(matrices, args.lr), torch.optim.Adam(rest, args.adam_lr, betas=(0.9, 0.98), eps=1e-9)]


def batch_loss(model, tokens, learn):
    """Mean loss over the tokens that are to be learnt, those of answers counted ANSWER_WEIGHT times: [rows, T] each."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = model(tokens)
        chosen = (learn[:, 1:] > 0).reshape(-1).nonzero()[:, 0]
        logits = model.logits(hidden[:, :-1].reshape(-1, hidden.shape[-1])[chosen])
    losses = F.cross_entropy(logits.float(), tokens[:, 1:].reshape(-1)[chosen], reduction="none")
    weights = 1 + (ANSWER_WEIGHT - 1) * (learn[:, 1:] == ANSWER).reshape(-1)[chosen].float()
    return (losses * weights).sum() / weights.sum()


@torch.no_grad()
def evaluate(model, data, rows=32):
    """Held-out questions: {skill: share answered right by the most likely tokens}, and the loss on held-out stories."""
    right, total, losses = {}, {}, []
    for first in range(0, len(data["tokens"]), rows):
        tokens = torch.from_numpy(data["tokens"][first:first + rows].astype(np.int64))
        question = data["question"][first:first + rows][:, 1:]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = model(tokens)
            logits = model.logits(hidden[:, :-1]).float()
        good = (logits.argmax(-1) == tokens[:, 1:]).numpy()
        for q in np.unique(question[question >= 0]):
            skill = str(data["skill"][q])
            total[skill] = total.get(skill, 0) + 1
            right[skill] = right.get(skill, 0) + int(good[question == q].all())
        text = torch.from_numpy(data["learn"][first:first + rows][:, 1:] == 1)
        if text.any():
            losses.append(F.cross_entropy(logits[text], tokens[:, 1:][text]).item())
    return {k: round(right[k] / total[k], 3) for k in sorted(total)}, sum(losses) / max(1, len(losses))


def rate(step, args):
    return min((step + 1) / args.warmup, (args.steps - step) / args.steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with train*.npz and heldout.npz")
    parser.add_argument("--out", required=True, help="folder for checkpoint.pt and log.jsonl")
    parser.add_argument("--steps", type=int, default=5900)
    parser.add_argument("--rows", type=int, default=12, help="rows of tokens in a step")
    parser.add_argument("--lr", type=float, default=0.02, help="of the matrices")
    parser.add_argument("--adam-lr", type=float, default=0.004, help="of the embedding and the norms")
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--every", type=int, default=200, help="steps between checkpoints")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    os.makedirs(args.out, exist_ok=True)
    files = sorted(f for f in os.listdir(args.data) if f.startswith("train") and f.endswith(".npz"))
    shards = [np.load(os.path.join(args.data, f)) for f in files]
    tokens = np.concatenate([s["tokens"] for s in shards])
    learn = np.concatenate([s["learn"] for s in shards])
    heldout = np.load(os.path.join(args.data, "heldout.npz"))
    heldout = {k: heldout[k] for k in heldout.files}
    model = Model(SIZES)
    optims = optimizers(model, args)
    print("%d weights, %d rows of %d tokens" % (sum(p.numel() for p in model.parameters()), *tokens.shape), flush=True)
    path, first = os.path.join(args.out, "checkpoint.pt"), 0
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        for optim, state in zip(optims, saved["optims"]):
            optim.load_state_dict(state)
        first = saved["step"]
        print("going on from step", first, flush=True)
    base, stop = (args.lr, args.adam_lr), []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    start, recent = time.process_time(), []
    for step in range(first, args.steps):
        rows = np.arange(step * args.rows, (step + 1) * args.rows) % len(tokens)
        for optim, lr in zip(optims, base):
            for group in optim.param_groups:
                group["lr"] = lr * rate(step, args)
        loss = batch_loss(model, torch.from_numpy(tokens[rows].astype(np.int64)), torch.from_numpy(learn[rows]))
        for optim in optims:
            optim.zero_grad()
        loss.backward()
        for optim in optims:
            optim.step()
        recent.append(loss.item())
        done = step + 1
        if done % 20 == 0:
            seconds = time.process_time() - start
            print("%s step %d loss %.4f, %.0f tokens/s of CPU time" %
                  (time.strftime("%H:%M:%S"), done, sum(recent[-20:]) / 20,
                   (done - first) * args.rows * tokens.shape[1] / seconds), flush=True)
        if done % args.every == 0 or done == args.steps or stop:
            accuracy, held = evaluate(model, heldout)
            record = {"step": done, "loss": sum(recent) / len(recent), "heldout_loss": held, "right": accuracy}
            recent = []
            print(json.dumps(record), flush=True)
            with open(os.path.join(args.out, "log.jsonl"), "a") as log:
                log.write(json.dumps(record) + "\n")
            torch.save({"step": done, "sizes": SIZES, "model": model.state_dict(),
                        "optims": [o.state_dict() for o in optims]}, path + ".new")
            os.replace(path + ".new", path)
        if stop:
            break


if __name__ == "__main__":
    main()
