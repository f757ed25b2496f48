#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

struct rank_health;

/// Where every rank of every replica stands in its lane; written by ranks,
/// read by anyone (the watchdog, an interrupt) without a message.
class progress_board {
 public:
  /// `elsewhere`: the rank lives in another process.
  enum class state : std::uint8_t { idle, running, waiting, elsewhere };
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

/// The current activity of a replica's rank.
struct rank_health {
  std::int32_t data_rank = 0;
  std::int32_t rank = 0;
  progress_board::state doing = progress_board::state::idle;
  std::int32_t stage = none;  // of the op
  std::string op{};           // 0F3; empty while it is idle
  std::string waits_for{};    // "the activation of stage 0 (rank 0)"
};

}  // namespace troupe
