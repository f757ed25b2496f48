#include "troupe/actors/coordination/loader_actor.hpp"

#include <algorithm>
#include <optional>

#include "troupe/actors/system/spin_sharing.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/device/clock.hpp"

namespace troupe {

void loader_core::begin(const step_context& step, source_pointer source) {
  const auto microbatches = step.plan->microbatches;
  const auto first = index_of(step, 0);
  // Prefetched microbatches are used only if the run continues where it was.
  if (source != source_ || microbatches != microbatches_
      || !ready_.contains(first)) {
    ready_.clear();
    counts_.clear();
  }
  source_ = std::move(source);
  training_ = step.settings.training();
  microbatches_ = microbatches;
  first_ = first;
  step_first_ = step.settings.first_microbatch;
  counts_.erase(counts_.begin(), counts_.lower_bound(step_first_));
  updates_.clear();
  update_every_ = microbatches_of_update(*step.plan);
  next_counted_ = step_first_ + period();
  count_consumers(step.plan);
  next_ = ready_.empty() ? first : after(ready_.rbegin()->first);
}

/// A microbatch runs through one copy of the stages.
void loader_core::count_consumers(const plan_pointer& plan) {
  if (plan == counted_)
    return;
  counted_ = plan;
  consumers_.assign(static_cast<std::size_t>(microbatches_),
                    setup_.consumers.front());
  if (plan->placement.copies() == 1)
    return;
  for (const auto& op : plan->ops)
    if (op.kind == plan_op_kind::forward)
      consumers_[static_cast<std::size_t>(op.microbatch)] =
        setup_.consumers.at(static_cast<std::size_t>(op.copy));
}

std::int32_t loader_core::consumers_of(std::int64_t index) const {
  return consumers_[static_cast<std::size_t>(place_of(index).microbatch)];
}

std::int64_t loader_core::index_of(const step_context& step,
                                   std::int32_t microbatch) const {
  return step.settings.first_microbatch
         + std::int64_t{setup_.data_rank} * step.plan->microbatches
         + microbatch;
}

/// The next one that a stage here takes.
std::int64_t loader_core::after(std::int64_t index) const {
  const auto others = std::int64_t{setup_.data_ranks - 1} * microbatches_;
  do {
    const bool ends_step =
      (index + 1 - first_) % (microbatches_ + others) == microbatches_;
    index += 1 + (ends_step ? others : 0);
  } while (consumers_of(index) == 0);
  return index;
}

std::shared_ptr<const microbatch_data> loader_core::load(std::int64_t index) {
  loading_ = index;
  if (source_->size() >= 0 && index >= source_->size())
    fail(error_code::invalid_data,
         "the data source has {} microbatches, but number {} (from 0) was "
         "requested; give more data or train fewer steps",
         source_->size(), index);
  const auto begin = now_ns();
  const load_board::call running(setup_.board.get(), setup_.data_rank, index);
  auto data = std::make_shared<const microbatch_data>(source_->at(index));
  const auto seconds = static_cast<double>(now_ns() - begin) * 1e-9;
  if (seconds > setup_.loading.slow_seconds)
    report_slow_(place_of(index), seconds);
  return data;
}

loader_core::place loader_core::place_of(std::int64_t index) const {
  const auto offset = index - step_first_;
  return {offset / period(), static_cast<std::int32_t>(offset % microbatches_),
          static_cast<std::int32_t>(offset % period() / microbatches_)};
}

loaded_data loader_core::on(const want_data& request) {
  const auto index = index_of(*request.step, request.microbatch);
  auto place = ready_.find(index);
  if (place == ready_.end()) {
    place = ready_.emplace(index, item{load(index), 0}).first;
    next_ = std::max(next_, after(index));
  }
  loaded_data answer{request.step->serial, request.reader, request.microbatch,
                     0, with_update_items(index, place->second.data, request)};
  answer.sent = now_ns();
  if (++place->second.taken == consumers_of(index))
    ready_.erase(place);
  return answer;
}

/// Adds the items of the microbatch's update for a stage with losses. Other
/// stages get the microbatch as it is, so that they wait for no count.
std::shared_ptr<const microbatch_data> loader_core::with_update_items(
  std::int64_t index, const std::shared_ptr<const microbatch_data>& data,
  const want_data& request) {
  const auto& with_losses = setup_.has_losses;
  const bool has_losses =
    with_losses.empty()
    || with_losses[static_cast<std::size_t>(request.reader.stage)];
  const auto slices = request.step->plan->slices;
  if (!setup_.counter || !training_ || !has_losses || !data->items.empty()
      || (source_->counts_equally() && slices == 1))
    return data;
  const auto& own = counts_of(index);
  return std::make_shared<const microbatch_data>(with_items(
    *data, setup_.counter, own,
    {counts_of_update(request.microbatch), setup_.data_ranks, slices}));
}

/// Loads the microbatch if need be, and keeps it if it is one of this replica.
const item_counts& loader_core::counts_of(std::int64_t index) {
  if (const auto counts = counts_.find(index); counts != counts_.end())
    return counts->second;
  const auto ready = ready_.find(index);
  const auto data = ready == ready_.end() ? load(index) : ready->second.data;
  if (ready == ready_.end() && place_of(index).data_rank == setup_.data_rank
      && consumers_of(index) > 0) {
    ready_.emplace(index, item{data, 0});
    next_ = std::max(next_, after(index));
  }
  item_counts counts;
  add(counts, setup_.counter(*data));
  return counts_.emplace(index, std::move(counts)).first->second;
}

/// Adds up the counts of an update's microbatches of all replicas.
const item_counts& loader_core::counts_of_update(std::int32_t microbatch) {
  const auto number = microbatch / update_every_;
  const auto [entry, is_new] = updates_.try_emplace(number);
  if (!is_new)
    return entry->second;
  const auto begin = number * update_every_;
  const auto end = std::min(begin + update_every_, microbatches_);
  item_counts sum;
  for (std::int32_t d = 0; d < setup_.data_ranks; ++d)
    for (auto k = begin; k < end; ++k)
      add(sum,
          counts_of(source_->counts_equally()
                      ? first_ + microbatch
                      : step_first_ + std::int64_t{d} * microbatches_ + k));
  return entry->second = std::move(sum);
}

bool loader_core::prefetch() {
  const auto untouched = std::ranges::count_if(
    ready_, [](const auto& entry) { return entry.second.taken == 0; });
  const bool past_end = source_->size() >= 0 && next_ >= source_->size();
  const bool past_step = !training_ && next_ >= first_ + microbatches_;
  if (untouched >= setup_.loading.prefetch || past_end || past_step)
    return count_ahead();
  ready_.emplace(next_, item{load(next_), 0});
  next_ = after(next_);
  return true;
}

/// Counts a microbatch of another replica, of the next step.
bool loader_core::count_ahead() {
  if (updates_.empty() || source_->counts_equally())
    return false;
  const auto end = step_first_ + 2 * period();
  while (next_counted_ < end
         && place_of(next_counted_).data_rank == setup_.data_rank)
    ++next_counted_;
  if (next_counted_ >= end
      || (source_->size() >= 0 && next_counted_ >= source_->size()))
    return false;
  counts_of(next_counted_++);
  return true;
}

namespace {

struct loader_state {
  caf::event_based_actor* self;
  loader_setup setup;
  address_book_pointer book;
  handler_guard guard;
  std::unique_ptr<loader_core> core = {};
  event_source now = {};
  bool prefetching = false;
  std::int64_t last_load_ns = 0;

