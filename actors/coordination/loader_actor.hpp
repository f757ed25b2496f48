#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "troupe/actors/job/address_book.hpp"
#include "troupe/actors/step/execution_options.hpp"
#include "troupe/actors/step/load_board.hpp"
#include "troupe/actors/step/messages.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/stage/module/loss_items.hpp"

namespace troupe {

struct loader_setup {
  std::int32_t data_rank = 0;
  std::int32_t data_ranks = 1;
  /// By copy of the stages: how many stages here take each of its microbatches.
  std::vector<std::int32_t> consumers = {1};
  loading_options loading = {};
  std::shared_ptr<load_board> board = {};  // null: nobody looks
  item_counter counter = {};               // null: no loss counts its items
  /// By stage: whether it computes losses, for which items are counted; empty:
  /// all do.
  std::vector<bool> has_losses = {};
};

/// Makes one replica's microbatches when they are wanted, and ahead of that,
/// holding at most `prefetch` that nobody has asked for. One thread.
class loader_core {
 public:
  /// A microbatch, by its number in its step and replica; prefetching, that may
  /// be one of the steps to come.
  struct place {
    std::int64_t steps_ahead = 0;
    std::int32_t microbatch = 0;
    std::int32_t data_rank = 0;
  };
  using slow_report =
    std::function<void(const place& position, double seconds)>;

  loader_core(loader_setup setup, slow_report report_slow)
    : setup_(setup), report_slow_(std::move(report_slow)) {}

  /// Another source drops what was prefetched.
  void begin(const step_context& step, source_pointer source);
  /// Throws what the source throws; `invalid_data` past a source's end.
  loaded_data on(const want_data& request);
  /// Makes one microbatch ahead, or counts one of another replica; false if
  /// enough are ready.
  bool prefetch();
  /// The microbatches that were made, and that nobody has taken yet.
  std::size_t ready() const { return ready_.size(); }
  /// The microbatch that is being made, or that could not be made.
  place loading() const { return place_of(loading_); }
  /// Global index of a step's microbatch for this replica.
  std::int64_t index_of(const step_context& step,
                        std::int32_t microbatch) const;

 private:
  struct item {
    std::shared_ptr<const microbatch_data> data;
    std::int32_t taken = 0;
  };
  std::shared_ptr<const microbatch_data> load(std::int64_t index);
  std::int64_t after(std::int64_t index) const;
  void count_consumers(const plan_pointer& plan);
  std::int32_t consumers_of(std::int64_t index) const;
  place place_of(std::int64_t index) const;
  std::int64_t period() const {  // microbatches of a step
    return std::int64_t{setup_.data_ranks} * microbatches_;
  }
  std::shared_ptr<const microbatch_data> with_update_items(
    std::int64_t index, const std::shared_ptr<const microbatch_data>& data,
    const want_data& request);
  const item_counts& counts_of(std::int64_t index);
  const item_counts& counts_of_update(std::int32_t microbatch);
  bool count_ahead();

  loader_setup setup_;
  slow_report report_slow_;
  source_pointer source_;
  bool training_ = true;
  std::int32_t microbatches_ = 1;
  plan_pointer counted_;
  std::vector<std::int32_t> consumers_;  // by microbatch of that plan
  std::int64_t step_first_ = 0;          // of all replicas
  std::int64_t first_ = 0;               // of this one
  std::int64_t next_ = 0;
  std::map<std::int64_t, item> ready_;
  std::int64_t loading_ = 0;
  std::int32_t update_every_ = 1;  // microbatches of a replica
  std::int64_t next_counted_ = 0;
  std::map<std::int64_t, item_counts> counts_;  // by microbatch, from first_ on
  std::map<std::int32_t, item_counts> updates_;  // of the step, by number
};

/// The data loader of one replica: the actor around a `loader_core`.
behavior_for<loader_handle> loader_actor(caf::event_based_actor* self,
                                         loader_setup setup,
                                         const address_book_pointer& book,
                                         const handler_hook& hook);

}  // namespace troupe
