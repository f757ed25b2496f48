#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/actors/held_stages.hpp"
#include "troupe/actors/pipeline/pipeline.hpp"
#include "troupe/actors/run_plans.hpp"
#include "troupe/engine/generation/generation.hpp"

namespace troupe {

class sequence_batches;

/// Continues sequences with a trainer's stages; see trainer.hpp. One thread at
/// a time, while no other step runs.
class sequence_generator {
 public:
  /// These outlive it.
  sequence_generator(const trainer_setup& setup, run_plans& plans,
                     held_stages& stages, pipeline& actors);

  /// `settings`: of the training step that came last.
  std::vector<generated> generate(
    const step_settings& settings,
    const std::vector<generation_request>& requests,
    const generation_options& options, const generation_listener& listener);

 private:
  bool step(const step_settings& settings,
            const std::shared_ptr<sequence_batches>& batches,
            const generation_listener& listener);
  void share_chosen(sequence_batches& batches, std::int32_t microbatches) const;

  const trainer_setup& setup_;
  run_plans& plans_;
  held_stages& stages_;
  pipeline& actors_;
  std::int64_t next_batch_ = 0;
};

}  // namespace troupe
