#include "troupe/engine/data/rows_once.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "troupe/base/error.hpp"

namespace troupe {

namespace {

constexpr std::int64_t ignored_target = -100;

std::int64_t rounded_up(std::int64_t count, std::int64_t by) {
  return (count + by - 1) / by;
}

class once_source final : public microbatch_source {
 public:
  once_source(std::shared_ptr<const token_source> tokens,
              const text_batch_options& options)
    : tokens_(std::move(tokens)),
      options_(options),
      labels_(tokens_->size() - 1),
      rows_(rounded_up(labels_, options.length)) {}

  std::int64_t size() const override {
    return rounded_up(rows_, options_.rows);
  }

  microbatch_data at(std::int64_t index) const override {
    const auto first = index * options_.rows;
    const auto rows = std::min(options_.rows, rows_ - first);
    const auto length = options_.length;
    auto inputs = at::zeros({rows, length}, at::kLong);
    auto targets = at::full({rows, length}, ignored_target, at::kLong);
    std::int64_t labels = 0;
    for (std::int64_t r = 0; r < rows; ++r)
      labels +=
        read(first + r, inputs.mutable_data_ptr<std::int64_t>() + r * length,
             targets.mutable_data_ptr<std::int64_t>() + r * length);
    return {{inputs}, {targets}, {}, labels};
  }

 private:
  /// Returns how many labels the row has.
  std::int64_t read(std::int64_t row, std::int64_t* inputs,
                    std::int64_t* targets) const {
    const auto begin = row * options_.length;
    const auto labels = std::min(options_.length, labels_ - begin);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(labels + 1));
    tokens_->read(begin, labels + 1, ids.data());
    require_known(*tokens_, ids, options_.vocabulary);
    put_row(ids, inputs, targets);
    return labels;
  }

  std::shared_ptr<const token_source> tokens_;
  text_batch_options options_;
  std::int64_t labels_, rows_;
};

}  // namespace

std::shared_ptr<const microbatch_source> rows_once(
  std::shared_ptr<const token_source> tokens,
  const text_batch_options& options) {
  require_rows(options);
  if (tokens->size() < 2)
    fail(error_code::invalid_data,
         "{}: {} tokens are too few to predict one from another; give a longer "
         "text",
         tokens->name(), tokens->size());
  return std::make_shared<once_source>(std::move(tokens), options);
}

}  // namespace troupe
