#include "troupe/engine/generation/sequence_batches.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "troupe/base/fail.hpp"

namespace troupe {

namespace {

constexpr auto none_there = generation_step::no_batch;

/// [rows, positions] of rows of equal length.
at::Tensor tensor_of(const std::vector<std::vector<std::int64_t>>& rows) {
  const auto length = rows.empty() ? 0 : std::ssize(rows.front());
  auto result = at::empty({std::ssize(rows), length}, at::kLong);
  auto* next = result.mutable_data_ptr<std::int64_t>();
  for (const auto& row : rows)
    next = std::ranges::copy(row, next).out;
  return result;
}

}  // namespace

sequence_batches::sequence_batches(std::vector<generation_request> requests,
                                   const generation_options& options,
                                   std::size_t slots, std::int64_t first_batch)
  : options_(std::make_unique<generation_options>(options)),
    next_batch_(first_batch) {
  require_legal(requests, options);
  for (auto& each : requests) {
    auto& stream = each.sampling.stream;
    stream = stream.value_or(sequences_.size());
    sequences_.emplace_back(std::move(each), *options_);
  }
  queue_batches();
  slots_.assign(std::min(slots, std::max<std::size_t>(waiting_.size(), 1)),
                none_there);
}

/// Prompts of equal length share batches, in their order.
void sequence_batches::queue_batches() {
  std::map<std::size_t, std::size_t> open;  // by length: a batch with room
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i].ended())
      continue;
    const auto length = sequences_[i].prompt().size();
    const auto [found, is_new] = open.emplace(length, waiting_.size());
    if (is_new || std::ssize(waiting_[found->second]) == options_->rows) {
      found->second = waiting_.size();
      waiting_.emplace_back();
    }
    waiting_[found->second].push_back(i);
  }
  std::ranges::reverse(waiting_);
}

bool sequence_batches::finished() const {
  return std::ranges::all_of(sequences_,
                             [](const auto& each) { return each.ended(); });
}

std::int64_t sequence_batches::left(const batch& of) const {
  std::int64_t most = 0;
  for (const auto row : of.rows)
    most = std::max(most, sequences_[row].left());
  return most;
}

generation_step sequence_batches::begin_step() {
  generation_step step;
  std::int64_t longest = 1;
  for (auto& slot : slots_) {
    if (slot != none_there) {
      auto& there = running_.at(slot);
      const auto before = std::ssize(there.rows);
      const auto kept = drop_ended_rows(there);
      if (kept.empty()) {
        running_.erase(slot);
        slot = none_there;
      } else if (std::ssize(kept) < before) {
        step.kept_rows.emplace(slot, kept);
      }
    }
    if (slot == none_there && !waiting_.empty()) {
      slot = next_batch_++;
      running_[slot].rows = std::move(waiting_.back());
      waiting_.pop_back();
    }
    if (slot != none_there)
      longest = std::max(longest, left(running_.at(slot)));
    step.batches.push_back(slot);
    step.rows.push_back(
      slot == none_there ? 0 : std::ssize(running_.at(slot).rows));
  }
  // Powers of two, so that few plans do; sequences that end before do nothing.
  const auto most =
    std::min(static_cast<std::uint64_t>(options_->positions),
             std::bit_ceil(static_cast<std::uint64_t>(longest)));
  positions_ = std::clamp(2 * positions_, 1, static_cast<std::int32_t>(most));
  return step;
}

/// Returns which are kept.
std::vector<std::int64_t> sequence_batches::drop_ended_rows(batch& of) {
  std::vector<std::int64_t> kept, last;
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < of.rows.size(); ++i)
    if (!sequences_[of.rows[i]].ended()) {
      kept.push_back(static_cast<std::int64_t>(i));
      rows.push_back(of.rows[i]);
      last.push_back(of.last.at(i));
    }
  of.rows = std::move(rows);
  of.last = std::move(last);
  of.chosen.clear();
  return kept;
}

microbatch_data sequence_batches::data(std::size_t slot) const {
  microbatch_data result;
  const auto number = slots_.at(slot);
  if (number == none_there)
    return result;
  const auto& here = running_.at(number);
  std::vector<std::vector<std::int64_t>> rows;
  for (std::size_t i = 0; i < here.rows.size(); ++i)
    rows.push_back(here.last.empty() ? sequences_[here.rows[i]].prompt()
                                     : std::vector<std::int64_t>{here.last[i]});
  result.inputs = {tensor_of(rows)};
  result.tokens = result.inputs[0].numel();
  return result;
}

/// Rows that have ended go on, without effect, until the step ends. Returns
/// whether one goes on.
bool sequence_batches::append(batch& to, const std::vector<std::int64_t>& ids) {
  bool goes_on = false;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    auto& sequence = sequences_[to.rows[i]];
    sequence.append(ids[i]);
    goes_on |= !sequence.ended();
  }
  to.last = ids;
  to.chosen.push_back(ids);
  return goes_on;
}

at::Tensor sequence_batches::choose(std::int64_t number,
                                    const at::Tensor& logits) {
  auto& to = running_.at(number);
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; i < to.rows.size(); ++i)
    ids.push_back(sequences_[to.rows[i]].choose(
      logits.select(0, static_cast<std::int64_t>(i))));
  const bool goes_on = append(to, ids);
  return goes_on ? at::tensor(ids, at::kLong).unsqueeze(1) : at::Tensor{};
}

at::Tensor sequence_batches::chosen(std::size_t slot) const {
  const auto number = slots_.at(slot);
  return number == none_there ? tensor_of({})
                              : tensor_of(running_.at(number).chosen);
}

void sequence_batches::take(std::size_t slot, const at::Tensor& chosen) {
  const auto number = slots_.at(slot);
  if (number == none_there)
    return;
  auto& to = running_.at(number);
  const auto rows = std::ssize(to.rows);
  if (chosen.dim() != 2 || chosen.scalar_type() != at::kLong
      || (chosen.size(0) > 0 && chosen.size(1) != rows))
    fail(error_code::transport,
         "another process sent tokens whose shape does not fit {} sequences",
         rows);
  const auto all = chosen.contiguous();
  const auto* next = all.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < all.size(0); ++i, next += rows)
    append(to, {next, next + rows});
}

void sequence_batches::end_step(const generation_listener& told) {
  if (!told)
    return;
  for (const auto slot : slots_)
    if (slot != none_there && !running_.at(slot).chosen.empty())
      for (const auto row : running_.at(slot).rows)
        told(row, sequences_[row].so_far());
}

std::vector<generated> sequence_batches::results() const {
  std::vector<generated> all;
  for (const auto& each : sequences_)
    all.push_back(each.so_far());
  return all;
}

}  // namespace troupe
