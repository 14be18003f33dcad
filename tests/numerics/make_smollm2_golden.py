#!/usr/bin/env python3
"""Makes the reference logits of SmolLM2-135M and of its small draft, from their dequantised weights.

Oracle: the llama forward written out in numpy float64 (below), weights dequantised by the gguf package. Independent
of our kernels, which round activations to int8 for Q4_1 weights: the test asks for cosine and argmax, not for bits.
Teacher-forced along prompt and greedy text of reference_vectors.json.

    python3 tests/numerics/make_smollm2_golden.py SHARED/models models/SmolLM2-135M-Instruct.Q4_1.gguf

NAME.golden, little-endian: int32 num_positions, num_sampled; int32 sampled_ids[num_sampled]; then per position
int32 argmax, float32 largest logit, float32 gap to the second, float32 logits of the sampled ids.

Last run: numpy 2.4.6, gguf 0.19.0.
"""

import json
import pathlib
import sys

import gguf
import numpy as np

OUT = pathlib.Path(__file__).resolve().parent


class Llama:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        field = lambda key: reader.fields[f"llama.{key}"].contents()
        self.layers = field("block_count")
        self.heads = field("attention.head_count")
        self.kv_heads = field("attention.head_count_kv")
        self.eps = field("attention.layer_norm_rms_epsilon")
        self.theta = field("rope.freq_base")
        self.weights = {
            t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float64) for t in reader.tensors
        }
        hidden = self.weights["output_norm.weight"].shape[0]
        self.head_dim = hidden // self.heads

    def norm(self, x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * weight

    def rope(self, x):  # [tokens, heads, head_dim], pairs (2i, 2i + 1): q and k rows of GGUF files are permuted
        angles = np.arange(x.shape[0])[:, None] * self.theta ** (-np.arange(0, self.head_dim, 2) / self.head_dim)
        cos, sin = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
        out = np.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
        out[..., 1::2] = x[..., 1::2] * cos + x[..., 0::2] * sin
        return out

    def attention(self, q, k, v):
        tokens, group = q.shape[0], self.heads // self.kv_heads
        mask = np.triu(np.full((tokens, tokens), -np.inf), 1)
        out = np.empty_like(q)
        for head in range(self.heads):
            scores = q[:, head] @ k[:, head // group].T / np.sqrt(self.head_dim) + mask
            p = np.exp(scores - scores.max(-1, keepdims=True))
            out[:, head] = p / p.sum(-1, keepdims=True) @ v[:, head // group]
        return out.reshape(tokens, -1)

    def logits(self, ids):
        w = self.weights
        tokens = len(ids)
        h = w["token_embd.weight"][ids]
        for layer in range(self.layers):
            part = lambda name: w[f"blk.{layer}.{name}.weight"]
            x = self.norm(h, part("attn_norm"))
            q = self.rope((x @ part("attn_q").T).reshape(tokens, self.heads, self.head_dim))
            k = self.rope((x @ part("attn_k").T).reshape(tokens, self.kv_heads, self.head_dim))
            v = (x @ part("attn_v").T).reshape(tokens, self.kv_heads, self.head_dim)
            h = h + self.attention(q, k, v) @ part("attn_output").T
            x = self.norm(h, part("ffn_norm"))
            gate = x @ part("ffn_gate").T
            h = h + (gate / (1 + np.exp(-gate)) * (x @ part("ffn_up").T)) @ part("ffn_down").T
        return self.norm(h, w["output_norm.weight"]) @ w.get("output.weight", w["token_embd.weight"]).T


def write_golden(path, logits, num_sampled):
    rng = np.random.default_rng(2024)
    sampled = np.sort(rng.choice(logits.shape[1], num_sampled, replace=False)).astype("<i4")
    with open(path, "wb") as out:
        np.array([logits.shape[0], num_sampled], "<i4").tofile(out)
        sampled.tofile(out)
        for row in logits:
            second, first = np.partition(row, -2)[-2:]
            np.array([row.argmax()], "<i4").tofile(out)
            np.array([first, first - second], "<f4").tofile(out)
            row[sampled].astype("<f4").tofile(out)


def main():
    shared, target_path = pathlib.Path(sys.argv[1]), sys.argv[2]
    vectors = json.loads((shared / "reference_vectors.json").read_text())
    ids = vectors["prompt_ids"] + vectors["greedy_ids_extended"]
    prompt_len = len(vectors["prompt_ids"])

    logits = Llama(target_path).logits(ids)
    greedy = logits.argmax(-1)[prompt_len - 1 : -1].tolist()
    agreed = sum(a == b for a, b in zip(greedy, vectors["greedy_ids_extended"]))
    print(f"target: {agreed} of {len(greedy)} greedy ids agree with reference_vectors.json")
    print("first logits", logits[prompt_len - 1, :8].round(5).tolist())
    write_golden(OUT / "smollm2.golden", logits, 192)

    logits = Llama(shared / "smollm2-135m-draft" / "smollm2-135m-draft-Q4_1.gguf").logits(ids)
    write_golden(OUT / "smollm2_draft.golden", logits, 96)


if __name__ == "__main__":
    main()
