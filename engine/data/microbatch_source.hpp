#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "troupe/engine/data/token_file.hpp"
#include "troupe/engine/stage/microbatch.hpp"

namespace troupe {

/// A loader's source of microbatches: by index, so that a run's position is one
/// number and any replica can make its own share. `at` may be called from
/// several threads, and more than once for an index: to count the items of an
/// update (loss_items.hpp), where its losses are computed, all of its
/// microbatches are made before the first loss, those of other replicas, too.
class microbatch_source {
 public:
  microbatch_source(std::function<microbatch_data(std::int64_t index)> at,
                    std::int64_t size, bool counts_equally = false)
    : at(std::move(at)), size_(size), counts_equally_(counts_equally) {}

  const std::function<microbatch_data(std::int64_t index)> at;
  /// Number of microbatches, or -1 if there is no end.
  std::int64_t size() const { return size_; }
  /// Whether losses count as many items in each microbatch, so that none has to
  /// be made for its count. A loss that then counts otherwise fails its step.
  bool counts_equally() const { return counts_equally_; }

 private:
  std::int64_t size_;
  bool counts_equally_;
};
using source_pointer = std::shared_ptr<const microbatch_source>;

/// A source from a function; for tests and custom data.
source_pointer make_source(
  std::function<microbatch_data(std::int64_t index)> at, std::int64_t size = -1,
  bool counts_equally = false);

/// Runs `change` on each microbatch as the loader makes it.
source_pointer preprocess(
  source_pointer source,
  std::function<microbatch_data(microbatch_data, std::int64_t index)> change,
  bool counts_equally = false);

struct text_batch_options {
  std::int64_t rows = 4;      // per microbatch
  std::int64_t length = 128;  // tokens per row
  std::uint64_t seed = 1;
  std::int64_t vocabulary = 256;  // ids from here on are refused
  /// Without shuffling, rows follow each other and restart at the end.
  bool shuffle = true;
};

/// Rows of `length` tokens (int64 [rows, length]) and, as targets, the tokens
/// that follow. Each epoch covers the whole text once, in an order and from an
/// offset given by the seed. Throws `invalid_data` if the text is shorter than
/// a microbatch.
source_pointer text_batches(token_pointer tokens,
                            const text_batch_options& options);

/// Rows of an epoch of `text_batches`. Throws likewise.
std::int64_t rows_of_epoch(const token_pointer& tokens,
                           const text_batch_options& options);

/// A text of a mixture, and how many of the rows are its own, relative to the
/// others.
struct weighted_text {
  token_pointer tokens{};
  double weight = 1;
};

/// Rows of several texts, in the proportions of row_order.hpp; each text has
/// its own epochs. Throws `invalid_data` as above, and `invalid_argument`.
source_pointer text_batches(const std::vector<weighted_text>& texts,
                            const text_batch_options& options);

/// Adds the argument `document_starts`, int64 of the inputs' shape: of each
/// position, that of the first token of its document within the row; each token
/// `end` ends one. Models that read it attend to a document's own tokens only,
/// and restart learned positions. The target of an `end`, the first token of
/// the next document, is ignored (-100), unless it is to be predicted, too.
source_pointer with_document_starts(source_pointer source, std::int64_t end,
                                    bool predicts_next = false);
constexpr auto document_starts = "document_starts";

/// The position of the first token id outside [0, vocabulary); -1 if all
/// are inside. Reads the whole source.
std::int64_t first_outside(const token_source& tokens, std::int64_t vocabulary);

/// All of a text once, for validation: rows of `length` tokens that follow each
/// other, so that each token but the first is a target once. The last
/// microbatch has the rows that are left, and the last row is filled up with
/// zeros whose targets are ignored (-100). `chosen`: only these rows, by their
/// number; empty: all. Throws `invalid_data` for a text of less than two tokens
/// and, as it is read, for ids beyond the vocabulary.
source_pointer rows_once(token_pointer tokens,
                         const text_batch_options& options,
                         std::vector<std::int64_t> chosen = {});

/// The first rows of `rows_once` that have a token to predict: `most` of them;
/// 0: all. Reads the source up to the last one.
std::vector<std::int64_t> rows_with_labels(const token_source& tokens,
                                           std::int64_t length,
                                           std::int64_t most);

}  // namespace troupe
