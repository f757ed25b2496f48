#pragma once

#include <cstdint>
#include <vector>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// Ranks that take turns. A blocked rank waits for another one's progress; each
/// rank is in the queue, waiting, or finished. All operations take constant
/// time.
class turn_queue {
 public:
  explicit turn_queue(std::int32_t ranks)
    : ring_(slot(ranks)),
      queued_(ring_.size(), 0),
      first_waiter_(ring_.size(), none),
      next_waiter_(ring_.size(), none) {
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      push(rank);
  }

  bool empty() const { return size_ == 0; }

  /// First come, first served: all ranks advance in step.
  std::int32_t pop_first() {
    const auto rank = ring_[head_];
    head_ = head_ + 1 == ring_.size() ? 0 : head_ + 1;
    --size_;
    queued_[slot(rank)] = 0;
    return rank;
  }

  /// Last come, first served: after a rank its neighbours run, whose part of a
  /// large plan is still in the processor's caches.
  std::int32_t pop_last() {
    const auto rank = ring_[place_of(--size_)];
    queued_[slot(rank)] = 0;
    return rank;
  }

  void push(std::int32_t rank) {
    if (queued_[slot(rank)] != 0)
      return;
    queued_[slot(rank)] = 1;
    ring_[place_of(size_++)] = rank;
  }

  /// `rank`, just popped, takes its next turn after `other` has progressed.
  void wait(std::int32_t rank, std::int32_t other) {
    next_waiter_[slot(rank)] = first_waiter_[slot(other)];
    first_waiter_[slot(other)] = rank;
  }

  /// Queues the ranks that wait for `rank`.
  void progressed(std::int32_t rank) {
    auto waiter = first_waiter_[slot(rank)];
    first_waiter_[slot(rank)] = none;
    for (; waiter != none; waiter = next_waiter_[slot(waiter)])
      push(waiter);
  }

 private:
  std::size_t place_of(std::size_t turn) const {
    const auto place = head_ + turn;
    return place < ring_.size() ? place : place - ring_.size();
  }

  std::vector<std::int32_t> ring_;
  std::vector<char> queued_;
  std::vector<std::int32_t> first_waiter_;
  std::vector<std::int32_t> next_waiter_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace troupe