  void handle(const std::function<void()>& work) {
    guard.run(
      self, *book,
      [this] {
        return op_failure{source_of(core->loading()), "load", {}};
      },
      work);
  }

  event_source source_of(const loader_core::place& position) const {
    auto source = now;
    source.step += position.steps_ahead;
    source.microbatch = position.microbatch;
    source.data_rank = position.data_rank;
    return source;
  }
  void report_slow(const loader_core::place& position, double seconds) {
    book->publish(slow_load_event{source_of(position), seconds});
  }

  void begin(const begin_step& message) {
    const auto& settings = message.step->settings;
    if (settings.part == step_part::update)
      return;  // which needs no data
    now.step = settings.step;
    now.phase = settings.phase;
    now.data_rank = setup.data_rank;
    core->begin(*message.step, message.step->source);
  }

  /// A load that takes long may wait for a disk. The one before tells, as
  /// letting another worker run costs more than most loads.
  template <class Load>
  auto loading(Load&& load) {
    constexpr std::int64_t long_ns = 200'000;
    std::optional<waiting_elsewhere> section;
    if (last_load_ns > long_ns)
      section.emplace(self->system());
    const auto begin = now_ns();
    auto loaded = load();
    last_load_ns = now_ns() - begin;
    return loaded;
  }

  void serve(const want_data& request) {
    self->send(book->stage(setup.data_rank, request.reader),
               loading([&] { return core->on(request); }));
    if (!std::exchange(prefetching, true))
      self->send(self, prefetch_data{});
  }

  /// A failed prefetch is retried, and reported, when the microbatch is wanted.
  void prefetch() {
    try {
      prefetching = loading([&] { return core->prefetch(); });
    } catch (...) {
      prefetching = false;
    }
    if (prefetching)
      self->send(self, prefetch_data{});
  }
};

}  // namespace

behavior_for<loader_handle> loader_actor(caf::event_based_actor* self,
                                         loader_setup setup,
                                         const address_book_pointer& book,
                                         const handler_hook& hook) {
  auto state =
    std::make_shared<loader_state>(loader_state{self, setup, book, {hook}});
  state->core = std::make_unique<loader_core>(
    setup, [at = state.get()](const loader_core::place& place, double seconds) {
      at->report_slow(place, seconds);
    });
  return {
    [state](const begin_step& message) {
      state->handle([&] { state->begin(message); });
    },
    [state](const want_data& request) {
      state->handle([&] { state->serve(request); });
    },
    [state](prefetch_data) { state->handle([&] { state->prefetch(); }); }};
}

}  // namespace troupe
