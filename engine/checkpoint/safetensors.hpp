#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "troupe/engine/checkpoint/safetensors_header.hpp"
#include "troupe/engine/data/mapped_file.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// What a file that was written holds.
struct written_file {
  std::uint64_t bytes = 0;
  std::string sha256{};  // hexadecimal
};

/// Writes tensors in Hugging Face's safetensors format: u64 header length,
/// JSON header padded with spaces to 8 bytes, then the data in the given
/// order, without holes. The file appears whole or not at all. Throws `io`, and
/// `invalid_checkpoint` for a header of more than 100 MB, which no reader
/// accepts.
written_file write_safetensors(
  const std::string& path, const parameter_list& tensors,
  const std::map<std::string, std::string>& metadata = {});

/// A file whose tensors are read one by one. Several threads may read it.
class safetensors_file {
 public:
  /// Checks the header before anything is allocated: its length, JSON form,
  /// dtypes, shapes, offsets (no holes, no overlap, no overflow) and the file's
  /// exact size. Throws `io` or `invalid_checkpoint`.
  explicit safetensors_file(const std::string& path);

  /// In the order of their data.
  const std::vector<safetensors_entry>& entries() const {
    return header_.entries;
  }
  const std::map<std::string, std::string>& metadata() const {
    return header_.metadata;
  }
  /// A copy of the tensor of one of the entries. Throws `io` if the file was
  /// shortened meanwhile.
  at::Tensor read(const safetensors_entry& entry) const;
  /// Of the whole file. Throws as `read`.
  std::string digest() const;

 private:
  mapped_file file_;
  std::size_t data_begin_ = 0;
  safetensors_header header_;
};

/// All tensors of a file. Throws as `safetensors_file`.
parameter_list read_safetensors(const std::string& path);

/// Whether a finite number becomes infinite in another dtype.
bool overflows(const at::Tensor& value, at::ScalarType to);

/// Copies values into parameters by name. Before changing anything, throws
/// `invalid_checkpoint` naming a missing, unknown or differently shaped tensor,
/// or one with finite values that would become infinite in the model's dtype.
void load_parameters(const parameter_list& parameters,
                     const parameter_list& values, const std::string& path);

}  // namespace troupe
