#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// What a file that was written holds.
struct written_file {
  std::uint64_t bytes = 0;
  std::string sha256{};  // hexadecimal
};

/// Writes tensors in Hugging Face's safetensors format: u64 header length,
/// JSON header padded with spaces to 8 bytes, then the data in the
/// order of the list, without holes. The file appears whole or not at all.
/// Throws `io`, and `invalid_checkpoint` for a header of more than 100 MB,
/// which no reader accepts.
written_file write_safetensors(
  const std::string& path, const parameter_list& tensors,
  const std::map<std::string, std::string>& metadata = {});

/// All tensors of a file, in the order of their data. Throws `io`, and
/// `invalid_checkpoint` for a file that is damaged.
parameter_list read_safetensors(const std::string& path);

/// Whether a finite number becomes infinite in another dtype.
bool overflows(const at::Tensor& value, at::ScalarType to);

/// Copies values into parameters by name. Before changing anything, throws
/// `invalid_checkpoint` naming a missing, unknown or differently shaped tensor,
/// or one with finite values that would become infinite in the model's dtype.
void load_parameters(const parameter_list& parameters,
                     const parameter_list& values, const std::string& path);

}  // namespace troupe
