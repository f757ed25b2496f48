#include "troupe/engine/data/token_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/data/mapped_file.hpp"
#include "troupe/engine/data/token_headers.hpp"

namespace troupe {

namespace {

/// llm.c's files of one kind of tokens.
struct llm_c_kind {
  std::int32_t magic, version;
  token_type type;
};
constexpr std::array llm_c_kinds{llm_c_kind{20240520, 1, {2, false}},
                                 llm_c_kind{20240801, 7, {4, false}}};
constexpr std::size_t llm_c_header_bytes = 256 * sizeof(std::int32_t);

std::int32_t int_at(std::span<const std::byte> bytes, std::size_t index) {
  std::int32_t value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof(value), sizeof(value));
  return value;
}

[[noreturn]] void bad_format(const std::string& path, const std::string& what) {
  fail(error_code::invalid_data, "{}: {}", path, what);
}

/// Tokens of a fixed width after a header, in a mapped file.
template <class Token>
token_pointer tokens_after(mapped_file file, std::size_t header,
                           std::int64_t count, bool is_big_endian = false) {
  const auto name = file.path();
  const auto from = std::make_shared<const mapped_file>(std::move(file));
  return std::make_shared<token_source>(
    name, count, [=](auto first, auto many, auto* out) {
      from->require_unchanged();
      const auto* start = from->bytes().data() + header
                          + static_cast<std::size_t>(first) * sizeof(Token);
      for (std::int64_t i = 0; i < many; ++i, start += sizeof(Token)) {
        std::array<std::byte, sizeof(Token)> token{};
        std::memcpy(token.data(), start, sizeof(Token));
        if (is_big_endian)
          std::ranges::reverse(token);
        out[i] = static_cast<std::int64_t>(std::bit_cast<Token>(token));
      }
    });
}

token_pointer tokens_after(mapped_file file, std::size_t header,
                           std::int64_t count, token_type type) {
  const auto as = [&]<class Signed, class Unsigned>(Signed, Unsigned) {
    const auto big = type.is_big_endian;
    return type.is_signed
             ? tokens_after<Signed>(std::move(file), header, count, big)
             : tokens_after<Unsigned>(std::move(file), header, count, big);
  };
  switch (type.width) {
    case 1:
      return as(std::int8_t{}, std::uint8_t{});
    case 2:
      return as(std::int16_t{}, std::uint16_t{});
    case 4:
      return as(std::int32_t{}, std::uint32_t{});
    default:
      return tokens_after<std::int64_t>(std::move(file), header, count,
                                        type.is_big_endian);
  }
}

/// Null: it is no file of llm.c's.
const llm_c_kind* llm_c_kind_of(std::span<const std::byte> bytes) {
  const auto* const found =
    bytes.size() < llm_c_header_bytes
      ? llm_c_kinds.end()
      : std::ranges::find(llm_c_kinds, int_at(bytes, 0), &llm_c_kind::magic);
  return found == llm_c_kinds.end() ? nullptr : found;
}

token_pointer open_llm_c(mapped_file file) {
  const auto bytes = file.bytes();
  const auto* kind = llm_c_kind_of(bytes);
  if (kind == nullptr)
    bad_format(file.path(),
               "is not an llm.c token file (256 x int32 header "
               "with magic 20240520 or 20240801)");
  if (int_at(bytes, 1) != kind->version)
    bad_format(file.path(),
               fmt::format("is an llm.c token file of version {}; troupe reads "
                           "version {}",
                           int_at(bytes, 1), kind->version));
  const std::int64_t count = int_at(bytes, 2);
  const auto need = llm_c_header_bytes
                    + static_cast<std::size_t>(std::max<std::int64_t>(count, 0))
                        * static_cast<std::size_t>(kind->type.width);
  if (count < 0 || bytes.size() != need)
    bad_format(file.path(),
               fmt::format("its header announces {} tokens ({} bytes), the "
                           "file has {} bytes",
                           count, need, bytes.size()));
  return tokens_after(std::move(file), llm_c_header_bytes, count, kind->type);
}

token_pointer open_nano_gpt(mapped_file file) {
  const auto size = file.bytes().size();
  if (size % sizeof(std::uint16_t) != 0)
    bad_format(file.path(), fmt::format("has {} bytes, an odd number; a "
                                        "nanoGPT file holds uint16 tokens",
                                        size));
  return tokens_after<std::uint16_t>(
    std::move(file), 0,
    static_cast<std::int64_t>(size / sizeof(std::uint16_t)));
}

token_pointer open_npy(mapped_file file) {
  const auto header = parse_npy_header(file.path(), file.bytes());
  return tokens_after(std::move(file), header.data_offset, header.count,
                      header.type);
}

/// The file of tokens beside an index.
std::string megatron_tokens_path(const std::string& index_path) {
  constexpr std::size_t suffix = 4;
  return index_path.substr(0, index_path.size() - suffix) + ".bin";
}

token_pointer open_megatron(const std::string& path) {
  const auto index_path = megatron_index_path(path);
  const mapped_file index_file(index_path);
  const auto index = parse_megatron_index(index_path, index_file.bytes());
  mapped_file file(megatron_tokens_path(index_path));
  const auto need = static_cast<std::uint64_t>(index.tokens)
                    * static_cast<std::uint64_t>(index.type.width);
  if (file.bytes().size() != need)
    bad_format(file.path(),
               fmt::format("has {} bytes; {} announces {} tokens of {} bytes",
                           file.bytes().size(), index_path, index.tokens,
                           index.type.width));
  return tokens_after(std::move(file), 0, index.tokens, index.type);
}

bool has_megatron_index(const std::string& path) {
  const auto index = megatron_index_path(path);
  std::error_code trouble;
  return index.ends_with(".idx")
         && std::filesystem::is_regular_file(index, trouble)
         && is_megatron_index(mapped_file(index).bytes());
}

/// Bytes in which a file that is no text shows it.
constexpr std::size_t looked_at = 1 << 16;

/// What a file is that is not to be read as text; empty: nothing is known.
std::string unreadable_kind(const std::string& path,
                            std::span<const std::byte> bytes) {
  using namespace std::string_view_literals;
  const std::string_view begin(reinterpret_cast<const char*>(bytes.data()),
                               std::min(bytes.size(), looked_at));
  for (const auto& [magic, kind] :
       {std::pair("\x1f\x8b"sv, "is compressed (gzip)"),
        {"\x28\xb5\x2f\xfd"sv, "is compressed (Zstandard)"},
        {"PAR1"sv, "is a table (Parquet)"},
        {"PK\x03\x04"sv, "is an archive (zip, or NumPy's .npz)"}})
    if (begin.starts_with(magic))
      return kind;
  if (path.ends_with(".jsonl"))
    return "holds lines of JSON";
  return begin.find('\0') == begin.npos ? "" : "has bytes of 0, as no text has";
}

void require_text(const std::string& path, std::span<const std::byte> bytes) {
  if (const auto kind = unreadable_kind(path, bytes); !kind.empty())
    bad_format(path, kind
                       + "; `scripts/tokenize --tokenizer MODEL --out "
                         "tokens.npy FILE` makes tokens of .txt, .jsonl, .gz, "
                         ".zst and .parquet (of a .npz, save one array as "
                         ".npy); --text-format bytes trains on its bytes");
}

token_format format_of(const std::string& path,
                       std::span<const std::byte> bytes) {
  if (is_npy(bytes))
    return token_format::npy;
  if (llm_c_kind_of(bytes) != nullptr)
    return token_format::llm_c;
  if (has_megatron_index(path))
    return token_format::megatron;
  return path.ends_with(".bin") ? token_format::nano_gpt : token_format::bytes;
}

}  // namespace

