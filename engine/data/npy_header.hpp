#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace troupe {

/// A NumPy .npy file's (format 1.0 to 3.0) description of its data.
struct npy_header {
  std::string descr;  // "|u1", "<u2", "<i4", "<u4" or "<i8"
  std::int64_t count = 0;
  std::size_t data_offset = 0;
};

bool is_npy(std::span<const std::byte> bytes);

/// Throws `invalid_data` unless the file has one dimension of an integer type
/// that can be a token id, and the length that its header gives.
npy_header parse_npy_header(const std::string& path,
                            std::span<const std::byte> bytes);

}  // namespace troupe
