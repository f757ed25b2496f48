#include "troupe/actors/reduction/device_collectives.hpp"

#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <map>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/stage/ties.hpp"

namespace troupe {

namespace {

/// A row on the stream's device: 0 for the positions listed, 1 for others.
at::Tensor presence_row(const absent_list& absent, std::size_t size,
                        at::ScalarType type, device_stream& stream) {
  std::vector<float> values(size, 1);
  for (const auto i : absent)
    values.at(i) = 0;
  return to_device(at::tensor(values).to(type), stream);
}

class device_collectives final : public collectives {
 public:
  device_collectives(std::shared_ptr<device_links> links, std::int32_t stage)
    : links_(std::move(links)), stage_(stage) {}

  device_stream* stream(const collective_request& own) override {
    const auto* gathered = std::get_if<all_gather>(&own.work);
    return gathered && between_processes(*gathered)
             ? &links_->gather_stream(stage_, own.data_rank, own.owner.copy)
             : &links_->reduction_stream(stage_);
  }
  bool run(std::int64_t, std::vector<collective_request>& members) override {
    for (auto& each : members)
      std::visit([&](auto& work) { run(each, work); }, each.work);
    return true;
  }

 private:
  static bool between_processes(const all_gather& work) {
    return work.layouts.at(0)->shards() > 1;
  }

  void run(const collective_request&, all_reduce& work) {
    if (work.gradients.empty())
      return;
    auto tensors = std::move(work.gradients);
    tensors.push_back(row_of(work, tensors.size(), tensors.front()));
    links_->all_reduce(stage_, tensors);
    tell_presence(work, std::move(tensors.back()));
    tensors.pop_back();
    work.gradients = std::move(tensors);
  }

  void run(const collective_request& own, reduce_scatter& work) {
    if (work.gradients.empty())
      return;
    tensor_list results;
    std::size_t first = 0;  // parameter of the row
    for (const auto& layout : work.layouts) {
      const auto shard = own.data_rank % layout->shards();
      const auto part = links_->reduce_scatter(
        stage_, own.data_rank, packed(*layout, first, work.gradients), *layout);
      for (const auto& piece : layout->pieces(shard))
        results.push_back(
          part.narrow(0, piece.row - layout->begin(shard), piece.count));
      first += layout->sizes().size();
    }
    tensor_list presence{
      row_of(work, work.gradients.size(), work.gradients.front())};
    links_->all_reduce(stage_, presence);
    tell_presence(work, std::move(presence.front()));
    work.gradients = std::move(results);
  }

  void run(const collective_request& own, all_gather& work) {
    for (std::size_t row = 0; row < work.rows.size(); ++row)
      if (between_processes(work))
        links_->all_gather(stage_, own.data_rank, own.owner.copy,
                           work.shards[row], work.rows[row],
                           *work.layouts[row]);
      else if (!work.rows[row].is_alias_of(work.shards[row]))
        work.rows[row].copy_(work.shards[row]);
  }

  void run(const collective_request&, tied_sum&) {
    fail(error_code::internal, "stage {} does not sum tied gradients alone",
         stage_);
  }

  /// Copied to the device only when it changes.
  at::Tensor row_of(const reduction& work, std::size_t size,
                    const at::Tensor& like) {
    if (!row_.defined() || work.absent != absent_)
      row_ = presence_row(work.absent, size, like.scalar_type(),
                          links_->reduction_stream(stage_));
    absent_ = work.absent;
    return row_.clone();
  }

  /// Other members may have what this one lacks: only the device knows. The
  /// host would wait for it here before sends that others wait for; so
  /// `put_gradients` reads the row.
  static void tell_presence(reduction& work, at::Tensor row) {
    if (!std::exchange(work.absent, {}).empty())
      work.present = std::move(row);
  }

  static at::Tensor packed(const shard_layout& layout, std::size_t first,
                           const tensor_list& gradients) {
    const auto row = at::zeros({layout.padded()}, gradients.front().options());
    for (std::int32_t shard = 0; shard < layout.shards(); ++shard)
      for (const auto& piece : layout.pieces(shard))
        row.narrow(0, piece.row, piece.count)
          .copy_(gradients[first + piece.parameter].reshape(-1).narrow(
            0, piece.begin, piece.count));
    return row;
  }

  std::shared_ptr<device_links> links_;
  std::int32_t stage_;
  absent_list absent_;
  at::Tensor row_;  // of these
};

class tied_device_collectives final : public collectives {
 public:
  tied_device_collectives(std::shared_ptr<device_links> links,
                          std::int32_t data_rank, std::int8_t copy)
    : links_(std::move(links)), data_rank_(data_rank), copy_(copy) {}

  device_stream* stream(const collective_request&) override {
    return &links_->tied_stream(data_rank_, copy_);
  }
  bool run(std::int64_t, std::vector<collective_request>& members) override {
    for (auto& each : members)
      sum(std::get<tied_sum>(each.work));
    return true;
  }

 private:
  /// Holders within a stage are added before: a stage that is not the first and
  /// has several of one parameter makes the sum equal within rounding only. The
  /// last tensor that travels tells, by tie, whether there is a gradient.
  void sum(tied_sum& work) {
    auto held = holders_of(work);
    const bool has_all = std::ranges::all_of(
      work.gradients, [](const auto& each) { return each.defined(); });
    tensor_list sums;
    absent_list ties;  // without a gradient here
    for (auto& [tie, holders] : held) {
      sum_tied(holders);
      auto& own = *holders.gradients.front();
      if (!own.defined()) {
        ties.push_back(static_cast<std::uint32_t>(sums.size()));
        own = at::zeros_like(holders.parameters.front());
      }
      sums.push_back(own);
    }
    auto& stream = links_->tied_stream(data_rank_, copy_);
    sums.push_back(presence_row(ties, held.size(), at::kFloat, stream));
    links_->sum_tied(data_rank_, copy_, sums);
    std::size_t next = 0;
    for (auto& [tie, holders] : held) {
      const auto& total = sums[next++];
      for (auto* each : holders.gradients)
        *each = each == holders.gradients.front() ? total : total.clone();
    }
    if (!has_all)
      work.present = presence_of(work, sums.back());
  }

  /// The presence of each gradient, from that of each tie's sum. Gradients that
  /// are not tied count as present: the undefined ones stay undefined.
  static at::Tensor presence_of(const tied_sum& work,
                                const at::Tensor& presence_by_tie) {
    auto row =
      at::ones({std::ssize(work.gradients)}, presence_by_tie.options());
    std::map<std::int32_t, std::int64_t> number;
    for (const auto& each : work.tied)
      number.emplace(each.tie, std::ssize(number));
    for (const auto& each : work.tied)
      row.narrow(0, static_cast<std::int64_t>(each.position), 1)
        .copy_(presence_by_tie.narrow(0, number.at(each.tie), 1));
    return row;
  }

  std::shared_ptr<device_links> links_;
  std::int32_t data_rank_;
  std::int8_t copy_;
};

}  // namespace

std::unique_ptr<collectives> make_tied_device_collectives(
  std::shared_ptr<device_links> links, std::int32_t data_rank,
  std::int8_t copy) {
  return std::make_unique<tied_device_collectives>(std::move(links), data_rank,
                                                   copy);
}

std::unique_ptr<collectives> make_device_collectives(
  std::shared_ptr<device_links> links, std::int32_t stage) {
  return std::make_unique<device_collectives>(std::move(links), stage);
}

}  // namespace troupe
