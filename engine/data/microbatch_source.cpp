#include "troupe/engine/data/microbatch_source.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "troupe/base/fail.hpp"
#include "troupe/engine/data/row_order.hpp"

namespace troupe {

namespace {

constexpr std::int64_t ignored_target = -100;

/// Writes a row: each token but the last to the inputs, each but the first to
/// the targets, or -100 (ignored) if it is not to be predicted.
void put_row(const std::vector<std::int64_t>& ids, std::int64_t* inputs,
             std::int64_t* targets) {
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    inputs[i] = token_of(ids[i]);
    targets[i] = is_unpredicted(ids[i + 1]) ? ignored_target : ids[i + 1];
  }
}

/// Throws `invalid_argument` for microbatches without rows or tokens, and for
/// an empty vocabulary.
void require_rows(const text_batch_options& options) {
  if (options.rows < 1 || options.length < 1 || options.vocabulary < 1)
    fail(
      error_code::invalid_argument,
      "a microbatch of {} rows of {} tokens, of a vocabulary of {}, can't be "
      "made; use 1 or more of each",
      options.rows, options.length, options.vocabulary);
}

/// Throws `invalid_data`, naming the source, for an id outside
/// [0, vocabulary).
void require_known(const token_source& tokens,
                   const std::vector<std::int64_t>& ids,
                   std::int64_t vocabulary) {
  for (const auto token : ids)
    if (const auto id = token_of(token); id < 0 || id >= vocabulary)
      fail(error_code::invalid_data,
           "{}: token id {} is beyond the vocabulary of {}; give a text in the "
           "model's vocabulary",
           tokens.name(), id, vocabulary);
}

/// The rows of one text, in the order of training.
class text_rows {
 public:
  text_rows(token_pointer tokens, const text_batch_options& options)
    : tokens_(std::move(tokens)), options_(options) {
    // A row's last target is one token further; an epoch's offset is up to
    // length - 1 tokens, if the text has room for it.
    const auto usable = tokens_->size() - 1;
    windows_ = usable / options_.length;
    if (windows_ > options_.rows && options_.shuffle)
      --windows_;
    slack_ = usable - windows_ * options_.length;
    if (windows_ < options_.rows)
      fail(error_code::invalid_data,
           "{}: {} tokens are fewer than one microbatch of {} rows of {} "
           "tokens ({} are needed); give a longer text, or a smaller "
           "--microbatch-size or --seq",
           tokens_->name(), tokens_->size(), options_.rows, options_.length,
           options_.rows * options_.length + 1);
  }

  std::int64_t of_epoch() const { return windows_; }

  /// Reads the tokens of a row, and the one after them.
  void read(std::int64_t row, std::vector<std::int64_t>& into) const {
    tokens_->read(start_of(row), options_.length + 1, into.data());
    require_known(*tokens_, into, options_.vocabulary);
  }

 private:
  std::int64_t start_of(std::int64_t row) const {
    const auto epoch = row / windows_;
    const auto window = row % windows_;
    if (!options_.shuffle)
      return window * options_.length;
    const auto key =
      mix_bits(options_.seed ^ mix_bits(static_cast<std::uint64_t>(epoch)));
    const auto offset = static_cast<std::int64_t>(
      mix_bits(key) % static_cast<std::uint64_t>(slack_ + 1));
    return permutation(windows_, key)(window) * options_.length + offset;
  }

  token_pointer tokens_;
  text_batch_options options_;
  std::int64_t windows_ = 0;
  std::int64_t slack_ = 0;
};

std::int64_t rounded_up(std::int64_t count, std::int64_t by) {
  return (count + by - 1) / by;
}

}  // namespace

source_pointer make_source(std::function<microbatch_data(std::int64_t)> load,
                           std::int64_t size, bool counts_equally) {
  if (!load)
    throw error(error_code::invalid_argument,
                "a data source needs a function that makes microbatches");
  return std::make_shared<microbatch_source>(std::move(load), size,
                                             counts_equally);
}

source_pointer preprocess(
  source_pointer source,
  std::function<microbatch_data(microbatch_data, std::int64_t)> change,
  bool counts_equally) {
  if (!source || !change)
    throw error(error_code::invalid_argument,
                "preprocess needs a data source and a function that changes "
                "its microbatches; one of them is null");
  const auto size = source->size();
  return make_source(
    [source = std::move(source), change = std::move(change)](
      std::int64_t index) { return change(source->at(index), index); },
    size, counts_equally);
}

std::int64_t rows_of_epoch(const token_pointer& tokens,
                           const text_batch_options& options) {
  require_rows(options);
  return text_rows(tokens, options).of_epoch();
}

source_pointer text_batches(token_pointer tokens,
                            const text_batch_options& options) {
  return text_batches(std::vector<weighted_text>{{std::move(tokens)}}, options);
}

