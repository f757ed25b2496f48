#include "faked_graph.hpp"

#include <torch/library.h>

#include <atomic>
#include <mutex>
#include <set>

#include "faked_tape.hpp"
#include "race_watch.hpp"
#include "troupe/base/fail.hpp"

namespace troupe::testing {

namespace {

/// A dispatch key below autograd that is otherwise unused on a CPU.
constexpr auto spare_key = c10::DispatchKey::Fake;

int number_of(device_stream& stream) {
  const auto scope = stream.enter();
  return current_stream;
}

/// A recording in progress.
class faked_recording {
 public:
  faked_recording(int number, int origin) : number_(number), streams_{origin} {}

  int number() const { return number_; }
  bool has(int stream) const {
    const std::scoped_lock lock(mutex_);
    return streams_.contains(stream);
  }
  void add(int stream) {
    const std::scoped_lock lock(mutex_);
    streams_.insert(stream);
  }

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
            torch::jit::Stack& stack) {
    const std::unique_lock turn(turn_, std::try_to_lock);
    TORCH_CHECK(turn, "two threads record at once");
    tape_.call(op, keys, stack);
  }

  /// Throws unless the origin stream has waited for the work of each other
  /// stream.
  void require_joined(int origin) const {
    const auto reached = active_watch()->now(origin);
    for (const auto stream : streams_) {
      auto own = active_watch()->now(stream);
      const auto at = reached.find(stream);
      if (own[stream] > (at == reached.end() ? 0 : at->second))
        fail(error_code::device, "stream {} was not joined", stream);
    }
  }

  faked_tape take() {
    tape_.spoil();
    return std::move(tape_);
  }

 private:
  int number_;
  mutable std::mutex mutex_, turn_;
  std::set<int> streams_;
  faked_tape tape_;
};

std::atomic<faked_recording*> active{nullptr};

/// Records operators that run on recorded streams.
void take_down(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
               torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard once(spare_key);
  const auto below =
    keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, spare_key);
  if (recorded_with(current_stream) != 0)
    active.load()->call(op, below, *stack);
  else
    op.redispatchBoxed(below, stack);
}

class faked_graph final : public device_graph {
 public:
  explicit faked_graph(faked_tape tape) : tape_(std::move(tape)) {}
  ~faked_graph() override {
    const auto leftover = tape_.clear();
    if (auto* watch = active_watch(); watch && leftover > 0)
      watch->note("memory of a graph is held when that is gone");
  }
  faked_graph(const faked_graph&) = delete;
  faked_graph& operator=(const faked_graph&) = delete;
  void launch(device_stream& on) override {
    const auto scope = on.enter();
    tape_.run();
  }

 private:
  faked_tape tape_;
};

}  // namespace

TORCH_LIBRARY_IMPL(_, Fake, of) {
  of.fallback(torch::CppFunction::makeFromBoxedFunction<&take_down>());
}

std::unique_ptr<device_graph> record_faked_graph(
  device_stream& origin, const std::function<void()>& work) {
  static std::atomic<int> last{0};
  const auto stream = number_of(origin);
  faked_recording recording(++last, stream);
  active = &recording;
  try {
    work();
    active = nullptr;
    recording.require_joined(stream);
  } catch (...) {
    active = nullptr;
    recording.take();
    throw;
  }
  return std::make_unique<faked_graph>(recording.take());
}

int recorded_with(int stream) {
  const auto* recording = active.load();
  return recording && recording->has(stream) ? recording->number() : 0;
}

void take_part(int stream, int event) {
  auto* recording = active.load();
  const bool takes_part = recorded_with(stream) != 0;
  if (event == 0 && takes_part)
    fail(error_code::device, "stream {} is recorded, and waits for what is not",
         stream);
  if (event != 0 && (!recording || recording->number() != event))
    fail(error_code::device, "stream {} waits for a recording that is over",
         stream);
  if (event != 0)
    recording->add(stream);
}

std::shared_ptr<void> enter_recording() {
  if (!active)
    return nullptr;
  return std::make_shared<c10::impl::IncludeDispatchKeyGuard>(spare_key);
}

}  // namespace troupe::testing
