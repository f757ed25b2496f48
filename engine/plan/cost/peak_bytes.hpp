#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/plan/cost/division.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// Bytes of what a stage holds and makes, for one microbatch (slice).
struct stage_sizes {
  double kept = 0;        // by a forward, its inputs included, for its B or I
  double deferred = 0;    // by an I, for its W
  double activation = 0;  // given to a stage that reads it
  double gradient = 0;    // of those, given back by that stage
  double parameters = 0;  // with gradients and the optimizer's state: all along
  double version = 0;  // of the parameters alone, where a stage keeps several
  double whole = 0;    // of sharded parameters, from a gather to its release
  double whole_gradient = 0;  // of those, from the first B or W to the REDUCE
};

/// The part of a rank's sizes that falls on each stage and slice, from sizes of
/// all layers of a rank and a full microbatch.
stage_sizes divided(stage_sizes sizes, const division& by);

/// The sizes of all stages, and of those that differ.
struct value_sizes {
  stage_sizes usual;
  std::map<std::int32_t, stage_sizes> of_stage;

  const stage_sizes& row(std::int32_t stage) const {
    const auto found = of_stage.find(stage);
    return found == of_stage.end() ? usual : found->second;
  }
};

/// Reads "kept=4e6,activation=1e6,gradient.2=5e5,parameters=1e8", in the form
/// of costs; without `gradient` it is as large as the activation, without
/// `deferred` as what a forward keeps, without `version` as all that belongs to
/// the parameters, without `whole_gradient` as `whole`. Entries without a stage
/// are divided, those of single stages stay. Throws `error` (malformed_text)
/// with the entry.
value_sizes parse_sizes(std::string_view text, const division& by = {});
/// Reads a file if one has this name, else the text; as `load_costs`.
value_sizes load_sizes(const std::string& path_or_text,
                       const division& by = {});

/// By rank: the most bytes held at once. An activation lives from its forward's
/// start to the start of the one that reads it (which keeps it), on the
/// sender's rank until its message has arrived; a gradient from its backward's
/// start to the end of the one that reads it; what a forward keeps until its B
/// or I has ended, what an I keeps from there to the end of its W; but for the
/// time from the end of its offload to the start of its reload. With updates
/// within a step, parameters live until the last backward that reads them.
std::vector<double> peak_bytes(const plan& plan, const simulation& times,
                               const value_sizes& sizes);

/// By rank: the most bytes of activations in the host's memory at once, each
/// from the start of its offload to the end of its reload.
std::vector<double> host_peak_bytes(const plan& plan, const simulation& times,
                                    const value_sizes& sizes);

/// The most bytes that all ranks together hold at once: what a process that
/// runs all of them needs, but for the host's memory beside devices.
double joint_peak_bytes(const plan& plan, const simulation& times,
                        const value_sizes& sizes);

}  // namespace troupe
