#include "troupe/engine/data/token_headers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace {

constexpr std::string_view magic = "\x93NUMPY";

struct item_type {
  std::string_view descr;
  token_type type;
};

constexpr std::array<item_type, 6> item_types = {{{"u1", {1, false}},
                                                  {"b1", {1, false}},
                                                  {"u2", {2, false}},
                                                  {"i4", {4, true}},
                                                  {"u4", {4, false}},
                                                  {"i8", {8, true}}}};

[[noreturn]] void bad(const std::string& path, const std::string& what) {
  fail(error_code::invalid_data, "{}: {}", path, what);
}

token_type type_of(const std::string& path, std::string_view descr) {
  for (const auto& [name, type] : item_types)
    if (descr.ends_with(name) && descr.size() == name.size() + 1
        && descr.find_first_of(type.width == 1 ? "|<>" : "<>") == 0)
      return {type.width, type.is_signed, descr.starts_with('>')};
  bad(path, fmt::format("has items of type '{}'; token files hold u1, u2, "
                        "i4, u4 or i8, and masks b1, too",
                        printable(descr)));
}

struct header_text {
  std::string_view text;
  std::size_t data_offset = 0;
};

header_text read_header_text(const std::string& path,
                             std::span<const std::byte> bytes) {
  const auto version = static_cast<unsigned>(bytes[6]);
  const auto minor = static_cast<unsigned>(bytes[7]);
  if (version < 1 || version > 3 || minor != 0)
    bad(path,
        fmt::format(
          "is a .npy file of version {}.{}; troupe reads 1.0, 2.0 and 3.0",
          version, minor));
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const auto begin = magic.size() + 2 + length_bytes;
  std::uint32_t length = 0;
  if (bytes.size() < begin)
    bad(path, "is cut off within its .npy header");
  std::memcpy(&length, bytes.data() + magic.size() + 2, length_bytes);
  if (bytes.size() - begin < length)
    bad(path, "is cut off within its .npy header");
  return {{reinterpret_cast<const char*>(bytes.data()) + begin, length},
          begin + length};
}

/// The text between `open` and `close` after a key, if any. Written by hand, as
/// std::regex recurses for each byte and would crash on a long line.
std::optional<std::string_view> value_of(std::string_view header,
                                         std::string_view key, char open,
                                         char close) {
  const auto found = header.find(key);
  if (found == std::string_view::npos)
    return {};
  auto rest = header.substr(found + key.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const auto end = rest.find(close, 1);
  if (!rest.starts_with(open) || end == std::string_view::npos)
    return {};
  return rest.substr(1, end - 1);
}

/// Sizes of a shape such as `3,` or `3, 4`.
std::optional<std::vector<std::int64_t>> sizes_of(std::string_view shape) {
  std::vector<std::int64_t> sizes;
  while (!shape.empty()) {
    const auto end = std::min(shape.find(','), shape.size());
    const auto size = parse_number<std::int64_t>(shape.substr(0, end));
    if (!size || *size < 0)
      return {};
    sizes.push_back(*size);
    shape.remove_prefix(std::min(end + 1, shape.size()));
    shape.remove_prefix(std::min(shape.find_first_not_of(' '), shape.size()));
  }
  return sizes;
}

std::int64_t items_of(const std::string& path, std::string_view header) {
  constexpr std::int64_t most = 1'000'000'000'000'000;
  const auto shape = value_of(header, "'shape':", '(', ')');
  const auto sizes = shape ? sizes_of(*shape) : std::nullopt;
  if (!sizes || sizes->empty())
    bad(path, "has a .npy header without a shape of one dimension or more");
  std::int64_t items = 1;
  for (const auto size : *sizes) {
    if (size > most || items * size > most)
      bad(path, "announces more than 10^15 items");
    items *= size;
  }
  if (sizes->size() > 1
      && header.find("'fortran_order': True") != std::string_view::npos)
    bad(path,
        "is in Fortran's order, so that a row's tokens are not side by side; "
        "save numpy.ascontiguousarray of it");
  return items;
}

}  // namespace

bool is_npy(std::span<const std::byte> bytes) {
  return bytes.size() > magic.size() + 2
         && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

npy_header parse_npy_header(const std::string& path,
                            std::span<const std::byte> bytes) {
  if (!is_npy(bytes))
    bad(path, "is not a .npy file");
  const auto header = read_header_text(path, bytes);
  const auto descr = value_of(header.text, "'descr':", '\'', '\'');
  if (!descr)
    bad(path, "has a .npy header without a plain item type");
  npy_header parsed{type_of(path, *descr), items_of(path, header.text),
                    header.data_offset};
  const auto need = static_cast<std::size_t>(parsed.count)
                    * static_cast<std::size_t>(parsed.type.width);
  if (bytes.size() - parsed.data_offset != need)
    bad(path, fmt::format("announces {} bytes of data, but has {}", need,
                          bytes.size() - parsed.data_offset));
  return parsed;
}

namespace {

constexpr std::string_view index_magic{"MMIDIDX\0\0", 9};
constexpr std::size_t header_bytes = index_magic.size() + 8 + 1 + 8 + 8;

template <class Number>
Number number_at(std::span<const std::byte> bytes, std::size_t offset) {
  Number value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

token_type megatron_type(int code, const std::string& path) {
  struct element_code {
    int code;
    token_type type;
  };
  constexpr element_code types[]{{1, {1, false}}, {2, {1, true}},
                                 {3, {2, true}},  {4, {4, true}},
                                 {5, {8, true}},  {8, {2, false}}};
  const auto* const found = std::ranges::find(types, code, &element_code::code);
  if (found == std::end(types))
    bad(path, fmt::format("its tokens have type {}, which is not an integer "
                          "type (1, 2, 3, 4, 5 or 8)",
                          code));
  return found->type;
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
    bad(path, "is not an index of Megatron-LM (magic MMIDIDX)");
  auto at = index_magic.size();
  if (const auto version = number_at<std::uint64_t>(bytes, at); version != 1)
    bad(path, fmt::format("is an index of version {}; troupe reads version 1",
                          version));
  megatron_index index;
  index.type = megatron_type(number_at<std::uint8_t>(bytes, at + 8), path);
  const auto sequences = number_at<std::uint64_t>(bytes, at + 9);
  const auto documents = number_at<std::uint64_t>(bytes, at + 17);
  const auto rest = bytes.size() - header_bytes;
  constexpr std::size_t bytes_of_sequence = 4 + 8, bytes_of_document = 8;
  if (sequences > rest / bytes_of_sequence
      || documents > (rest - sequences * bytes_of_sequence) / bytes_of_document)
    bad(path, fmt::format("announces {} sequences and {} documents; the "
                          "file has {} bytes",
                          sequences, documents, bytes.size()));
  const auto lengths = header_bytes, offsets = lengths + 4 * sequences;
  for (std::size_t i = 0; i < sequences; ++i) {
    const auto length = number_at<std::int32_t>(bytes, lengths + 4 * i);
    const auto offset = number_at<std::int64_t>(bytes, offsets + 8 * i);
    constexpr auto most = INT64_MAX / 8 - INT32_MAX;
    if (length < 0 || index.tokens > most)
      bad(path, fmt::format("sequence {} has {} tokens, after {}", i, length,
                            index.tokens));
    if (offset != index.tokens * index.type.width)
      bad(path, fmt::format("sequence {} begins at byte {}, not at {}, where "
                            "the one before ends",
                            i, offset, index.tokens * index.type.width));
    index.tokens += length;
  }
  return index;
}

}  // namespace troupe
