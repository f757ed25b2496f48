#include "troupe/engine/models/sample.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <utility>

#include "troupe/engine/data/permutation.hpp"

namespace troupe {

namespace {

/// The latest ids, up to the model's context length.
at::Tensor context_of(const std::vector<std::int64_t>& ids,
                      std::int64_t longest) {
  const auto count = std::min<std::int64_t>(longest, std::ssize(ids));
  auto made = at::empty({1, count}, at::kLong);
  std::copy(ids.end() - count, ids.end(),
            made.mutable_data_ptr<std::int64_t>());
  return made;
}

/// The first id whose cumulative probability exceeds `level` in [0, 1).
std::int64_t draw(const at::Tensor& probabilities, double level) {
  const auto row = probabilities.to(at::kDouble).contiguous();
  const auto* p = row.const_data_ptr<double>();
  double sum = 0;
  for (std::int64_t i = 0; i < row.numel(); ++i) {
    sum += p[i];
    if (level < sum)
      return i;
  }
  return row.numel() - 1;
}

std::int64_t choose(const at::Tensor& logits, const sample_options& options,
                    std::uint64_t turn) {
  if (options.temperature <= 0)
    return logits.argmax().item<std::int64_t>();
  const auto level =
    static_cast<double>(mix_bits(options.seed * 1'000'003 + turn) >> 11)
    * 0x1p-53;
  return draw(at::softmax(logits / options.temperature, -1), level);
}

}  // namespace

std::vector<std::int64_t> sample_ids(
  const std::function<at::Tensor(const at::Tensor& ids)>& logits_of,
  std::vector<std::int64_t> prompt, const sample_options& options) {
  auto ids = std::move(prompt);
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const auto logits = logits_of(context_of(ids, options.length));
    ids.push_back(choose(logits.select(0, 0).select(0, -1), options,
                         static_cast<std::uint64_t>(i)));
  }
  return ids;
}

std::string sample_text(
  const std::function<at::Tensor(const at::Tensor& ids)>& logits_of,
  const std::string& prompt, const sample_options& options) {
  const auto begin = prompt.empty() ? std::string("\n") : prompt;
  std::vector<std::int64_t> bytes;
  for (const auto c : begin)
    bytes.push_back(static_cast<unsigned char>(c));
  std::string text;
  for (const auto id : sample_ids(logits_of, std::move(bytes), options))
    text += static_cast<char>(id);
  std::ranges::replace_if(
    text, [](char c) { return c != '\n' && (c < ' ' || c > '~'); }, '?');
  return text;
}

}  // namespace troupe
