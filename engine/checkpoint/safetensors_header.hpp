#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/accumulate.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// In bytes; the limit of Hugging Face's readers.
inline constexpr std::uint64_t largest_safetensors_header = 100'000'000;

/// A file's header entry for one tensor.
struct safetensors_entry {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape{};
  std::uint64_t begin = 0, end = 0;  // within the data

  std::int64_t elements() const { return c10::multiply_integers(shape); }
};

/// Throws `invalid_checkpoint`.
[[noreturn]] void refuse_checkpoint(const std::string& path,
                                    const std::string& what);

/// safetensors' name for a dtype. Throws `invalid_checkpoint` if it has none.
std::string safetensors_dtype(const std::string& path, at::ScalarType type);

/// Whether a model may take its values from such tensors. Others can only be
/// passed on: the 8-bit floats of quantised models, whose scales are in other
/// tensors, and unsigned numbers of 16 bits and more, which LibTorch can't
/// compute with.
bool is_loadable(at::ScalarType type);

/// A file's header: the tensors in the order of their data, and texts by name.
struct safetensors_header {
  std::vector<safetensors_entry> entries;
  std::map<std::string, std::string> metadata;
};

/// The tensors cover the data without holes. Throws `invalid_checkpoint`,
/// naming the file, the tensor, and the problem. Memory is proportional to the
/// number of tensors, and to the metadata.
safetensors_header parse_safetensors_header(const std::string& path,
                                            std::string_view text,
                                            std::uint64_t data_bytes);

}  // namespace troupe
