#include "troupe/actors/job/device_links.hpp"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "troupe/base/fail.hpp"
#include "troupe/engine/transport/wire.hpp"

// How the links between devices are made.
namespace troupe {

void device_links::require_one_member_each() const {
  for (const auto& each : all_groups()) {
    const auto group = members_of(each);
    std::map<std::int32_t, std::size_t> hosted;
    for (const auto& one : group)
      ++hosted[process_of(one)];
    for (const auto& [process, members] : hosted)
      if (members > 1 && members < group.size())
        fail(error_code::invalid_argument,
             "process {} hosts {} of {} {}, which devices can't reduce "
             "together; let each process host one of them, or one process all",
             process, members, group.size(), in_words(each));
  }
}

/// All processes list the same groups.
std::vector<device_links::key> device_links::all_groups() const {
  std::vector<key> all;
  for (std::int32_t s = 0; s < stages_.stages(); ++s)
    all.push_back({.sender = s, .receiver = s});
  for (std::int32_t s = 0; s < stages_.stages() && shards_ > 1; ++s)
    for (std::int32_t d = 0; d < layout_.data_ranks; d += shards_)
      for (std::int8_t copy = 0; copy < stages_.copies(); ++copy)
        if (const auto each = gather_key(s, d, copy); each.shares)
          all.push_back(each);
  for (std::int32_t d = 0; d < layout_.data_ranks && !tied_.empty(); ++d)
    for (std::int8_t copy = 0; copy < stages_.copies(); ++copy)
      all.push_back(tied_key(d, copy));
  return all;
}

std::string device_links::in_words(const key& group) {
  return group.is_tied() ? fmt::format(
           "stages with tied parameters of replica {}", group.data_rank)
         : group.shares
           ? fmt::format("shards of stage {} from replica {} on", group.sender,
                         group.data_rank)
           : fmt::format("replicas and copies of stage {}", group.sender);
}

/// All processes list the same links, and make them in this order.
std::vector<device_links::key> device_links::all_links() const {
  std::vector<key> all;
  for (const auto& each : all_groups())
    if (spans_processes(members_of(each)))
      all.push_back(each);
  for (std::int32_t d = 0; d < layout_.data_ranks; ++d)
    for (std::int8_t copy = 0; copy < stages_.copies(); ++copy)
      for (const auto& [sender, receiver] : edges_)
        if (const key edge{d, copy, sender, receiver};
            spans_processes(members_of(edge)))
          all.push_back(edge);
  return all;
}

std::vector<device_links::member> device_links::members_of(
  const key& link_key) const {
  const auto& [data_rank, copy, sender, receiver, shares] = link_key;
  if (!link_key.is_group())
    return {{data_rank, {sender, copy}}, {data_rank, {receiver, copy}}};
  std::vector<member> group;
  if (link_key.is_tied()) {
    for (const auto stage : tied_)
      group.push_back({data_rank, {stage, copy}});
    return group;
  }
  for (auto d = data_rank; shares && d < data_rank + shards_; ++d)
    group.push_back({d, {sender, copy}});
  for (std::int32_t d = 0; !shares && d < layout_.data_ranks; ++d)
    for (std::int8_t c = 0; c < stages_.copies(); ++c)
      group.push_back({d, {sender, c}});
  return group;
}

std::int32_t device_links::process_of(const member& one) const {
  return layout_.process_of(one.data_rank, stages_.rank_of(one.stage));
}

bool device_links::spans_processes(const std::vector<member>& members) const {
  return std::ranges::any_of(members, [&](const member& one) {
    return process_of(one) != process_of(members.front());
  });
}

std::int32_t device_links::own_rank(const key& link_key) const {
  const auto members = members_of(link_key);
  const auto own = std::ranges::find_if(
    members, [this](const member& one) { return is_here(one); });
  return own == members.end()
           ? none
           : static_cast<std::int32_t>(own - members.begin());
}

communicator_options device_links::options_of(const key& link_key,
                                              communicator_id id) const {
  communicator_options options;
  options.id = std::move(id);
  options.rank = own_rank(link_key);
  options.size = static_cast<std::int32_t>(members_of(link_key).size());
  options.name =
    link_key.is_tied() || link_key.shares ? in_words(link_key)
    : link_key.is_group()
      ? fmt::format("replicas of stage {}", link_key.sender)
      : fmt::format("edge of replica {} from stage {} to {}",
                    link_key.data_rank, link_key.sender, link_key.receiver);
  options.cancelled = [this] { return ended_.load(); };
  return options;
}

void device_links::connect(mesh& job) {
  require_one_member_each();
  const auto all = all_links();
  std::vector<std::string> ids;
  if (layout_.process == 0)
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto id = devices_.any()->make_communicator_id();
      ids.emplace_back(reinterpret_cast<const char*>(id.data()), id.size());
    }
  ids = from_wire<std::vector<std::string>>(
    job.share({frame_type::mail, to_wire(ids), {}}).head);
  if (ids.size() != all.size())
    fail(error_code::mismatch, "process 0 has {} links between devices, not {}",
         ids.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto own = own_rank(all[i]);
    if (own == none)
      continue;
    const auto* bytes = reinterpret_cast<const std::byte*>(ids[i].data());
    const auto options =
      options_of(all[i], communicator_id(bytes, bytes + ids[i].size()));
    const auto& device =
      device_of(members_of(all[i])[static_cast<std::size_t>(own)]).hardware();
    auto opened = std::unique_ptr<link>(new link{
      options.name, device->make_communicator(options),
      device->make_stream(stream_priority::high),
      communicator_watch(std::chrono::duration<double>(stall_seconds_))});
    {
      const std::scoped_lock lock(opening_);
      links_.emplace(all[i], std::move(opened));
    }
    try_out(all[i]);
  }
}

/// The first call of a link connects, which takes its time: not in a step.
void device_links::try_out(const key& link_key) {
  const auto own = own_rank(link_key);
  auto& device = device_of(members_of(link_key)[static_cast<std::size_t>(own)]);
  auto& on = at(link_key);
  const auto scope = on.stream->enter();
  const auto small = at::zeros(
    {1}, at::TensorOptions().dtype(at::kFloat).device(device.device()));
  transfer what{.name = "the first call"};
  if (link_key.is_group())
    what = {transfer_kind::all_reduce, small,    small, -1,
            reduce_kind::mean,         what.name};
  else if (own == 0)
    what = {transfer_kind::send, small, {}, 1, reduce_kind::sum, what.name};
  else
    what = {transfer_kind::receive, {}, small, 0, reduce_kind::sum, what.name};
  enqueue(on, what);
  on.stream->drain();
}

}  // namespace troupe
