#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "checker.hpp"
#include "network.hpp"
#include "troupe/engine/membership/messages.hpp"

namespace troupe::simulated {

/// The checkpoints that all processes can read.
class shared_disk {
 public:
  explicit shared_disk(std::int32_t states) : states_(states) {}
  void write(std::int64_t step, std::int32_t state, std::uint64_t hash) {
    auto& at = steps_[step];
    at[state] = hash;
    if (std::cmp_equal(at.size(), states_))
      complete_ = std::max(complete_, step);
  }
  std::uint64_t read(std::int64_t step, std::int32_t state) {
    return steps_[step][state];
  }
  std::int64_t complete_step() const { return complete_; }

 private:
  std::int32_t states_;
  std::map<std::int64_t, std::map<std::int32_t, std::uint64_t>> steps_;
  std::int64_t complete_ = -1;
};

/// A process's execution of steps: the states that it holds, what it sends to
/// others, and how it comes from one epoch to the next.
class executor {
 public:
  executor(const scenario& of, network& net, checker& check, shared_disk& disk,
           int self);

  /// From now on what it holds stays as it is.
  void rest() {
    is_running_ = false;
    is_at_rest_ = true;
  }
  bool is_running() const { return is_running_; }
  std::vector<membership::held_copy> copies() const;

  void prepare(const membership::epoch&);
  void load_again();
  void read_checkpoint();
  /// True if all states of the epoch are here, once.
  bool take_loaded();
  void begin();

  /// The own part of a step is computed, unless it is of another time.
  bool is_due(const wake& computed) const;
  void compute();
  /// True if the gradients of a step have become complete, once.
  bool take_prepared();
  std::int64_t step() const { return step_; }
  std::int64_t stored_step() const;
  void apply(const membership::step_decision&);

  bool has_stored(std::int32_t rank, std::int64_t step) const;

  void receive(int from, const step_data&);
  void receive(int from, const state_request&);
  void receive(int from, const state_reply&);
  void receive(int from, const snapshot_copy&);
  void receive(int from, const snapshot_stored&);

  const std::vector<std::int32_t>& hosted() const { return hosted_; }

 private:
  struct own_state {
    bool is_held = false, is_prepared = false;
    std::int64_t step = 0;
    std::uint64_t hash = 0, next = 0;
  };
  struct stored_copy {
    std::int32_t rank = 0;
    std::int64_t step = 0;
    std::uint64_t hash = 0;
  };
  struct heard_data {
    std::int64_t step = 0;
    int from = 0;
    std::uint64_t sum = 0;
  };

  own_state& at(std::int32_t rank) {
    return states_[static_cast<std::size_t>(rank)];
  }
  void settle(own_state&, std::int32_t rank);
  std::optional<std::uint64_t> find(std::int32_t rank, std::int64_t step) const;
  void load(std::int32_t rank, std::uint64_t hash);
  void request(std::int32_t rank);
  void start_step();
  void take_snapshots();

  const scenario& of_;
  const membership::job_shape& shape_;
  network& net_;
  checker& check_;
  shared_disk& disk_;
  int self_;
  membership::epoch epoch_;
  bool is_running_ = false, is_at_rest_ = false, is_computed_ = false,
       waits_loaded_ = false;
  bool reads_checkpoint_ = false;
  std::int64_t step_ = 0;  // the one that runs
  std::vector<own_state> states_;
  std::vector<std::int32_t> hosted_, missing_;
  std::vector<member_id> peers_;  // hosts of other ranks
  std::vector<heard_data> heard_;
  std::vector<stored_copy> stored_;
  std::vector<std::int64_t> snapshots_;  // steps, of this epoch
  std::vector<std::pair<std::int32_t, std::int64_t>> unstored_;  // rank, step
};

}  // namespace troupe::simulated
