#include "troupe/engine/launch/authority/process_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <regex>
#include <string>

namespace troupe {

using membership::member_id;
using membership::no_member;

namespace {

/// More than any number that an earlier authority has given out: numbers are
/// given out less often than once in a microsecond.
member_id unused_number() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
           std::chrono::system_clock::now().time_since_epoch())
    .count();
}

}  // namespace

process_table::process_table(std::int32_t first_processes, bool is_resumed)
  : first_processes_(first_processes),
    next_(is_resumed ? unused_number() : first_processes),
    is_resumed_(is_resumed) {}

member_id process_table::add(const membership_request& about) {
  auto member = about.member;
  if (member == no_member || ended_.contains(member)) {
    const bool is_first = about.process >= 0 && !is_resumed_
                          && !first_lives_.contains(about.process);
    member = is_first ? about.process : next_;
  }
  if (member == about.process)
    first_lives_.insert(member);
  next_ = std::max(next_, member + 1);
  if (about.process < 0 && !requests_.contains(about.member))
    ++joined_;
  requests_[member] = about;
  return member;
}

member_id process_table::predecessor_of(
  member_id member, const std::vector<member_id>& members) const {
  const auto process = process_of(member);
  for (const auto other : members)
    if (other != member && process >= 0 && process_of(other) == process)
      return other;
  return no_member;
}

/// Its number at the job's start; -1: it joined, or an earlier authority has
/// numbered it.
std::int32_t process_table::process_of(member_id member) const {
  if (const auto found = requests_.find(member); found != requests_.end())
    return found->second.process;
  return is_new(member) ? -1 : static_cast<std::int32_t>(member);
}

std::optional<member_id> process_table::member_of(std::int64_t pid) const {
  std::optional<member_id> found;
  for (const auto& [member, about] : requests_)
    if (about.pid == pid)
      found = member;
  return found;
}

std::vector<std::int32_t> process_table::missing(
  const std::function<bool(member_id)>& is_there) const {
  std::set<std::int32_t> there;
  for (const auto& [member, about] : requests_)
    if (is_there(member))
      there.insert(about.process);
  std::vector<std::int32_t> numbers;
  for (std::int32_t i = 0; i < first_processes_ && !is_resumed_; ++i)
    if (!there.contains(i))
      numbers.push_back(i);
  return numbers;
}

std::string process_table::doubled(
  const membership_request& about,
  const std::function<bool(member_id)>& is_connected) const {
  for (const auto& [member, other] : requests_)
    if (about.process >= 0 && other.process == about.process
        && member != about.member && !ended_.contains(member)
        && !left_.contains(member) && is_connected(member))
      return fmt::format(
        "{} and pid {}{} have one number: did two launchers get the same "
        "--machine? The latter waits until a process is lost",
        name_of(member), about.pid,
        about.host.empty() ? "" : " on " + about.host);
  return {};
}

std::string process_table::name_of(member_id member) const {
  const auto found = requests_.find(member);
  if (found == requests_.end())  // an earlier authority has seen it
    return is_new(member) ? "a process" : fmt::format("process {}", member);
  const auto& about = found->second;
  const auto pid = about.host.empty()
                     ? fmt::format("pid {}", about.pid)
                     : fmt::format("pid {} on {}", about.pid, about.host);
  return about.process < 0 ? fmt::format("the process of {}", pid)
                           : fmt::format("process {} ({})", about.process, pid);
}

std::string process_table::news_of(const std::vector<member_id>& before,
                                   const membership::epoch& next) const {
  return fmt::format("epoch {}: {}; {} process{}", next.number,
                     cause_of(before, next), next.members.size(),
                     next.members.size() == 1 ? "" : "es");
}

std::string process_table::cause_of(const std::vector<member_id>& before,
                                    const membership::epoch& next) const {
  std::vector<std::string> parts;
  const auto note = [&](const auto& from, const auto& to, const auto& text) {
    for (const auto member : from)
      if (!std::ranges::binary_search(to, member))
        parts.push_back(name_of(member) + text(member));
  };
  note(before, next.members, [&](member_id member) {
    return has_left(member) ? " has left" : " was lost";
  });
  note(next.members, before, [](member_id) { return " has joined"; });
  return parts.empty() ? with_names(next.cause)
                       : fmt::format("{}", fmt::join(parts, ", "));
}

/// "member 2" becomes its process.
std::string process_table::with_names(const std::string& cause) const {
  static const std::regex word("member ([0-9]{1,9})");
  std::string text;
  auto rest = cause.begin();
  for (std::sregex_iterator found(rest, cause.end(), word), end; found != end;
       ++found) {
    text.append(rest, found->prefix().second);
    text += name_of(std::stoi(found->str(1)));
    rest = found->suffix().first;
  }
  return text.append(rest, cause.end());
}

}  // namespace troupe
