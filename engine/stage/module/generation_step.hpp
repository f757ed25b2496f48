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

  /// The batch of replica d's microbatch m, at d x microbatches + m: any number
  /// that no other batch of the run has; no_batch: its ops do nothing.
  std::vector<std::int64_t> batches;
  /// How many rows each of these has in this step; 0 without a batch.
  std::vector<std::int64_t> rows = {};
  /// Rows that a batch still has, of those of the step before, ascending; all,
  /// if the batch is not here.
  std::map<std::int64_t, std::vector<std::int64_t>> kept_rows = {};
  /// Given the logits of a batch's last position ([rows, vocabulary], in host
  /// memory), chooses the tokens that come next (int64 [rows, 1]); undefined:
  /// all rows have ended, and the further slices do nothing. Called by the
  /// threads of last stages: several batches at once.
  std::function<at::Tensor(std::int64_t batch, const at::Tensor& logits)>
    choose = {};
};

}  // namespace troupe
