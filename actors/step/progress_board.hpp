#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "troupe/actors/step/run_health.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// Where every rank of every replica stands in its lane; written by ranks,
/// read by anyone (the watchdog, an interrupt) without a message.
class progress_board {
 public:
  using state = rank_state;
  struct entry {
    std::uint32_t position = 0;  // into plan::ops
    state doing = state::idle;
    bool for_data = false;    // it waits for the loader
    std::uint8_t input = 0;   // or for this one of the op's; the last is 7
    std::uint32_t ended = 0;  // ops of the step, modulo 2^20

    friend bool operator==(const entry&, const entry&) = default;
  };

  progress_board(std::int32_t data_ranks, std::int32_t ranks);

  void set(std::int32_t data_rank, std::int32_t rank, entry now);
  std::vector<entry> snapshot() const;  // by data rank, then rank

  /// The positions in words, with the running plan.
  std::vector<rank_health> look(const plan& of) const;
  /// One sentence per rank that lives here: what it runs, or what it waits for
  /// and from whom.
  std::vector<std::string> describe(const plan& of) const;

 private:
  std::int32_t ranks_;
  std::vector<std::atomic<std::uint64_t>> entries_;
};

}  // namespace troupe