token_format guess_token_format(const std::string& path) {
  const mapped_file file(path);
  const auto format = format_of(path, file.bytes());
  if (format == token_format::bytes)
    require_text(path, file.bytes());
  return format;
}

token_pointer open_mask(const std::string& path) {
  return open_tokens(path, format_of(path, mapped_file(path).bytes()));
}

token_pointer open_tokens(const std::string& path,
                          std::optional<token_format> stated_format) {
  const auto format = stated_format ? *stated_format : guess_token_format(path);
  if (format == token_format::megatron)
    return open_megatron(path);
  mapped_file file(path);
  if (file.bytes().empty())
    fail(error_code::io, "{}: is empty; give a text to train on", path);
  switch (format) {
    case token_format::llm_c:
      return open_llm_c(std::move(file));
    case token_format::nano_gpt:
      return open_nano_gpt(std::move(file));
    case token_format::npy:
      return open_npy(std::move(file));
    case token_format::megatron:
    case token_format::bytes:
      break;
  }
  const auto size = static_cast<std::int64_t>(file.bytes().size());
  return tokens_after<std::uint8_t>(std::move(file), 0, size);
}

std::string content_of_tokens(const std::string& path,
                              std::optional<token_format> stated_format) {
  const auto format =
    stated_format ? *stated_format : format_of(path, mapped_file(path).bytes());
  const auto index_path = megatron_index_path(path);
  if (format != token_format::megatron || !index_path.ends_with(".idx"))
    return content_text(path);
  const auto index = content_text(index_path);
  return fmt::format("{}, indexed by {}",
                     content_text(megatron_tokens_path(index_path)), index);
}

