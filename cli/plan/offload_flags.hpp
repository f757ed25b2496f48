#pragma once

#include <cstdint>
#include <string>

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/engine/plan/compile/offload.hpp"

namespace troupe::cli {

/// The flags of `train`, `plan` and `simulate` that offload activations.
struct offload_flags {
  /// Adds them to the current group.
  void add_to(CLI::App& command);
  bool given() const { return !what_.empty(); }
  /// Throws as `load_offload`; warns of flags without effect.
  offload_options options() const;
  /// The plan with them, or as it is.
  plan apply(plan before) const;

 private:
  std::string what_;  // a fraction, entries or a file; empty: none
  std::int32_t ahead_ = offload_options{}.ahead;
  std::int32_t least_stay_ = offload_options{}.least_stay;
};

}  // namespace troupe::cli
