#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// Where every rank of every replica stands in its lane; written by stages,
/// read by anyone (the watchdog, an interrupt) without a message.
class progress_board {
 public:
  enum class state : std::uint8_t { idle, running, waiting };
  struct entry {
    std::uint32_t position = 0;  // into plan::ops
    state doing = state::idle;

    friend bool operator==(const entry&, const entry&) = default;
  };

  progress_board(std::int32_t data_ranks, std::int32_t ranks);

  void set(std::int32_t data_rank, std::int32_t rank, entry now);
  std::vector<entry> snapshot() const;  // by data rank, then rank

  /// One sentence a rank: what it runs, or what it waits for and from whom.
  std::vector<std::string> describe(const plan& plan) const;

 private:
  std::int32_t ranks_;
  std::vector<std::atomic<std::uint64_t>> entries_;
};

}  // namespace troupe
