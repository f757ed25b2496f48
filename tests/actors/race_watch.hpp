#pragma once

#include <ATen/core/Tensor.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::testing {

/// How much of each stream's work precedes; stream 0 is the host.
using vector_clock = std::map<int, std::int64_t>;

inline void join(vector_clock& into, const vector_clock& other) {
  for (const auto& [stream, tick] : other)
    into[stream] = std::max(into[stream], tick);
}

/// The stream that the calling thread has entered.
inline thread_local int current_stream = 0;

/// Which streams read and wrote which memory, and the order that events
/// guarantee. Any thread.
class race_watch {
 public:
  int add_stream() {
    const std::scoped_lock lock(mutex_);
    clocks_[++streams_] = clocks_[0];
    return streams_;
  }
  vector_clock now(int stream) {
    const std::scoped_lock lock(mutex_);
    return clocks_[stream];
  }
  void wait_for(int stream, const vector_clock& event) {
    const std::scoped_lock lock(mutex_);
    join(clocks_[stream], event);
  }
  /// When a stream completes its work, in ns of the host's clock: now, or later
  /// if it was told to be busy.
  std::int64_t done_at(int stream, std::int64_t now) {
    const std::scoped_lock lock(mutex_);
    return std::max(now, busy_until_[stream]);
  }
  void keep_busy(int stream, std::int64_t until) {
    const std::scoped_lock lock(mutex_);
    auto& busy = busy_until_[stream];
    busy = std::max(busy, until);
  }
  /// Whether the host has waited for an event.
  bool host_knows(const vector_clock& event) {
    const std::scoped_lock lock(mutex_);
    const auto& host = clocks_[0];
    return std::ranges::all_of(event, [&](const auto& part) {
      const auto at = host.find(part.first);
      return at != host.end() && at->second >= part.second;
    });
  }
  /// Whether a stream allocated the tensor; on a device it would be in that
  /// stream's memory.
  bool made_by_stream(const at::Tensor& tensor) {
    const std::scoped_lock lock(mutex_);
    const auto* state = find(tensor);
    return state && state->origin != 0;
  }
  void uses(int stream, const at::Tensor& tensor) {
    if (!tensor.defined())
      return;
    const std::scoped_lock lock(mutex_);
    if (auto* state = find(tensor))
      state->users.insert(stream);
  }

  /// Records an operator that has run, with what it read and wrote.
  void ran(const char* name, const std::vector<at::Tensor>& reads,
           const std::vector<at::Tensor>& writes) {
    const std::scoped_lock lock(mutex_);
    const auto stream = current_stream;
    auto& clock = clocks_[stream];
    join(clock, clocks_[0]);  // the host waited before it launched this
    const auto tick = ++clock[stream];
    watched_ += stream == 0 ? 0 : 1;
    if (stream == 0 && !writes.empty())
      check_host(name, reads);
    for (const auto& tensor : reads)
      if (auto* state = find(tensor)) {
        check(name, "reads", stream, clock, *state, false);
        if (!writes.empty() && !copies(name))  // otherwise it returned a view
          check_place(name, stream, *state);
        state->reads[stream] = tick;
      }
    for (const auto& tensor : writes) {
      auto* state = find(tensor);
      if (state) {
        check(name, "writes", stream, clock, *state, true);
        check_place(name, stream, *state);
      } else {
        state = add(tensor, stream);
      }
      state->writer = stream;
      state->written = tick;
      state->reads.clear();
    }
  }

  void note(const std::string& trouble) {
    const std::scoped_lock lock(mutex_);
    races_.insert(trouble);
  }

  /// Whether streams have made, changed or read the tensor.
  bool is_on_device(const at::Tensor& tensor) {
    const std::scoped_lock lock(mutex_);
    const auto* state = find(tensor);
    return state
           && (state->origin != 0 || state->writer != 0
               || std::ranges::any_of(state->reads, [](const auto& read) {
                    return read.first != 0;
                  }));
  }

