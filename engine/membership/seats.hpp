#pragma once

#include <cstdint>
#include <vector>

#include "troupe/engine/membership/messages.hpp"

namespace troupe::membership {

/// What an authority knows of one member.
struct seat {
  member_id member = no_member;
  member_report last{};
  moment heard{};      // when it was heard of last
  moment lease_end{};  // it may vote until then, as far as this authority knows
  bool is_accused = false;  // another member's link to it broke
  bool has_ended = false;   // its process is known to have ended
  bool is_counted_lost = false;
  int broken_links = 0;  // in the last epochs, none of which lasted
  moment unfit_until{};  // it is left out where others can do without it
  std::int64_t noted_epoch = -1;  // of the last problem that was counted

  bool is_unfit(moment now) const { return now < unfit_until; }
  bool has_promised(std::int64_t number) const {
    return last.promise >= number;
  }
};

/// The members that an authority knows, ascending.
class seat_table {
 public:
  seat* find(member_id);
  const seat* find(member_id) const;
  seat& add(moment now, member_id);
  template <class Condition>
  void drop_if(const Condition& condition) {
    std::erase_if(seats_, condition);
  }
  auto begin() { return seats_.begin(); }
  auto end() { return seats_.end(); }
  auto begin() const { return seats_.begin(); }
  auto end() const { return seats_.end(); }
  std::size_t size() const { return seats_.size(); }

 private:
  std::vector<seat> seats_;
};

}  // namespace troupe::membership
