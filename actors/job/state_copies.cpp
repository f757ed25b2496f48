#include "troupe/actors/job/state_copies.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/transport/wire.hpp"

namespace troupe {

namespace {

std::int64_t bytes_of(const tensor_list& tensors) {
  std::int64_t bytes = 0;
  for (const auto& each : tensors)
    bytes += each.defined() ? static_cast<std::int64_t>(each.nbytes()) : 0;
  return bytes;
}

}  // namespace

void state_copies::keep(frame copy) {
  const auto head = from_wire<stage_state_head>(copy.head);
  if (copy.tensors.size() <= head.names.size())
    fail(error_code::transport, "a state of stage {} is not whole",
         head.place.stage.stage);
  const std::scoped_lock lock(mutex_);
  auto& of_stage = all_[head.place];
  of_stage.insert_or_assign(head.progress.step,
                            kept{head.progress, std::move(copy)});
  while (of_stage.size() > 2)
    of_stage.erase(of_stage.begin());
  changed_.notify_all();
}

tensor_list state_copies::take_oldest(const stage_place& of) {
  const std::scoped_lock lock(mutex_);
  const auto place = all_.find(of);
  if (place == all_.end() || place->second.size() < 2)
    return {};
  auto tensors = std::move(
    place->second.extract(place->second.begin()).mapped().copy.tensors);
  const bool is_shared =
    std::ranges::any_of(tensors, [](const at::Tensor& each) {
      return each.defined()
             && (each.use_count() > 1 || each.storage().use_count() > 1);
    });
  return is_shared ? tensor_list{} : tensors;
}

std::vector<held_state> state_copies::held() const {
  const std::scoped_lock lock(mutex_);
  std::vector<held_state> all;
  for (const auto& [place, steps] : all_)
    for (const auto& [step, each] : steps)
      all.push_back({place, each.progress, bytes_of(each.copy.tensors)});
  return all;
}

std::int64_t state_copies::bytes() const {
  std::int64_t all = 0;
  for (const auto& each : held())
    all += each.bytes;
  return all;
}

frame state_copies::at(const stage_place& of, std::int64_t step) const {
  const std::scoped_lock lock(mutex_);
  if (const auto place = all_.find(of); place != all_.end())
    if (const auto each = place->second.find(step); each != place->second.end())
      return each->second.copy;
  fail(error_code::internal, "no state of stage {} after step {} is held",
       of.stage.stage, step);
}

bool state_copies::await(const std::vector<stage_place>& of, std::int64_t step,
                         const std::function<bool()>& given_up) const {
  constexpr std::chrono::milliseconds look_every{20};
  std::unique_lock lock(mutex_);
  const auto have_come = [&] {
    return std::ranges::all_of(of, [&](const stage_place& each) {
      const auto place = all_.find(each);
      return place != all_.end() && place->second.contains(step);
    });
  };
  while (!changed_.wait_for(lock, look_every, have_come)) {
    lock.unlock();
    if (given_up())
      return false;
    lock.lock();
  }
  return true;
}

void state_copies::forget_after(std::int64_t step) {
  const std::scoped_lock lock(mutex_);
  for (auto& [place, steps] : all_)
    steps.erase(steps.upper_bound(step), steps.end());
}

std::optional<std::int32_t> keeper_of(const job_layout& layout,
                                      std::int32_t data_rank, std::int32_t rank,
                                      bool sharded) {
  const auto host = layout.process_of(data_rank, rank);
  for (std::int32_t d = 0; !sharded && d < layout.data_ranks; ++d)
    if (layout.process_of(d, rank) != host)
      return std::nullopt;
  if (layout.processes == 1)
    return std::nullopt;
  return (host + 1) % layout.processes;
}

namespace {

using held_by_process = std::vector<std::vector<held_state>>;

struct found_state {
  recovery::source source;
  std::int64_t bytes = 0;
};

std::optional<found_state> source_at(
  const held_by_process& held, std::int64_t step, const stage_place& wanted,
  std::int32_t host,
  const std::function<bool(const stage_place&, const stage_place&)>& equal) {
  const auto in = [&](std::int32_t process) -> std::optional<found_state> {
    for (const auto& each : held[static_cast<std::size_t>(process)])
      if (each.progress.step == step && equal(wanted, each.place))
        return found_state{{process, each.place}, each.bytes};
    return std::nullopt;
  };
  if (const auto own = in(host))
    return own;
  for (std::int32_t p = 0; p < std::ssize(held); ++p)
    if (const auto other = in(p))
      return other;
  return std::nullopt;
}

}  // namespace

std::optional<recovery> choose_recovery(
  const std::vector<std::vector<held_state>>& held,
  const std::map<stage_place, std::int32_t>& hosts,
  const std::function<bool(const stage_place&, const stage_place&)>& equal) {
  std::map<std::int64_t, run_progress, std::greater<>> steps;
  for (const auto& of_process : held)
    for (const auto& each : of_process)
      steps.emplace(each.progress.step, each.progress);
  for (const auto& [step, progress] : steps) {
    recovery found{progress, {}};
    for (const auto& [place, host] : hosts)
      if (const auto state = source_at(held, step, place, host, equal)) {
        found.sources.emplace(place, state->source);
        found.moved_bytes += state->source.process == host ? 0 : state->bytes;
      }
    if (found.sources.size() == hosts.size())
      return found;
  }
  return std::nullopt;
}

}  // namespace troupe
