#include "faked_accelerator.hpp"

#include <ATen/record_function.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/statistics_row.hpp"
#include "troupe/engine/events/statistics.hpp"
#include "troupe/engine/stage/gradient_norm.hpp"
#include "troupe/schedules/error.hpp"

namespace troupe::testing {

namespace {

/// How much of each stream's work comes before; stream 0 is the host.
using vector_clock = std::map<int, std::int64_t>;

void join(vector_clock& into, const vector_clock& other) {
  for (const auto& [stream, tick] : other)
    into[stream] = std::max(into[stream], tick);
}

thread_local int current_stream = 0;

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
  void uses(int stream, const at::Tensor& tensor) {
    if (!tensor.defined())
      return;
    const std::scoped_lock lock(mutex_);
    if (auto* known = find(tensor))
      known->told.insert(stream);
  }

  /// An operator has run: what it read, and what it wrote.
  void ran(const char* name, const std::vector<at::Tensor>& reads,
           const std::vector<at::Tensor>& writes) {
    const std::scoped_lock lock(mutex_);
    const auto stream = current_stream;
    auto& clock = clocks_[stream];
    join(clock, clocks_[0]);  // the host waited before it gave this
    const auto tick = ++clock[stream];
    watched_ += stream == 0 ? 0 : 1;
    for (const auto& tensor : reads)
      if (auto* known = find(tensor)) {
        check(name, "reads", stream, clock, *known, false);
        known->reads[stream] = tick;
      }
    for (const auto& tensor : writes) {
      auto* known = find(tensor);
      if (known)
        check(name, "writes", stream, clock, *known, true);
      else
        known = add(tensor, stream);
      known->writer = stream;
      known->written = tick;
      known->reads.clear();
    }
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
    int made_on = 0;
    int writer = 0;
    std::int64_t written = 0;
    std::map<int, std::int64_t> reads;
    std::set<int> told;
  };

  storage_state* find(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage())
      return nullptr;
    const auto at = known_.find(tensor.storage().unsafeGetStorageImpl());
    return at == known_.end() ? nullptr : &at->second;
  }
  storage_state* add(const at::Tensor& tensor, int stream) {
    if (!tensor.defined() || !tensor.has_storage())
      return &nowhere_;
    storage_state made{
      tensor.storage().getWeakStorageImpl(), stream, stream, 0, {}, {stream}};
    return &known_
              .emplace(tensor.storage().unsafeGetStorageImpl(), std::move(made))
              .first->second;
  }

  void check(const char* name, const char* does, int stream,
             const vector_clock& clock, const storage_state& known,
             bool writes) {
    const auto before = [&](int other, std::int64_t tick) {
      const auto at = clock.find(other);
      return other == stream || (at != clock.end() && at->second >= tick);
    };
    // What the host made was there when the work was given.
    if (known.writer != 0 && !before(known.writer, known.written))
      races_.insert(fmt::format("{} {} on stream {} what stream {} writes",
                                name, does, stream, known.writer));
    if (writes)
      for (const auto& [reader, tick] : known.reads)
        if (reader != 0 && !before(reader, tick))
          races_.insert(fmt::format("{} writes on stream {} what {} reads",
                                    name, stream, reader));
    if (stream != 0 && known.made_on != 0 && !known.told.contains(stream))
      races_.insert(
        fmt::format("{} {} on stream {} a tensor of stream {}, "
                    "which was not told to keep it",
                    name, does, stream, known.made_on));
  }

