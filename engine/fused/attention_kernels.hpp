#pragma once

#include <cstdint>
#include <vector>

#include "troupe/engine/device/vector_code.hpp"

namespace troupe::fused {

/// Row i of head h begins at `data + h * head + i * row`; its elements are
/// adjacent. T: (const) float or bf16_bits.
template <class T>
struct head_rows {
  T* data;
  std::int64_t row, head;
};

/// Of some query heads, the group, that share a key and value head.
struct attention_sizes {
  std::int64_t group, queries, keys, width;  // width: of a head
  float scale;
  bool causal;  // query i sees the keys up to i + keys - queries
};

template <class T>
struct forward_heads {
  head_rows<const T> query, key, value;
  head_rows<T> output;
  /// [group, queries]: of each sum of exponentials of scores.
  float* logarithms;
};

template <class T>
struct backward_heads {
  head_rows<const T> query, key, value, output, of_output;
  head_rows<T> of_query, of_key, of_value;
  const float* logarithms;
};

template <class T>
struct attention_functions {
  void (*forward)(const attention_sizes&, const forward_heads<T>&,
                  float* scratch);
  void (*backward)(const attention_sizes&, const backward_heads<T>&,
                   float* scratch);
};

/// Attention by one instruction set, in fp32 whatever the type of tensors;
/// `scratch` is of as many floats as `scratch_of` says.
struct attention_kernels {
  const char* name;
  std::int64_t (*scratch_of)(const attention_sizes&);
  attention_functions<float> fp32;
  attention_functions<bf16_bits> bf16;
};

extern const attention_kernels plain_attention;

/// Those that this machine can run, the best last.
std::vector<const attention_kernels*> usable_attention();

/// What `attention` uses in this process from now on; null: LibTorch's
/// operator. For tests and benchmarks: by default it is the best, or LibTorch's
/// where that is the plain one.
void use_attention(const attention_kernels* kernels);

}  // namespace troupe::fused
