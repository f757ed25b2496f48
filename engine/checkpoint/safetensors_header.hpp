#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// One tensor as a file's header describes it.
struct safetensors_entry {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape{};
  std::uint64_t begin = 0, end = 0;  // within the data
};

/// As safetensors calls a dtype. Throws `invalid_checkpoint` where it has no
/// name for it.
std::string safetensors_dtype(const std::string& path, at::ScalarType type);

/// The tensors in the order of their data, which they cover without holes.
/// Throws `invalid_checkpoint`, naming the file, the tensor, and what is wrong.
/// Memory is in proportion to the tensors.
std::vector<safetensors_entry> parse_safetensors_header(
  const std::string& path, std::string_view text, std::uint64_t data_bytes);

}  // namespace troupe
