#include "troupe/actors/job/device_links.hpp"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "troupe/base/error.hpp"
#include "troupe/engine/transport/wire_fields.hpp"

// How the links between devices are made.
namespace troupe {

namespace {

bool is_group(std::int32_t sender, std::int32_t receiver) {
  return sender == receiver;
}

}  // namespace

/// A communicator has a rank a process.
void device_links::require_one_replica_here() const {
  std::int32_t here = 0;
  for (std::int32_t d = 0; d < layout_.data_ranks; ++d)
    here += layout_.is_here(d, 0);
  if (here > 1 && here < layout_.data_ranks)
    fail(error_code::invalid_argument,
         "this process holds {} of {} replicas, which devices can't average "
         "together; start {} processes or more, or one",
         here, layout_.data_ranks, layout_.data_ranks);
}

/// The same in all processes, which make them in this order.
std::vector<device_links::key> device_links::all_links() const {
  std::vector<key> all;
  for (std::int32_t s = 0; s < stages_.stages(); ++s)
    if (reduces(s))
      all.emplace_back(0, s, s);
  for (std::int32_t d = 0; d < layout_.data_ranks; ++d)
    for (const auto& [sender, receiver] : edges_)
      if (layout_.process_of(d, stages_.rank_of(sender))
          != layout_.process_of(d, stages_.rank_of(receiver)))
        all.emplace_back(d, sender, receiver);
  return all;
}

bool device_links::takes_part(const key& link_key) const {
  const auto [d, sender, receiver] = link_key;
  if (is_group(sender, receiver)) {
    for (std::int32_t r = 0; r < layout_.data_ranks; ++r)
      if (layout_.is_here(r, stages_.rank_of(sender)))
        return true;
    return false;
  }
  return layout_.is_here(d, stages_.rank_of(sender))
         || layout_.is_here(d, stages_.rank_of(receiver));
}

std::pair<std::int32_t, std::int32_t> device_links::own_end(
  const key& link_key) const {
  auto [d, sender, receiver] = link_key;
  if (is_group(sender, receiver)) {
    while (!layout_.is_here(d, stages_.rank_of(sender)))
      ++d;
    return {d, sender};
  }
  return {d, layout_.is_here(d, stages_.rank_of(sender)) ? sender : receiver};
}

communicator_options device_links::options_of(const key& link_key,
                                              communicator_id id) const {
  const auto [d, sender, receiver] = link_key;
  communicator_options options;
  options.id = std::move(id);
  if (is_group(sender, receiver)) {
    options.rank = own_end(link_key).first;
    options.size = layout_.data_ranks;
    options.name = fmt::format("replicas of stage {}", sender);
  } else {
    options.rank = own_end(link_key).second == sender ? 0 : 1;
    options.size = 2;
    options.name = fmt::format("edge of replica {} from stage {} to {}", d,
                               sender, receiver);
  }
  options.cancelled = [this] { return ended_.load(); };
  return options;
}

void device_links::connect(mesh& job) {
  require_one_replica_here();
  const auto all = all_links();
  std::vector<std::string> ids;
  if (layout_.process == 0)
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto id = devices_[0][0]->on()->make_communicator_id();
      ids.emplace_back(reinterpret_cast<const char*>(id.data()), id.size());
    }
  ids = from_wire<std::vector<std::string>>(
    job.share({frame_type::mail, to_wire(ids), {}}).head);
  if (ids.size() != all.size())
    fail(error_code::mismatch, "process 0 has {} links between devices, not {}",
         ids.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!takes_part(all[i]))
      continue;
    const auto* bytes = reinterpret_cast<const std::byte*>(ids[i].data());
    const auto options =
      options_of(all[i], communicator_id(bytes, bytes + ids[i].size()));
    const auto [d, stage] = own_end(all[i]);
    const auto& device = device_of(d, stage).on();
    auto made = std::unique_ptr<link>(new link{
      options.name, device->make_communicator(options),
      device->make_stream(stream_priority::high),
      communicator_watch(std::chrono::duration<double>(stall_seconds_))});
    {
      const std::scoped_lock lock(making_);
      links_.emplace(all[i], std::move(made));
    }
    try_out(all[i]);
  }
}

/// The first call of a link connects, which takes its time: not in a step.
void device_links::try_out(const key& link_key) {
  const auto [d, stage] = own_end(link_key);
  auto& device = device_of(d, stage);
  auto& stream = *at(link_key).stream;
  const auto scope = stream.enter();
  const auto small = at::zeros(
    {1}, at::TensorOptions().dtype(at::kFloat).device(device.device()));
  const auto [replica, sender, receiver] = link_key;
  transfer what{.name = "the first call"};
  if (is_group(sender, receiver))
    what = {transfer_kind::all_reduce, small,    small, -1,
            reduce_kind::mean,         what.name};
  else if (stage == sender)
    what = {transfer_kind::send, small, {}, 1, reduce_kind::sum, what.name};
  else
    what = {transfer_kind::receive, {}, small, 0, reduce_kind::sum, what.name};
  enqueue(at(link_key), what, stream);
  stream.drain();
}

}  // namespace troupe
