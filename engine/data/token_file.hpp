#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A file's encoding of tokens.
enum class token_format : std::uint8_t {
  bytes,     // any file; one byte per token, vocabulary 256
  llm_c,     // llm.c .bin: 256 x i32 header, then u16 (GPT-2) or u32 (Llama 3)
  nano_gpt,  // nanoGPT .bin: raw u16, little endian
  npy,       // NumPy .npy, u1, u2, i4, u4, i8; rows follow each other
  megatron,  // Megatron-LM .bin with its .idx beside it; either path
};

/// A sequence of token ids on disk, read by position. Safe to read from
/// several threads.
class token_source {
 public:
  /// Copies tokens [first, first + count) into `out`. Throws `io` if the file
  /// was deleted.
  using reader = std::function<void(std::int64_t first, std::int64_t count,
                                    std::int64_t* out)>;

  token_source(std::string name, std::int64_t size, reader read,
               bool masked = false)
    : read(std::move(read)),
      name_(std::move(name)),
      size_(size),
      masked_(masked) {}

  const std::string& name() const { return name_; }
  std::int64_t size() const { return size_; }
  /// Whether some tokens may not be predicted (is_unpredicted).
  bool masked() const { return masked_; }
  const reader read;

 private:
  std::string name_;
  std::int64_t size_;
  bool masked_;
};
using token_pointer = std::shared_ptr<const token_source>;

/// llm_c and npy by magic number, megatron where the index is beside a .bin,
/// nano_gpt for another .bin, bytes for the rest. Throws `io`, and
/// `invalid_data` with what to do for files that hold no plain text: compressed
/// ones, tables, lines of JSON, and those with bytes of 0.
token_format guess_token_format(const std::string& path);

/// Without a format, that of `guess_token_format`. Throws `io` (missing, empty)
/// or `invalid_data` (the header is wrong).
token_pointer open_tokens(const std::string& path,
                          std::optional<token_format> format = {});

/// As `open_tokens`, of numbers that need not be text. Throws likewise.
token_pointer open_mask(const std::string& path);

/// Sizes and hashes (`content_text`) of all files that hold the tokens: both of
/// Megatron's. Throws `io`.
std::string content_of_tokens(const std::string& path,
                              std::optional<token_format> format = {});

constexpr std::int64_t unpredicted_tokens = -(std::int64_t{1} << 62);
/// A source gives a token that is not to be predicted, as a prompt's in
/// supervised fine-tuning, as `unpredicted_tokens` plus its id.
constexpr bool is_unpredicted(std::int64_t token) {
  return token < unpredicted_tokens / 2;
}
/// The id of a token, in either form.
constexpr std::int64_t token_of(std::int64_t token) {
  return is_unpredicted(token) ? token - unpredicted_tokens : token;
}
/// Tokens that are to be predicted where `mask` is 1, and not where it
/// is 0. Throws `invalid_data` if it has another length, other values, or is
/// 0 throughout.
token_pointer with_mask(token_pointer tokens, token_pointer mask);

/// Several files, one after the other.
token_pointer join_tokens(std::vector<token_pointer> parts);

/// Tokens [first, first + count) of another source (held-out text).
token_pointer part_of(token_pointer whole, std::int64_t first,
                      std::int64_t count);

}  // namespace troupe