source_pointer text_batches(const std::vector<weighted_text>& texts,
                            const text_batch_options& options) {
  std::vector<double> weights;
  for (const auto& text : texts) {
    if (!text.tokens)
      throw error(error_code::invalid_argument,
                  "text_batches needs tokens; they are null");
    weights.push_back(text.weight);
  }
  require_rows(options);
  const row_mixture mixture(weights);
  const bool all_predicted = std::ranges::none_of(
    texts, [](const auto& text) { return text.tokens->masked(); });
  std::vector<text_rows> all;
  for (const auto& text : texts)
    all.emplace_back(text.tokens, options);
  const auto at = [mixture, all = std::move(all), rows = options.rows,
                   length = options.length](std::int64_t index) {
    auto inputs = at::empty({rows, length}, at::kLong);
    auto targets = at::empty({rows, length}, at::kLong);
    std::vector<std::int64_t> row(static_cast<std::size_t>(length + 1));
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto from = mixture.of(index * rows + r);
      all[from.source].read(from.row, row);
      put_row(row, inputs.mutable_data_ptr<std::int64_t>() + r * length,
              targets.mutable_data_ptr<std::int64_t>() + r * length);
    }
    return microbatch_data{{inputs}, {targets}, {}, rows * length};
  };
  return make_source(at, -1, all_predicted);
}

source_pointer with_document_starts(source_pointer source, std::int64_t end,
                                    bool predicts_next) {
  const bool counts_equally = source->counts_equally() && predicts_next;
  const auto change = [=](microbatch_data data, std::int64_t) {
    const auto ids = data.inputs.at(0).contiguous();
    auto starts = at::empty_like(ids);
    const auto* id = ids.const_data_ptr<std::int64_t>();
    auto* start = starts.mutable_data_ptr<std::int64_t>();
    const auto length = ids.size(1);
    for (std::int64_t r = 0; r < ids.size(0); ++r) {
      std::int64_t first = 0;
      for (std::int64_t i = 0; i < length; ++i) {
        start[r * length + i] = first;
        if (id[r * length + i] == end)
          first = i + 1;
      }
    }
    data.arguments.emplace(document_starts, std::move(starts));
    if (!predicts_next && !data.targets.empty())
      data.targets[0] = data.targets[0].masked_fill(ids == end, ignored_target);
    return data;
  };
  return preprocess(std::move(source), change, counts_equally);
}

std::int64_t first_outside(const token_source& tokens,
                           std::int64_t vocabulary) {
  constexpr std::int64_t chunk = 1 << 16;
  std::vector<std::int64_t> ids(chunk);
  for (std::int64_t index = 0; index < tokens.size(); index += chunk) {
    const auto count = std::min(chunk, tokens.size() - index);
    tokens.read(index, count, ids.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const auto id = token_of(ids[static_cast<std::size_t>(i)]);
      if (id < 0 || id >= vocabulary)
        return index + i;
    }
  }
  return -1;
}

std::vector<std::int64_t> rows_with_labels(const token_source& tokens,
                                           std::int64_t length,
                                           std::int64_t most) {
  std::vector<std::int64_t> rows, ids(static_cast<std::size_t>(length));
  const auto labels = tokens.size() - 1;
  for (std::int64_t row = 0;
       row * length < labels && (most == 0 || std::ssize(rows) < most); ++row) {
    ids.resize(
      static_cast<std::size_t>(std::min(length, labels - row * length)));
    tokens.read(row * length + 1, std::ssize(ids), ids.data());
    if (!std::ranges::all_of(ids, is_unpredicted))
      rows.push_back(row);
  }
  return rows;
}

source_pointer rows_once(token_pointer tokens,
                         const text_batch_options& options,
                         std::vector<std::int64_t> chosen) {
  require_rows(options);
  if (tokens->size() < 2)
    fail(error_code::invalid_data,
         "{}: {} tokens are too few to predict one from another; give a longer "
         "text",
         tokens->name(), tokens->size());
  const auto labels = tokens->size() - 1;
  const auto all_rows =
    chosen.empty() ? rounded_up(labels, options.length) : std::ssize(chosen);
  return make_source(
    [=, tokens = std::move(tokens),
     chosen = std::move(chosen)](std::int64_t index) {
      const auto first = index * options.rows, length = options.length;
      const auto rows = std::min(options.rows, all_rows - first);
      auto inputs = at::zeros({rows, length}, at::kLong);
      auto targets = at::full({rows, length}, ignored_target, at::kLong);
      std::int64_t read = 0;
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto row = chosen.empty()
                           ? first + r
                           : chosen[static_cast<std::size_t>(first + r)];
        const auto begin = row * length;
        std::vector<std::int64_t> ids(
          static_cast<std::size_t>(std::min(length, labels - begin) + 1));
        tokens->read(begin, std::ssize(ids), ids.data());
        require_known(*tokens, ids, options.vocabulary);
        put_row(ids, inputs.mutable_data_ptr<std::int64_t>() + r * length,
                targets.mutable_data_ptr<std::int64_t>() + r * length);
        read += std::ssize(ids) - 1;
      }
      return microbatch_data{{inputs}, {targets}, {}, read};
    },
    rounded_up(all_rows, options.rows));
}

}  // namespace troupe
