#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "troupe/actors/reduction/collectives.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/stage/ties.hpp"

namespace troupe {

namespace {

using member_list = std::vector<collective_request>;

/// The tensor of each member at one place of their lists.
tensor_list nth_of(const member_list& members, std::size_t i) {
  tensor_list same;
  for (const auto& each : members)
    same.push_back(each.work.tensors[i]);
  return same;
}

class local_collectives final : public collectives {
 public:
  explicit local_collectives(gradient_mean mean) : mean_(mean) {}

  bool spans_processes() const override { return false; }

  device_stream* stream(const collective_request& first) override {
    if (first.device && !stream_)
      stream_ = first.device->make_stream(stream_priority::high);
    return stream_.get();
  }

  bool run(std::int64_t, member_list& members) override {
    switch (members.front().work.kind) {
      case collective_kind::all_reduce:
        all_reduce(members);
        break;
      case collective_kind::reduce_scatter:
        reduce_scatter(members);
        break;
      case collective_kind::all_gather:
        all_gather(members);
        break;
      case collective_kind::tied_sum:
        sum_tied_of(members);
        break;
    }
    return true;
  }

 private:
  void all_reduce(member_list& members) const {
    for (std::size_t i = 0; i < members.front().work.tensors.size(); ++i) {
      const auto mean = mean_.of(nth_of(members, i));
      for (std::size_t r = 0; r < members.size(); ++r) {
        auto& own = members[r].work.tensors[i];
        if (own.scalar_type() != mean.scalar_type())
          own = r == 0 ? mean : mean.clone();
        else if (!own.is_same(mean))
          own.copy_(mean);
      }
    }
  }

  /// Whole gradients are freed: a member's pieces are copies.
  void reduce_scatter(member_list& members) const {
    const auto& layouts = members.front().work.layouts;
    const auto shards = layouts.at(0)->shards();
    std::vector<tensor_list> results(members.size());
    for (std::int32_t shard = 0; shard < shards; ++shard)
      for (const auto& piece : pieces_of(layouts, shard)) {
        tensor_list same;
        for (const auto& whole : nth_of(members, piece.parameter))
          same.push_back(whole.reshape(-1).narrow(0, piece.begin, piece.count));
        const auto mean = mean_.of(same);
        for (std::size_t m = 0; m < members.size(); ++m)
          if (members[m].data_rank % shards == shard)
            results[m].push_back(mean.clone());
      }
    for (std::size_t m = 0; m < members.size(); ++m)
      members[m].work.tensors = std::move(results[m]);
  }

  static void all_gather(member_list& members) {
    for (auto& into : members)
      for (const auto& from : members) {
        const auto shards = into.work.layouts.at(0)->shards();
        if (from.owner.copy != into.owner.copy
            || from.data_rank / shards != into.data_rank / shards)
          continue;
        const auto shard = from.data_rank % shards;
        for (std::size_t row = 0; row < into.work.targets.size(); ++row) {
          const auto& layout = *into.work.layouts[row];
          const auto& values = from.work.tensors[row];
          const auto place = into.work.targets[row].narrow(
            0, layout.begin(shard), layout.length(shard));
          // Where parameters stay whole, a shard is a part of them.
          if (!place.is_alias_of(values))
            place.copy_(values);
        }
      }
    for (auto& each : members)
      each.work.tensors.clear();
  }

  /// Members are by stage, so that holders are in model order.
  static void sum_tied_of(member_list& members) {
    std::map<std::int32_t, tied_holders> held;
    for (auto& member : members)
      for (auto& [tie, own] : holders_of(member.work)) {
        auto& all = held[tie];
        std::ranges::move(own.gradients, std::back_inserter(all.gradients));
        std::ranges::move(own.like, std::back_inserter(all.like));
      }
    for (const auto& [tie, holders] : held)
      sum_tied(holders);
  }

  gradient_mean mean_;
  std::unique_ptr<device_stream> stream_;  // on the first member's device
};

}  // namespace

bool collectives::on(collective_part part) {
  fail(error_code::mismatch,
       "a part of {} of stage {} arrived from another process, which has no "
       "member of its group",
       to_text(part.kind), part.stage);
}

std::unique_ptr<collectives> make_local_collectives(gradient_mean mean) {
  return std::make_unique<local_collectives>(mean);
}

}  // namespace troupe