  mutable std::mutex mutex_;
  int streams_ = 0;
  std::map<int, vector_clock> clocks_;
  std::map<const c10::StorageImpl*, storage_state> known_;
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

std::atomic<race_watch*> active{nullptr};
std::atomic<int> accelerators{0};
at::CallbackHandle callback = 0;

/// What an operator was given, and the versions then: what has the same
/// afterwards was not written, but a view made of it.
struct call_inputs final : at::ObserverContext {
  std::vector<std::pair<at::Tensor, std::uint32_t>> tensors;
};

template <class Take>
void each_tensor(const c10::IValue& value, const Take& take) {
  if (value.isTensor())
    take(value.toTensor());
  else if (value.isTensorList())
    for (const at::Tensor& tensor : value.toTensorList())
      take(tensor);
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
  auto seen = std::make_unique<call_inputs>();
  for (const auto& input : call.inputs())
    each_tensor(input, [&](const at::Tensor& tensor) {
      if (tensor.defined())
        seen->tensors.emplace_back(
          tensor, tensor.is_inference() ? 0 : tensor._version());
    });
  return seen;
}

void on_end(const at::RecordFunction& call, at::ObserverContext* context) {
  auto* watch = active.load();
  if (!watch)
    return;
  std::vector<at::Tensor> reads, writes;
  for (const auto& [tensor, version] :
       static_cast<call_inputs*>(context)->tensors)
    (tensor._version() == version ? reads : writes).push_back(tensor);
  const auto is_view = [&](const at::Tensor& made) {
    return std::ranges::any_of(reads, [&](const at::Tensor& of) {
      return of.has_storage() && made.has_storage()
             && of.storage().is_alias_of(made.storage());
    });
  };
  for (const auto& output : call.outputs())
    each_tensor(output, [&](const at::Tensor& tensor) {
      if (tensor.defined() && !is_view(tensor))
        writes.push_back(tensor);
    });
  watch->ran(call.name(), reads, writes);
}

class faked_event final : public device_event {
 public:
  explicit faked_event(vector_clock clock)
    : clock_(std::move(clock)), at_(now_ns()) {}
  bool reached() const override { return false; }
  void wait() const override {
    if (auto* watch = active.load())
      watch->wait_for(0, clock_);
  }
  double seconds_since(const device_event& earlier) const override {
    return static_cast<double>(at_
                               - dynamic_cast<const faked_event&>(earlier).at_)
           * 1e-9;
  }
  const vector_clock& clock() const { return clock_; }

 private:
  vector_clock clock_;
  std::int64_t at_;
};

class faked_scope final : public stream_scope {
 public:
  explicit faked_scope(int stream)
    : before_(std::exchange(current_stream, stream)) {}
  ~faked_scope() override { current_stream = before_; }

 private:
  int before_;
};

class faked_stream final : public device_stream {
 public:
  explicit faked_stream(race_watch& watch)
    : watch_(watch), number_(watch.add_stream()) {}

  c10::Device device() const override { return c10::kCPU; }
  std::unique_ptr<stream_scope> enter() override {
    return std::make_unique<faked_scope>(number_);
  }
  event_handle record() override {
    return std::make_shared<const faked_event>(watch_.now(number_));
  }
  void wait_for(const device_event& event) override {
    watch_.wait_for(number_, dynamic_cast<const faked_event&>(event).clock());
  }
  void uses(const at::Tensor& tensor) override { watch_.uses(number_, tensor); }
  void drain() override { record()->wait(); }

 private:
  race_watch& watch_;
  int number_;
};

void write_row(const tensor_statistics& from, double* row, bool wide) {
  const double values[] = {double(from.count),
                           double(from.nans),
                           double(from.infs),
                           double(from.zeros),
                           double(from.fp16_overflows),
                           double(from.fp16_underflows),
                           double(from.bf16_overflows),
                           double(from.bf16_underflows),
                           from.max_abs,
                           from.min_abs,
                           from.mean,
                           from.squares,
                           double(from.instances),
                           from.instance_mean_sum,
                           from.instance_variance_sum};
  std::ranges::copy(values, row);
  if (wide)
    std::ranges::copy(*from.histogram, row + statistics_columns);
}

/// What all ranks of a communicator share.
struct exchange_place {
  struct parcel {
    at::Tensor tensor;
    vector_clock clock;
  };
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  std::deque<parcel> sent;
  std::map<int, parcel> given;  // to a reduction, by rank
  int taken = 0;                // of its result
};

std::shared_ptr<exchange_place> place_of(const communicator_id& id) {
  static std::mutex mutex;
  static std::map<communicator_id, std::shared_ptr<exchange_place>> places;
  const std::scoped_lock lock(mutex);
  auto& place = places[id];
  if (!place)
    place = std::make_shared<exchange_place>();
  return place;
}

/// A receive waits on the host for what was sent; one that was made before its
/// send would deadlock there, so that the test would not end.
class faked_communicator final : public communicator {
 public:
  explicit faked_communicator(const communicator_options& options)
    : options_(options), place_(place_of(options.id)) {}
  ~faked_communicator() override { abort(); }

  void enqueue(const transfer& what, device_stream& stream) override {
    const auto scope = stream.enter();
    switch (what.kind) {
      case transfer_kind::send:
        return send(what.input);
      case transfer_kind::receive:
        return receive(what.output);
      case transfer_kind::all_reduce:
        return average(what.input);
      default:
        throw error(error_code::internal, "no such faked call");
    }
  }
  std::string problem() override { return {}; }
  void abort() noexcept override {
    const std::scoped_lock lock(place_->mutex);
    place_->ended = true;
    place_->changed.notify_all();
  }
  void finish() override {}