  std::vector<std::string> races() const {
    const std::scoped_lock lock(mutex_);
    return {races_.begin(), races_.end()};
  }
  std::size_t watched() const {
    const std::scoped_lock lock(mutex_);
    return watched_;
  }

 private:
  struct storage_state {
    c10::weak_intrusive_ptr<c10::StorageImpl> holder;  // keeps its address
    int origin = 0;
    int writer = 0;
    std::int64_t written = 0;
    std::map<int, std::int64_t> reads;
    std::set<int> users;
  };

  storage_state* find(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage())
      return nullptr;
    const auto at = states_.find(tensor.storage().unsafeGetStorageImpl());
    return at == states_.end() ? nullptr : &at->second;
  }
  storage_state* add(const at::Tensor& tensor, int stream) {
    if (!tensor.defined() || !tensor.has_storage())
      return &nowhere_;
    storage_state state{
      tensor.storage().getWeakStorageImpl(), stream, stream, 0, {}, {stream}};
    return &states_
              .emplace(tensor.storage().unsafeGetStorageImpl(),
                       std::move(state))
              .first->second;
  }

  void check(const char* name, const char* does, int stream,
             const vector_clock& clock, const storage_state& state,
             bool writes) {
    const auto before = [&](int other, std::int64_t tick) {
      const auto at = clock.find(other);
      return other == stream || (at != clock.end() && at->second >= tick);
    };
    // The writes of the host were complete when the work was launched.
    if (state.writer != 0 && !before(state.writer, state.written))
      races_.insert(fmt::format("{} {} on stream {} what stream {} writes",
                                name, does, stream, state.writer));
    if (writes)
      for (const auto& [reader, tick] : state.reads)
        if (reader != 0 && !before(reader, tick))
          races_.insert(fmt::format("{} writes on stream {} what {} reads",
                                    name, stream, reader));
    if (stream != 0 && state.origin != 0 && !state.users.contains(stream))
      races_.insert(
        fmt::format("{} {} on stream {} a tensor of stream {}, "
                    "which was not told to keep it",
                    name, does, stream, state.origin));
  }

  static bool copies(const std::string_view name) {
    return name == "aten::copy_" || name == "aten::clone"
           || name == "aten::_to_copy";
  }
  /// On a device these operators would run on its default stream, which no
  /// event orders; only copies to the host may.
  void check_host(const char* name, const std::vector<at::Tensor>& reads) {
    for (const auto& tensor : reads)
      if (const auto* state = find(tensor);
          state && state->origin != 0 && !copies(name))
        races_.insert(
          fmt::format("{} computes outside of streams with a "
                      "tensor of stream {}",
                      name, state->origin));
  }
  /// Memory allocated outside of streams is host memory or the default
  /// stream's: only a copy may read it, unless the stream was told of it.
  void check_place(const char* name, int stream, const storage_state& state) {
    if (stream != 0 && state.origin == 0 && !state.users.contains(stream))
      races_.insert(fmt::format(
        "{} uses on stream {} a tensor made outside of streams", name, stream));
  }

  mutable std::mutex mutex_;
  int streams_ = 0;
  std::map<int, vector_clock> clocks_;
  std::map<int, std::int64_t> busy_until_;
  std::map<const c10::StorageImpl*, storage_state> states_;
  storage_state nowhere_{c10::weak_intrusive_ptr<c10::StorageImpl>(
                           c10::intrusive_ptr<c10::StorageImpl>()),
                         0,
                         0,
                         0,
                         {},
                         {}};
  std::set<std::string> races_;
  std::size_t watched_ = 0;
};

/// Watches every operator of LibTorch on all threads during its lifetime.
class watched_operators {
 public:
  watched_operators();
  ~watched_operators();
  watched_operators(const watched_operators&) = delete;
  watched_operators& operator=(const watched_operators&) = delete;
};

/// Null without a watch.
race_watch* active_watch();

}  // namespace troupe::testing
