#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "troupe/engine/generation/continuation.hpp"
#include "troupe/engine/stage/microbatch.hpp"
#include "troupe/engine/stage/module/generation_step.hpp"

namespace troupe {

/// All requests of one call, cut into batches, and which of them a step
/// continues: every process of a job makes the same decisions from the same
/// tokens. A batch that ends leaves its slot to one that waits; the others go
/// on (continuous batching: Yu et al., Orca, 2022). One thread at a time, but
/// for `choose`, which several threads may call for different batches.
class sequence_batches {
 public:
  /// `slots`: batches in flight. Numbers of batches count from `first_batch`.
  /// Throws as `require_legal` does.
  sequence_batches(std::vector<generation_request> requests,
                   const generation_options& options, std::size_t slots,
                   std::int64_t first_batch = 0);

  bool finished() const;
  /// No more than there are batches, and at least one.
  std::size_t slots() const { return slots_.size(); }
  std::int64_t next_batch() const { return next_batch_; }

  /// Fills the slots. Without `choose`.
  generation_step begin_step();
  /// Positions of the step that has begun.
  std::int32_t positions() const { return positions_; }
  /// The input of a slot's batch in this step: ids [rows, positions]; nothing
  /// without a batch.
  microbatch_data data(std::size_t slot) const;

  /// As `generation_step::choose`.
  at::Tensor choose(std::int64_t batch, const at::Tensor& logits);
  /// The tokens that a slot has got in this step, [positions, rows]: where they
  /// were chosen ...
  at::Tensor chosen(std::size_t slot) const;
  /// ... and for those who have not chosen them.
  void take(std::size_t slot, const at::Tensor& chosen);

  /// Ends the step: tells of each request that has got tokens.
  void end_step(const generation_listener& told);
  std::vector<generated> results() const;

 private:
  struct batch {
    std::vector<std::size_t> rows;                  // requests
    std::vector<std::vector<std::int64_t>> chosen;  // by position: of each row
    std::vector<std::int64_t> last;  // token of each row; empty: none yet
  };
  void queue_batches();
  std::vector<std::int64_t> drop_ended_rows(batch& of);
  std::int64_t left(const batch& of) const;
  bool append(batch& to, const std::vector<std::int64_t>& ids);

  std::unique_ptr<const generation_options> options_;
  std::vector<continuation> sequences_;
  std::vector<std::vector<std::size_t>> waiting_;  // the first one last
  std::map<std::int64_t, batch> running_;
  std::vector<std::int64_t> slots_;
  std::int64_t next_batch_ = 0;
  std::int32_t positions_ = 0;
};

}  // namespace troupe
