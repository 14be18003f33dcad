// What all kernels promise about bits, and the instruction set that runs.
//
// The law: a row's result depends on that row alone: not on other rows, their number, threads, chunks, cache
// placement, nor on the instruction set. Each op fixes one order of its floating-point reductions that every
// vector width reproduces: sums over k run in 16 virtual lanes (element k goes to lane k % 16) that are
// added by one tree, or strictly in sequence where the op says so; multiply and add round separately (no
// fused multiply-add); exp is our own polynomial; integer dots are exact. Tests compare all instruction sets
// of the machine bit for bit.
#pragma once

#include <cstddef>
#include <string_view>

namespace paceline::kernels {

// Virtual lanes of a floating-point reduction over k.
inline constexpr size_t kReduceLanes = 16;

// Name of the class of bits that this build computes; equal names promise equal logits. The handshake
// compares it. Raised when an op changes its order.
inline constexpr std::string_view kNumericsClass = "cpu-lanes16-v1";

// The instruction set that the kernels use on this machine, for logs and benchmarks: "AVX3", "AVX2", "SSE4".
std::string_view InstructionSetName();

}  // namespace paceline::kernels
