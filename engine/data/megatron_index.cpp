#include "troupe/engine/data/megatron_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "troupe/base/error.hpp"

namespace troupe {

namespace {

constexpr std::string_view index_magic{"MMIDIDX\0\0", 9};
constexpr std::size_t header_bytes = index_magic.size() + 8 + 1 + 8 + 8;

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  fail(error_code::invalid_data, "{}: {}", path, what);
}

template <class Number>
Number number_at(std::span<const std::byte> bytes, std::size_t offset) {
  Number value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

void set_type(megatron_index& index, int code, const std::string& path) {
  struct token_type {
    int code;
    std::int32_t width;
    bool is_signed;
  };
  constexpr token_type types[]{{1, 1, false}, {2, 1, true}, {3, 2, true},
                               {4, 4, true},  {5, 8, true}, {8, 2, false}};
  const auto* const found = std::ranges::find(types, code, &token_type::code);
  if (found == std::end(types))
    refuse(path, fmt::format("its tokens have type {}, which is not an integer "
                             "type (1, 2, 3, 4, 5 or 8)",
                             code));
  index.width = found->width;
  index.is_signed = found->is_signed;
}

}  // namespace

std::string megatron_index_path(const std::string& path) {
  constexpr std::string_view suffix = ".bin";
  return path.ends_with(suffix)
           ? path.substr(0, path.size() - suffix.size()) + ".idx"
           : path;
}

bool is_megatron_index(std::span<const std::byte> bytes) {
  return bytes.size() >= index_magic.size()
         && std::memcmp(bytes.data(), index_magic.data(), index_magic.size())
              == 0;
}

megatron_index parse_megatron_index(const std::string& path,
                                    std::span<const std::byte> bytes) {
  if (!is_megatron_index(bytes) || bytes.size() < header_bytes)
    refuse(path, "is not an index of Megatron-LM (magic MMIDIDX)");
  auto at = index_magic.size();
  if (const auto version = number_at<std::uint64_t>(bytes, at); version != 1)
    refuse(path,
           fmt::format("is an index of version {}; troupe reads version 1",
                       version));
  megatron_index index;
  set_type(index, number_at<std::uint8_t>(bytes, at + 8), path);
  const auto sequences = number_at<std::uint64_t>(bytes, at + 9);
  const auto documents = number_at<std::uint64_t>(bytes, at + 17);
  const auto rest = bytes.size() - header_bytes;
  constexpr std::size_t bytes_of_sequence = 4 + 8, bytes_of_document = 8;
  if (sequences > rest / bytes_of_sequence
      || documents > (rest - sequences * bytes_of_sequence) / bytes_of_document)
    refuse(path, fmt::format("announces {} sequences and {} documents; the "
                             "file has {} bytes",
                             sequences, documents, bytes.size()));
  index.sequences = static_cast<std::int64_t>(sequences);
  const auto lengths = header_bytes, offsets = lengths + 4 * sequences;
  for (std::size_t i = 0; i < sequences; ++i) {
    const auto length = number_at<std::int32_t>(bytes, lengths + 4 * i);
    const auto offset = number_at<std::int64_t>(bytes, offsets + 8 * i);
    constexpr auto most = INT64_MAX / 8 - INT32_MAX;
    if (length < 0 || index.tokens > most)
      refuse(path, fmt::format("sequence {} has {} tokens, after {}", i, length,
                               index.tokens));
    if (offset != index.tokens * index.width)
      refuse(path,
             fmt::format("sequence {} begins at byte {}, not at {}, where "
                         "the one before ends",
                         i, offset, index.tokens * index.width));
    index.tokens += length;
  }
  return index;
}

}  // namespace troupe
