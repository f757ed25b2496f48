#pragma once

#include <memory>

#include "troupe/engine/data/microbatch_source.hpp"

namespace troupe {

/// All of a text once, for validation: rows of `length` tokens that follow each
/// other, so that each token but the first is a target once. The last
/// microbatch has the rows that are left, and the last row is filled up with
/// zeros whose targets are ignored (-100). Throws `invalid_data` for a text of
/// less than two tokens and, as it is read, for ids beyond the vocabulary.
std::shared_ptr<const microbatch_source> rows_once(
  std::shared_ptr<const token_source> tokens,
  const text_batch_options& options);

}  // namespace troupe