namespace {

/// Reads a mask as a whole; whether it has a 1.
bool has_ones(const token_source& mask) {
  bool found = false;
  std::vector<std::int64_t> part(1 << 16);
  for (std::int64_t first = 0; first < mask.size();) {
    const auto count =
      std::min(mask.size() - first, static_cast<std::int64_t>(part.size()));
    mask.read(first, count, part.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = part[static_cast<std::size_t>(i)];
      if (value != 0 && value != 1)
        fail(error_code::invalid_data, "{}: value {} is {}, neither 0 nor 1",
             mask.name(), first + i, value);
      found = found || value == 1;
    }
    first += count;
  }
  return found;
}

}  // namespace

token_pointer with_mask(token_pointer tokens, token_pointer mask) {
  const auto size = tokens->size();
  const auto name = tokens->name();
  if (mask->size() != size)
    fail(error_code::invalid_data, "{}: has {} values, for the {} tokens of {}",
         mask->name(), mask->size(), size, name);
  if (!has_ones(*mask))
    fail(error_code::invalid_data,
         "{}: is 0 throughout, so that no token of {} would be predicted",
         mask->name(), name);
  return std::make_shared<token_source>(
    name, size,
    [=](auto first, auto count, auto* out) {
      std::vector<std::int64_t> counts(static_cast<std::size_t>(count));
      tokens->read(first, count, out);
      mask->read(first, count, counts.data());
      for (std::size_t i = 0; i < counts.size(); ++i) {
        if (counts[i] == 0)
          out[i] += unpredicted_tokens;
      }
    },
    true);
}

token_pointer join_tokens(std::vector<token_pointer> parts) {
  if (parts.empty())
    throw error(error_code::invalid_argument, "no token files were given");
  if (parts.size() == 1)
    return parts.front();
  std::int64_t size = 0;
  for (const auto& part : parts)
    size += part->size();
  const auto name =
    fmt::format("{} and {} more", parts.front()->name(), parts.size() - 1);
  const bool masked =
    std::ranges::any_of(parts, [](const auto& part) { return part->masked(); });
  return std::make_shared<token_source>(
    name, size,
    [=](auto first, auto count, auto* out) {
      for (const auto& part : parts) {
        const auto take =
          std::clamp<std::int64_t>(part->size() - first, 0, count);
        if (take > 0) {
          part->read(first, take, out);
          out += take;
          count -= take;
        }
        first = std::max<std::int64_t>(first - part->size(), 0);
      }
    },
    masked);
}

token_pointer part_of(token_pointer whole, std::int64_t first,
                      std::int64_t count) {
  return std::make_shared<token_source>(
    whole->name(), count,
    [=](auto from, auto many, auto* out) {
      whole->read(first + from, many, out);
    },
    whole->masked());
}

}  // namespace troupe
