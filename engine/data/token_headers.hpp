#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace troupe {

/// An integer that is a token's id.
struct token_type {
  std::int32_t width = 1;  // bytes: 1, 2, 4 or 8
  bool is_signed = false;
  bool is_big_endian = false;
};

/// A NumPy .npy file's (format 1.0 to 3.0) description of its data.
struct npy_header {
  token_type type{};
  std::int64_t count = 0;
  std::size_t data_offset = 0;
};

bool is_npy(std::span<const std::byte> bytes);

/// Rows of more dimensions follow each other. Throws `invalid_data` unless the
/// items have an integer type that can be a token id, the order is C's, and the
/// length is that which the header gives.
npy_header parse_npy_header(const std::string& path,
                            std::span<const std::byte> bytes);

/// How the tokens of a Megatron-LM .bin file lie, as the .idx file beside it
/// says.
struct megatron_index {
  std::int64_t tokens = 0;
  token_type type{};
};

/// "corpus.idx" for "corpus.bin" or "corpus.idx".
std::string megatron_index_path(const std::string& path);

/// Whether bytes begin as such an index.
bool is_megatron_index(std::span<const std::byte> bytes);

/// Reads magic, version, type, and the lengths and offsets of all sequences,
/// which must follow each other without holes, as Megatron-LM writes them.
/// Throws `invalid_data` naming the file, what is wrong, and where. Allocates
/// nothing.
megatron_index parse_megatron_index(const std::string& path,
                                    std::span<const std::byte> bytes);

}  // namespace troupe
