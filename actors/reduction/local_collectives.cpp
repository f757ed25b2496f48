#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "troupe/actors/reduction/collectives.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/stage/ties.hpp"
#include "troupe/engine/stage/update/gradient_mean.hpp"

namespace troupe {

namespace {

using member_list = std::vector<collective_request>;

template <class Work>
std::vector<Work*> all_of(member_list& members) {
  std::vector<Work*> works;
  for (auto& each : members)
    works.push_back(&std::get<Work>(each.work));
  return works;
}

/// The gradient of each member of one parameter.
template <class Work>
tensor_list nth_of(const std::vector<Work*>& members, std::size_t i) {
  tensor_list same;
  for (const auto* each : members)
    same.push_back(each->gradients[i]);
  return same;
}

template <class Work>
void share_absent(const std::vector<Work*>& members) {
  auto absent = members.front()->absent;
  for (const auto* each : members)
    absent = common(absent, each->absent);
  for (auto* each : members)
    each->absent = absent;
}

class local_collectives final : public collectives {
 public:
  explicit local_collectives(gradient_mean mean) : mean_(mean) {}

  device_stream* stream(const collective_request& first) override {
    if (first.device && !stream_)
      stream_ = first.device->make_stream(stream_priority::high);
    return stream_.get();
  }

  bool run(std::int64_t, member_list& members) override {
    switch (kind_of(members.front().work)) {
      case collective_kind::all_reduce:
        reduce(all_of<all_reduce>(members));
        break;
      case collective_kind::reduce_scatter:
        scatter(members, all_of<reduce_scatter>(members));
        break;
      case collective_kind::all_gather:
        gather(members);
        break;
      case collective_kind::tied_sum:
        sum(all_of<tied_sum>(members));
        break;
    }
    return true;
  }

 private:
  void reduce(const std::vector<all_reduce*>& members) const {
    for (std::size_t i = 0; i < members.front()->gradients.size(); ++i) {
      const auto mean = mean_.of(nth_of(members, i));
      for (std::size_t r = 0; r < members.size(); ++r) {
        auto& own = members[r]->gradients[i];
        if (own.scalar_type() != mean.scalar_type())
          own = r == 0 ? mean : mean.clone();
        else if (!own.is_same(mean))
          own.copy_(mean);
      }
    }
    share_absent(members);
  }

  /// Whole gradients are freed: a member's pieces are copies.
  void scatter(const member_list& requests,
               const std::vector<reduce_scatter*>& members) const {
    const auto& layouts = members.front()->layouts;
    const auto shards = layouts.at(0)->shards();
    std::vector<tensor_list> results(members.size());
    for (std::int32_t shard = 0; shard < shards; ++shard)
      for (const auto& piece : pieces_of(layouts, shard)) {
        tensor_list same;
        for (const auto& whole : nth_of(members, piece.parameter))
          same.push_back(whole.reshape(-1).narrow(0, piece.begin, piece.count));
        const auto mean = mean_.of(same);
        for (std::size_t m = 0; m < members.size(); ++m)
          if (requests[m].data_rank % shards == shard)
            results[m].push_back(mean.clone());
      }
    for (std::size_t m = 0; m < members.size(); ++m)
      members[m]->gradients = std::move(results[m]);
    share_absent(members);
  }

  static void gather(member_list& members) {
    for (auto& reader : members)
      for (const auto& giver : members) {
        const auto& into = std::get<all_gather>(reader.work);
        const auto& from = std::get<all_gather>(giver.work);
        const auto shards = into.layouts.at(0)->shards();
        if (giver.owner.copy != reader.owner.copy
            || giver.data_rank / shards != reader.data_rank / shards)
          continue;
        const auto shard = giver.data_rank % shards;
        for (std::size_t row = 0; row < into.rows.size(); ++row) {
          const auto& layout = *into.layouts[row];
          const auto& values = from.shards[row];
          const auto place =
            into.rows[row].narrow(0, layout.begin(shard), layout.length(shard));
          // Where parameters stay whole, a shard is a part of them.
          if (!place.is_alias_of(values))
            place.copy_(values);
        }
      }
  }

  /// Members are by stage, so that holders are in model order.
  static void sum(const std::vector<tied_sum*>& members) {
    std::map<std::int32_t, tied_holders> held;
    for (auto* member : members)
      for (auto& [tie, own] : holders_of(*member)) {
        auto& all = held[tie];
        std::ranges::move(own.gradients, std::back_inserter(all.gradients));
        std::ranges::move(own.parameters, std::back_inserter(all.parameters));
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

absent_list common(const absent_list& some, const absent_list& others) {
  absent_list both;
  std::ranges::set_intersection(some, others, std::back_inserter(both));
  return both;
}

tensor_list pieces_of(const reduce_scatter& work, std::int32_t shard) {
  tensor_list parts;
  for (const auto& piece : pieces_of(work.layouts, shard))
    parts.push_back(work.gradients[piece.parameter].reshape(-1).narrow(
      0, piece.begin, piece.count));
  return parts;
}

std::unique_ptr<collectives> make_local_collectives(gradient_mean mean) {
  return std::make_unique<local_collectives>(mean);
}

}  // namespace troupe
