#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "troupe/engine/launch/membership_messages.hpp"

namespace troupe {

/// The processes of a job that heals, as its authority knows them: which member
/// each is, and their names in messages. Those that are gone stay in it.
class process_table {
 public:
  /// The job began with so many processes. `is_resumed`: an earlier authority
  /// has numbered members, which come again with their numbers.
  process_table(std::int32_t first_processes, bool is_resumed);

  /// The member that a process is from now on: the one that it was, unless that
  /// is known to have ended; its number at the job's start, once; else a new
  /// one.
  membership::member_id add(const membership_request& about);
  /// The one of these members whose process this is, started again; no_member:
  /// none.
  membership::member_id predecessor_of(
    membership::member_id member,
    const std::vector<membership::member_id>& members) const;
  /// Its process has ended, or can't be told from one that has.
  void end(membership::member_id member) { ended_.insert(member); }
  /// It has been told to leave.
  void leave(membership::member_id member) { left_.insert(member); }

  bool has_left(membership::member_id member) const {
    return left_.contains(member);
  }
  /// Whether it was not there when the job began.
  bool is_new(membership::member_id member) const {
    return member >= first_processes_;
  }
  bool empty() const { return requests_.empty(); }
  /// The processes of the start of which no member is there.
  std::vector<std::int32_t> missing(
    const std::function<bool(membership::member_id)>& is_there) const;
  /// That two processes which run have the same number, as if two machines had
  /// one; empty: no other has that of this one, which has just come.
  std::string doubled(
    const membership_request& about,
    const std::function<bool(membership::member_id)>& is_connected) const;
  /// "process 2 (pid 4714 on b1)".
  std::string name_of(membership::member_id member) const;
  /// The processes that are meant to host ranks: those of the start, and those
  /// that joined.
  std::int32_t hosts() const { return first_processes_ + joined_; }
  std::int64_t pid_of(membership::member_id member) const {
    return requests_.at(member).pid;
  }
  /// The last member of that process of this machine.
  std::optional<membership::member_id> member_of(std::int64_t pid) const;
  /// That there is another epoch, and why: who has gone, and who has come.
  std::string news_of(const std::vector<membership::member_id>& before,
                      const membership::epoch& next) const;

 private:
  std::string cause_of(const std::vector<membership::member_id>& before,
                       const membership::epoch& next) const;
  std::string with_names(const std::string& cause) const;
  std::int32_t process_of(membership::member_id member) const;

  std::int32_t first_processes_;
  std::int32_t joined_ = 0;
  membership::member_id next_;
  bool is_resumed_;
  std::map<membership::member_id, membership_request> requests_;
  std::set<membership::member_id> first_lives_, ended_, left_;
};

}  // namespace troupe
