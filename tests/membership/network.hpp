#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "messages.hpp"
#include "scenario.hpp"

namespace troupe::simulated {

/// Who sends or receives: processes are 0, 1, .., authorities -2, -3, ..
inline constexpr int the_world = -1;
constexpr int address_of_authority(std::size_t index) {
  return -2 - static_cast<int>(index);
}

struct event {
  moment at{};
  std::uint64_t serial = 0;  // of equal times, the first is first
  int from = the_world, to = the_world;
  payload what{};
};

/// All that is to happen, in order of true time, and the network: what it
/// loses, delays, doubles and cuts.
class network {
 public:
  network(const scenario& of, draws& random) : of_(of), random_(random) {}

  moment now() const { return now_; }
  /// False when nothing is left before that time.
  bool next(event&, moment before);
  void after(moment delay, int to, payload what) {
    push(now_ + delay, to, to, std::move(what));
  }
  void again(moment at, event& again) {
    push(at, again.from, again.to, std::move(again.what));
  }

  /// Between processes, by a link: what is cut off closes it.
  void send(int from, int to, payload what);
  /// To or from an authority: may get lost.
  void send_control(int from, int to, const payload& what);

  void set_partition(std::vector<bool> sides, bool is_one_way);
  void cut(int a, int b) { cuts_.emplace_back(a, b); }
  bool is_parted() const { return !sides_.empty(); }
  void heal() { sides_.clear(); }
  void heal(int a, int b) { std::erase(cuts_, std::pair(a, b)); }
  /// From now on nothing is lost, doubled or slow.
  void calm();
  bool is_cut(int from, int to) const;

 private:
  struct place {
    moment at;
    std::uint64_t serial;
    std::uint32_t slot;
    bool operator<(const place& other) const {
      return std::pair(at, serial) > std::pair(other.at, other.serial);
    }
  };
  void push(moment at, int from, int to, payload what);
  moment delay();
  bool is_doubled();
  bool side_of(int address) const;

  const scenario& of_;
  draws& random_;
  moment now_{};
  std::uint64_t serial_ = 0;
  std::vector<place> heap_;
  std::vector<event> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<bool> sides_;  // empty: no partition
  bool is_one_way_ = false, is_calm_ = false;
  std::vector<std::pair<int, int>> cuts_;
};

}  // namespace troupe::simulated
