#pragma once

#include <map>
#include <string>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// Writes tensors in Hugging Face's safetensors format: u64 header length,
/// JSON header padded with spaces to 8 bytes, then the data in the given
/// order, without holes. The file appears whole or not at all. Throws `io`.
void write_safetensors(const std::string& path, const parameter_list& tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// Reads all tensors. The header is checked before anything is allocated:
/// its length, JSON form, dtypes, shapes, offsets (no holes, no overlap, no
/// overflow) and the file's exact size. Throws `io` or `invalid_checkpoint`.
parameter_list read_safetensors(const std::string& path);

/// Copies values into parameters by name. Before changing anything, throws
/// `invalid_checkpoint` naming a missing, unknown or differently shaped tensor.
void load_parameters(const parameter_list& parameters,
                     const parameter_list& values, const std::string& path);

}  // namespace troupe
