#!/usr/bin/env python3
"""Makes the tiny random llama variants of tests/numerics/tiny and their reference logits.

Oracle: transformers' own modelling code in float32, eager attention, over the whole id list at once. Each variant
is written as a Hugging Face folder and as the GGUF file that a conversion of it gives (gguf package; q and k rows
permuted for interleaved rope, rope_freqs for llama3 scaling), so that both readers meet the same expectation.

    python3 tests/numerics/make_tiny_models.py        # needs torch, transformers, safetensors, gguf, numpy

tiny/NAME/config.json, model.safetensors, model.gguf
tiny/NAME/logits.f32    float32 [24, vocab], little-endian, for ids (7 i + 3) mod vocab

Last run: torch 2.15.0, transformers 5.24.0, gguf 0.19.0. The widths are odd on purpose: no multiple of a vector.
"""

import json
import math
import pathlib
import shutil

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

OUT = pathlib.Path(__file__).resolve().parent / "tiny"
NUM_IDS = 24

BASE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 37,
    "hidden_size": 20,
    "intermediate_size": 28,
    "num_hidden_layers": 2,
    "num_attention_heads": 5,
    "num_key_value_heads": 1,
    "hidden_act": "silu",
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

# name: (changes to BASE, dtype of the stored weights)
VARIANTS = {
    "gqa": ({}, torch.float32),
    "mha_tied": ({"num_key_value_heads": 5, "tie_word_embeddings": True}, torch.float16),
    "head_dim": ({"head_dim": 6, "num_attention_heads": 4, "num_key_value_heads": 2}, torch.bfloat16),
    "rope_linear": ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, torch.float16),
    "rope_llama3": (
        {
            "head_dim": 16,
            "num_attention_heads": 2,
            "rope_theta": 10000.0,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            },
        },
        torch.float16,
    ),
    "attention_bias": ({"attention_bias": True}, torch.float16),
    "mlp_bias": ({"mlp_bias": True}, torch.float16),
    "mistral": (
        {
            "architectures": ["MistralForCausalLM"],
            "model_type": "mistral",
            "sliding_window": None,
            "head_dim": 6,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
        },
        torch.float16,
    ),
}


def make_model(config_json, dtype):
    folder = OUT / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_json))
    config = AutoConfig.from_pretrained(folder)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    shutil.rmtree(folder)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Wide enough that attention and gates are far from linear; norms around 1, biases that matter.
            scale = 0.3 if "bias" in name or "norm" in name else 1.5 / math.sqrt(parameter.shape[-1])
            offset = 1.0 if "norm" in name else 0.0
            if "embed" in name:
                scale = 1.0
            parameter.copy_((torch.randn(parameter.shape) * scale + offset).to(dtype).float())
    return model


def permute(rows, num_heads):
    """Rows of q and k from rotate-half to interleaved order, as every llama conversion to GGUF does."""
    head_dim = rows.shape[0] // num_heads
    return rows.reshape(num_heads, 2, head_dim // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


GGUF_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    if name == "lm_head.weight":
        return "output.weight"
    _, _, layer, rest = name.split(".", 3)
    part, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{GGUF_NAMES[part]}.{kind}"


def llama3_divisors(config_json, head_dim):
    scaling = config_json["rope_scaling"]
    divisors = []
    for i in range(0, head_dim, 2):
        wavelength = 2 * math.pi * config_json["rope_theta"] ** (i / head_dim)
        low = scaling["original_max_position_embeddings"] / scaling["low_freq_factor"]
        high = scaling["original_max_position_embeddings"] / scaling["high_freq_factor"]
        if wavelength < high:
            divisors.append(1.0)
        elif wavelength > low:
            divisors.append(scaling["factor"])
        else:
            smooth = (scaling["original_max_position_embeddings"] / wavelength - scaling["low_freq_factor"]) / (
                scaling["high_freq_factor"] - scaling["low_freq_factor"]
            )
            divisors.append(1.0 / ((1 - smooth) / scaling["factor"] + smooth))
    return np.array(divisors, dtype=np.float32)


def write_gguf(path, config_json, tensors, dtype):
    heads, kv_heads = config_json["num_attention_heads"], config_json["num_key_value_heads"]
    head_dim = config_json.get("head_dim") or config_json["hidden_size"] // heads
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config_json["num_hidden_layers"])
    writer.add_context_length(config_json["max_position_embeddings"])
    writer.add_embedding_length(config_json["hidden_size"])
    writer.add_feed_forward_length(config_json["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config_json["rope_theta"])
    writer.add_layer_norm_rms_eps(config_json["rms_norm_eps"])
    writer.add_vocab_size(config_json["vocab_size"])
    scaling = config_json.get("rope_scaling") or {}
    if scaling.get("rope_type") == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(scaling["factor"])
    if scaling.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(config_json, head_dim))
    for name, tensor in tensors.items():
        values = tensor.float().numpy()
        if "q_proj" in name:
            values = permute(values, heads)
        if "k_proj" in name:
            values = permute(values, kv_heads)
        values = np.ascontiguousarray(values)
        if values.ndim == 1 or dtype == torch.float32:
            writer.add_tensor(gguf_name(name), values)
        elif dtype == torch.float16:
            writer.add_tensor(gguf_name(name), values.astype(np.float16))
        else:
            bits = gguf.quants.quantize(values, gguf.GGMLQuantizationType.BF16)
            writer.add_tensor(gguf_name(name), bits, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    for index, (name, (changes, dtype)) in enumerate(VARIANTS.items()):
        torch.manual_seed(index + 1)
        config_json = {**BASE, **changes, "torch_dtype": str(dtype).removeprefix("torch.")}
        model = make_model(config_json, dtype)
        ids = torch.tensor([[(7 * i + 3) % config_json["vocab_size"] for i in range(NUM_IDS)]])
        with torch.no_grad():
            logits = model(ids).logits[0].float().numpy()

        folder = OUT / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(config_json, indent=2) + "\n")
        tensors = {
            key: value.to(dtype).contiguous()
            for key, value in model.state_dict().items()
            if not (config_json["tie_word_embeddings"] and key == "lm_head.weight")
        }
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        write_gguf(folder / "model.gguf", config_json, tensors, dtype)
        logits.astype("<f4").tofile(folder / "logits.f32")
        print(f"{name}: {len(tensors)} tensors, largest logit {np.abs(logits).max():.3f}")


if __name__ == "__main__":
    main()
