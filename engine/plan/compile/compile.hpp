#pragma once

#include <cstdint>
#include <vector>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

struct compile_options {
  /// Replicas of the pipeline. With more than one, or with copies of stages,
  /// gradients are reduced.
  std::int32_t data_parallel = 1;
  /// Most messages in flight that a channel allows; 0: its own bound. Only
  /// `verify` delays sends; actors in one process need no credits.
  std::int32_t credits = 0;
  /// Every update waits for the norm of all stages (clipping by norm).
  bool global_norm = false;
  /// Which stages read whose outputs; of no stages: a chain.
  stage_graph graph{};
  /// The stages that hold tied parameters; empty: none are tied.
  std::vector<std::int32_t> tied{};
};

/// Lowers a schedule into a plan for one data replica: checks the lanes, places
/// transfers and closing ops, connects messages and dependencies, and bounds
/// messages in flight. Throws `error`: invalid_schedule if an op is missing or
/// misplaced, invalid_argument if the graph has other stages, or a tied one
/// does not exist, deadlock with the cycle if the lanes wait for each other.
/// Time and memory are linear in the number of ops. Any lanes that are legal
/// for a chain are so for every graph of its stages.
plan compile(const schedule& lanes, const compile_options& options = {});

/// The compute ops of a schedule alone, of a chain of stages: a dependency is
/// the op that makes an input, on whatever rank, and there are no messages. For
/// lanes that `compile` refuses, as they wait for each other: `verify` finds
/// their cycle.
plan lane_plan(const schedule& lanes);

/// The stages that sum tied gradients in a plan, ascending.
std::vector<std::int32_t> tied_stages(const plan& of);

/// Those with which another schedule of a plan's stages is compiled for the
/// same run; without credits.
compile_options options_like(const plan& current);

}  // namespace troupe
