#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// A step that continues sequences of tokens, in batches of rows of equal
/// length: microbatches are batches, slices are positions. A batch's first
/// slice is given to the model's first stage as data (ids, int64
/// [rows, positions]): a prompt, or the last token of the step before. Every
/// further slice is what the last stage has chosen in the slice before
/// (int64 [rows, 1]). Stages keep what earlier positions leave for later ones,
/// by batch, until a step that does not have the batch.
struct generation_step {
  static constexpr std::int64_t no_batch = -1;

  /// The batch of replica d's microbatch m, at d x microbatches + m: a number
  /// that no other batch of the run has; no_batch: its ops do nothing.
  std::vector<std::int64_t> batches;
  /// The number of rows that each of these has in this step; 0 without a batch.
  std::vector<std::int64_t> rows = {};
  /// The rows of the step before that a batch still has, ascending; a batch
  /// without an entry has all of them.
  std::map<std::int64_t, std::vector<std::int64_t>> kept_rows = {};
  /// Chooses the tokens that come next (int64 [rows, 1]) from the logits of a
  /// batch's last position ([rows, vocabulary], in host memory). Undefined: all
  /// rows have ended, and the further slices do nothing. Called by the threads
  /// of last stages, for several batches at once.
  std::function<at::Tensor(std::int64_t batch, const at::Tensor& logits)>
    choose = {};
};

}  // namespace troupe
