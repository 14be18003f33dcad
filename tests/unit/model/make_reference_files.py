#!/usr/bin/env python3
"""Writes data/reference.gguf and data/reference.safetensors with the public writers (PyPI: gguf, safetensors, numpy).

The GGUF file holds two rows of random blocks for every weight type; the safetensors file holds what gguf-py decodes
them to, in float32, under the same names. Run it again only to add a type: python3 make_reference_files.py
"""

import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from safetensors.numpy import save_file

TYPES = [T.F32, T.F16, T.BF16, T.Q8_0, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K,
         T.IQ4_NL, T.IQ4_XS, T.MXFP4]
# Byte offsets of the f16 fields of a block; random bits there would be inf and NaN.
HALF_FIELDS = {T.Q8_0: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q2_K: [80, 82], T.Q3_K: [108],
               T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0]}
ROWS = 2
BLOCKS_PER_ROW = 2


def random_blocks(rng, kind):
    block_elements, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    if block_elements == 1:
        values = rng.standard_normal((ROWS, 8)).astype(np.float32)
        return values if kind == T.F32 else gguf.quants.quantize(values, kind)
    blocks = rng.integers(0, 256, (ROWS, BLOCKS_PER_ROW, block_bytes), dtype=np.uint8)
    for field in HALF_FIELDS.get(kind, []):
        halves = (rng.standard_normal((ROWS, BLOCKS_PER_ROW, 1)) * 0.1).astype(np.float16)
        blocks[:, :, field:field + 2] = halves.view(np.uint8)
    if kind == T.MXFP4:
        blocks[:, :, 0] = rng.integers(120, 134, (ROWS, BLOCKS_PER_ROW))
    return blocks.reshape(ROWS, BLOCKS_PER_ROW * block_bytes)


def main():
    folder = pathlib.Path(__file__).parent / "data"
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(7)
    writer = gguf.GGUFWriter(folder / "reference.gguf", "llama")
    writer.add_uint64("test.u64", 2**40)
    writer.add_int8("test.i8", -5)
    writer.add_float64("test.f64", 0.1)
    writer.add_bool("test.bool", True)
    writer.add_string("test.text", "naïve ▁ text")
    writer.add_array("test.words", ["", "Ġhe", "llo"])
    writer.add_array("test.numbers", [1, -2, 3])
    writer.add_array("test.floats", [0.5, -1.25])
    decoded = {}
    for kind in TYPES:
        raw = random_blocks(rng, kind)
        if kind in (T.F32, T.F16):
            writer.add_tensor(kind.name, raw)
            decoded[kind.name] = raw.astype(np.float32)
        else:
            writer.add_tensor(kind.name, raw, raw_dtype=kind)
            decoded[kind.name] = gguf.quants.dequantize(raw, kind).astype(np.float32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(decoded, folder / "reference.safetensors", metadata={"format": "np"})


main()