 private:
  static exchange_place::parcel parcel_of(const at::Tensor& tensor) {
    auto copy = tensor.clone();
    return {copy, active.load()->now(current_stream)};
  }
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    place_->changed.wait(lock, [&] { return place_->ended || ready(); });
    if (place_->ended)
      throw error(error_code::transport, options_.name + " has ended");
  }
  void send(const at::Tensor& from) {
    auto parcel = parcel_of(from);
    const std::scoped_lock lock(place_->mutex);
    place_->sent.push_back(std::move(parcel));
    place_->changed.notify_all();
  }
  void receive(at::Tensor to) {
    std::unique_lock lock(place_->mutex);
    wait(lock, [&] { return !place_->sent.empty(); });
    const auto parcel = std::move(place_->sent.front());
    place_->sent.pop_front();
    lock.unlock();
    take(parcel, to);
  }
  void take(const exchange_place::parcel& from, at::Tensor& to) {
    active.load()->wait_for(current_stream, from.clock);
    active.load()->uses(current_stream, from.tensor);
    to.copy_(from.tensor);
  }
  void average(at::Tensor values) {
    auto parcel = parcel_of(values);
    std::unique_lock lock(place_->mutex);
    wait(lock, [&] { return place_->taken == 0; });
    place_->given[options_.rank] = std::move(parcel);
    place_->changed.notify_all();
    wait(lock, [&] { return std::ssize(place_->given) == options_.size; });
    const auto all = place_->given;
    if (++place_->taken == options_.size) {
      place_->taken = 0;
      place_->given.clear();
      place_->changed.notify_all();
    }
    lock.unlock();
    take(all.at(0), values);
    for (int rank = 1; rank < options_.size; ++rank) {
      active.load()->wait_for(current_stream, all.at(rank).clock);
      active.load()->uses(current_stream, all.at(rank).tensor);
      values.add_(all.at(rank).tensor);
    }
    values.div_(double(options_.size));
  }

  communicator_options options_;
  std::shared_ptr<exchange_place> place_;
};

class faked_kernels final : public device_kernels {
 public:
  void measure(const tensor_list& tensors, const at::Tensor& rows) override {
    note(tensors, {rows});
    const bool wide = rows.size(1) > statistics_columns;
    auto* row = rows.mutable_data_ptr<double>();
    for (const auto& tensor : tensors) {
      write_row(troupe::measure(tensor, wide), row, wide);
      row += rows.size(1);
    }
  }
  at::Tensor sums_of_squares(const tensor_list& tensors) override {
    note(tensors, {});
    tensor_list parameters;
    for (const auto& gradient : tensors) {
      parameters.push_back(at::empty_like(gradient));
      parameters.back().mutable_grad() = gradient;
    }
    const auto squares = gradient_squares(parameters);
    auto sums = at::empty({std::ssize(squares)}, at::kDouble);
    std::ranges::copy(squares, sums.mutable_data_ptr<double>());
    return sums;
  }
  void scale(const tensor_list& tensors, const at::Tensor& factor) override {
    for (const auto& tensor : tensors)
      tensor.mul_(factor);
  }
  void delay(double) override {}

 private:
  static void note(const tensor_list& reads, const tensor_list& writes) {
    if (auto* watch = active.load())
      watch->ran("kernel", reads, writes);
  }
};

}  // namespace

faked_accelerator::faked_accelerator()
  : description_{c10::kCPU, "faked", 0, 0, 1, 1 << 30},
    kernels_(std::make_unique<faked_kernels>()) {
  if (accelerators++ > 0)
    return;
  active = new race_watch;
  callback = at::addGlobalCallback(at::RecordFunctionCallback(on_start, on_end)
                                     .needsInputs(true)
                                     .needsOutputs(true)
                                     .scopes({at::RecordScope::FUNCTION}));
}

faked_accelerator::~faked_accelerator() {
  if (--accelerators > 0)
    return;
  at::removeCallback(callback);
  delete active.exchange(nullptr);
}

std::vector<std::string> faked_accelerator::races() const {
  return active.load()->races();
}

std::size_t faked_accelerator::watched() const {
  return active.load()->watched();
}

const accelerator_description& faked_accelerator::description() const {
  return description_;
}

device_memory faked_accelerator::memory() const {
  return {};
}

std::unique_ptr<device_stream> faked_accelerator::make_stream(stream_priority) {
  return std::make_unique<faked_stream>(*active.load());
}

device_kernels& faked_accelerator::kernels() {
  return *kernels_;
}

communicator_id faked_accelerator::make_communicator_id() {
  static std::atomic<int> last{0};
  return {static_cast<std::byte>(++last & 255),
          static_cast<std::byte>(last >> 8)};
}

std::unique_ptr<communicator> faked_accelerator::make_communicator(
  const communicator_options& options) {
  return std::make_unique<faked_communicator>(options);
}

}  // namespace troupe::testing
