#include "troupe/engine/models/sample.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/softmax.h>

#include <algorithm>

#include "troupe/engine/data/permutation.hpp"

namespace troupe {

namespace {

at::Tensor to_ids(const std::string& text, std::int64_t longest) {
  const auto count =
    std::min<std::int64_t>(longest, static_cast<std::int64_t>(text.size()));
  auto ids = at::empty({1, count}, at::kLong);
  auto* id = ids.mutable_data_ptr<std::int64_t>();
  const auto from = text.size() - static_cast<std::size_t>(count);
  for (std::int64_t i = 0; i < count; ++i)
    id[i] =
      static_cast<unsigned char>(text[from + static_cast<std::size_t>(i)]);
  return ids;
}

/// The first id at which the cumulated probability passes `level` in [0, 1).
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

std::string sample_text(
  const std::function<at::Tensor(const at::Tensor& ids)>& logits_of,
  const std::string& prompt, const sample_options& options) {
  auto text = prompt.empty() ? std::string("\n") : prompt;
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const auto logits = logits_of(to_ids(text, options.length));
    const auto id = choose(logits.select(0, 0).select(0, -1), options,
                           static_cast<std::uint64_t>(i));
    text += static_cast<char>(id);
  }
  std::ranges::replace_if(
    text, [](char c) { return c != '\n' && (c < ' ' || c > '~'); }, '?');
  return text;
}

}  // namespace troupe
