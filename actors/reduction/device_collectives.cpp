#include "troupe/actors/reduction/device_collectives.hpp"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <map>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/stage/ties.hpp"

namespace troupe {

namespace {

class device_collectives final : public collectives {
 public:
  device_collectives(std::shared_ptr<device_links> links, std::int32_t stage)
    : links_(std::move(links)), stage_(stage) {}

  bool spans_processes() const override { return true; }
  device_stream* stream(const collective_request& own) override {
    return gathers_between_processes(own)
             ? &links_->gather_stream(stage_, own.data_rank, own.owner.copy)
             : &links_->reduction_stream(stage_);
  }
  bool run(std::int64_t, std::vector<collective_request>& members) override {
    for (auto& each : members)
      switch (each.work.kind) {
        case collective_kind::all_reduce:
          links_->all_reduce(stage_, each.work.tensors);
          break;
        case collective_kind::reduce_scatter:
          reduce_scatter(each);
          break;
        case collective_kind::all_gather:
          all_gather(each);
          break;
        case collective_kind::tied_sum:
          fail(error_code::internal,
               "stage {} does not sum tied gradients alone", stage_);
      }
    return true;
  }

 private:
  static bool gathers_between_processes(const collective_request& own) {
    return own.work.kind == collective_kind::all_gather
           && own.work.layouts.at(0)->shards() > 1;
  }

  /// The row of presence, behind the gradients, is for all.
  void reduce_scatter(collective_request& own) {
    auto& work = own.work;
    if (work.tensors.empty())
      return;
    tensor_list results;
    std::size_t first = 0;  // parameter of the row
    for (const auto& layout : work.layouts) {
      const auto shard = own.data_rank % layout->shards();
      const auto part = links_->reduce_scatter(
        stage_, own.data_rank, packed(*layout, first, work.tensors), *layout);
      for (const auto& piece : layout->pieces(shard))
        results.push_back(
          part.narrow(0, piece.row - layout->begin(shard), piece.count));
      first += layout->sizes().size();
    }
    tensor_list presence{work.tensors.back()};
    links_->all_reduce(stage_, presence);
    results.push_back(presence.front());
    work.tensors = std::move(results);
  }

  static at::Tensor packed(const shard_layout& layout, std::size_t first,
                           const tensor_list& gradients) {
    const auto row =
      at::zeros({layout.padded()}, gradients.at(first).options());
    for (std::int32_t shard = 0; shard < layout.shards(); ++shard)
      for (const auto& piece : layout.pieces(shard))
        row.narrow(0, piece.row, piece.count)
          .copy_(gradients[first + piece.parameter].reshape(-1).narrow(
            0, piece.begin, piece.count));
    return row;
  }

  void all_gather(collective_request& own) {
    auto& work = own.work;
    for (std::size_t row = 0; row < work.targets.size(); ++row)
      if (gathers_between_processes(own))
        links_->all_gather(stage_, own.data_rank, own.owner.copy,
                           work.tensors[row], work.targets[row],
                           *work.layouts[row]);
      else if (!work.targets[row].is_alias_of(work.tensors[row]))
        work.targets[row].copy_(work.tensors[row]);
    work.tensors.clear();
  }

  std::shared_ptr<device_links> links_;
  std::int32_t stage_;
};

class tied_device_collectives final : public collectives {
 public:
  tied_device_collectives(std::shared_ptr<device_links> links,
                          std::int32_t data_rank, std::int8_t copy)
    : links_(std::move(links)), data_rank_(data_rank), copy_(copy) {}

  bool spans_processes() const override { return true; }
  device_stream* stream(const collective_request&) override {
    return &links_->tied_stream(data_rank_, copy_);
  }
  bool run(std::int64_t, std::vector<collective_request>& members) override {
    for (auto& each : members)
      sum(each.work);
    return true;
  }

 private:
  /// Holders within a stage are added before: a stage that is not the first and
  /// has several of one parameter makes the sum equal within rounding only. The
  /// last tensor that travels tells, by tie, whether there is a gradient.
  void sum(collective_work& work) {
    auto held = holders_of(work);
    const bool has_all = std::ranges::all_of(
      work.tensors, [](const auto& each) { return each.defined(); });
    tensor_list sums;
    std::vector<float> has;
    for (auto& [tie, holders] : held) {
      sum_tied(holders);
      auto& own = *holders.gradients.front();
      has.push_back(own.defined() ? 1 : 0);
      if (!own.defined())
        own = at::zeros_like(holders.like.front());
      sums.push_back(own);
    }
    sums.push_back(
      to_device(at::tensor(has), links_->tied_stream(data_rank_, copy_)));
    links_->sum_tied(data_rank_, copy_, sums);
    std::size_t next = 0;
    for (auto& [tie, holders] : held) {
      const auto& total = sums[next++];
      for (auto* each : holders.gradients)
        *each = each == holders.gradients.front() ? total : total.clone();
    }
    if (!has_all)
      work.tensors.push_back(presence_row(work, sums.back()));
  }

  /// By parameter, as `put_gradients` takes it. `there`: by tie.
  at::Tensor presence_row(const collective_work& work,
                          const at::Tensor& there) {
    std::vector<float> has;
    for (const auto& each : work.tensors)
      has.push_back(each.defined() ? 1 : 0);
    auto row =
      to_device(at::tensor(has), links_->tied_stream(data_rank_, copy_));
    std::map<std::int32_t, std::int64_t> number;
    for (const auto& each : work.tied)
      number.emplace(each.tie, std::ssize(number));
    for (const auto& each : work.tied)
      row.narrow(0, static_cast<std::int64_t>(each.position), 1)
        .copy_(there.narrow(0, number.at(each.tie), 1));
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
