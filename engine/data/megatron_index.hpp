#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace troupe {

/// How the tokens of a Megatron-LM .bin file lie, as the .idx file beside it
/// says. Their width in bytes and whether they are signed give the type.
struct megatron_index {
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
  std::int32_t width = 0;  // 1, 2, 4 or 8
  bool is_signed = false;
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
