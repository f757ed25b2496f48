#include "faked_communicator.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "race_watch.hpp"
#include "troupe/base/error.hpp"

namespace troupe::testing {

namespace {

struct exchange_place {
  struct parcel {
    at::Tensor tensor;
    vector_clock clock;
  };
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  std::deque<parcel> sent;
  std::map<int, parcel> parts;  // of a reduction, by rank
  int readers = 0;              // ranks that have read the result
  std::string name;

  void end() {
    const std::scoped_lock lock(mutex);
    ended = true;
    changed.notify_all();
  }
};

class exchange_places {
 public:
  std::shared_ptr<exchange_place> of(const communicator_options& options) {
    const std::scoped_lock lock(mutex_);
    auto& place = all_[options.id];
    if (!place)
      place = std::make_shared<exchange_place>();
    place->name = options.name;
    return place;
  }
  void end(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    bool joined = false;
    for (const auto& [id, place] : all_)
      if (place->name == name) {
        place->end();
        joined = true;
      }
    if (!joined)
      throw error(error_code::internal, "no communicator is called " + name);
  }

 private:
  std::mutex mutex_;
  std::map<communicator_id, std::shared_ptr<exchange_place>> all_;
};

exchange_places& places() {
  static exchange_places all;
  return all;
}

/// On a real device a send blocks its stream until the receive, so transfers
/// that share a stream could deadlock.
class own_streams {
 public:
  void require(const device_stream& stream, const void* communicator,
               const std::string& name) {
    const std::scoped_lock lock(mutex_);
    const auto [at, added] = owners_.try_emplace(&stream, communicator);
    if (at->second != communicator)
      throw error(error_code::internal,
                  name + " shares its stream with another communicator");
  }
  void forget(const void* communicator) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(
      owners_, [&](const auto& item) { return item.second == communicator; });
  }

 private:
  std::mutex mutex_;
  std::map<const device_stream*, const void*> owners_;
};

own_streams& streams() {
  static own_streams all;
  return all;
}

class faked_communicator final : public communicator {
 public:
  explicit faked_communicator(const communicator_options& options)
    : options_(options), place_(places().of(options)) {}
  ~faked_communicator() override {
    abort();
    streams().forget(this);
  }

  void enqueue(std::span<const transfer> together,
               device_stream& stream) override {
    for (const auto& each : together)
      enqueue(each, stream);
  }
  void abort() noexcept override { place_->end(); }

 private:
  void enqueue(const transfer& what, device_stream& stream) {
    streams().require(stream, this, options_.name);
    for (const auto& tensor : {what.input, what.output})
      if (tensor.defined() && !tensor.is_contiguous())
        throw error(error_code::invalid_argument,
                    options_.name + ": a tensor is not contiguous");
    const auto scope = stream.enter();
    switch (what.kind) {
      case transfer_kind::send:
        return send(what.input);
      case transfer_kind::receive:
        return receive(what.output);
      case transfer_kind::all_reduce:
        return reduce(what.input, what.how);
      case transfer_kind::reduce_scatter:
        return reduce_scatter(what);
      case transfer_kind::all_gather:
        return gather(what.input, what.output);
      case transfer_kind::reduce:
        return reduce_to_root(what);
      case transfer_kind::broadcast:
        return broadcast(what);
      default:
        throw error(error_code::internal, "no such faked call");
    }
  }
  static exchange_place::parcel parcel_of(const at::Tensor& tensor) {
    auto copy = tensor.clone();
    return {copy, active_watch()->now(current_stream)};
  }
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    place_->changed.wait(lock, [&] { return place_->ended || ready(); });
    require_alive();
  }
  void require_alive() const {
    if (place_->ended)
      throw error(error_code::transport, options_.name + " has ended");
  }
  void send(const at::Tensor& from) {
    auto parcel = parcel_of(from);
    const std::scoped_lock lock(place_->mutex);
    require_alive();
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
    active_watch()->wait_for(current_stream, from.clock);
    active_watch()->uses(current_stream, from.tensor);
    to.copy_(from.tensor);
  }
  /// The contributions of all ranks, by rank.
  std::map<int, exchange_place::parcel> exchanged(const at::Tensor& own) {
    auto parcel = parcel_of(own);
    std::unique_lock lock(place_->mutex);
    wait(lock, [&] { return place_->readers == 0; });
    place_->parts[options_.rank] = std::move(parcel);
    place_->changed.notify_all();
    wait(lock, [&] { return std::ssize(place_->parts) == options_.size; });
    const auto all = place_->parts;
    if (++place_->readers == options_.size) {
      place_->readers = 0;
      place_->parts.clear();
      place_->changed.notify_all();
    }
    return all;
  }
  void reduce(at::Tensor values, reduce_kind how) {
    const auto all = exchanged(values);
    take(all.at(0), values);
    for (int rank = 1; rank < options_.size; ++rank) {
      active_watch()->wait_for(current_stream, all.at(rank).clock);
      active_watch()->uses(current_stream, all.at(rank).tensor);
      values.add_(all.at(rank).tensor);
    }
    if (how == reduce_kind::mean)
      values.div_(double(options_.size));
  }
  void reduce_scatter(const transfer& what) {
    auto sum = what.input.clone();
    reduce(sum, what.how);
    const auto length = sum.numel() / options_.size;
    auto own = what.output;
    own.copy_(sum.narrow(0, options_.rank * length, length));
  }
  void gather(const at::Tensor& own, const at::Tensor& into) {
    for (const auto& [rank, parcel] : exchanged(own)) {
      auto place = into.narrow(0, rank * own.numel(), own.numel());
      take(parcel, place);
    }
  }

  void reduce_to_root(const transfer& what) {
    auto sum = what.input.clone();
    reduce(sum, what.how);
    auto own = what.output;
    if (options_.rank == what.peer)
      own.copy_(sum);
  }
  void broadcast(const transfer& what) {
    const auto all =
      exchanged(options_.rank == what.peer ? what.input : at::empty({0}));
    auto into = what.output;
    take(all.at(what.peer), into);
  }

  communicator_options options_;
  std::shared_ptr<exchange_place> place_;
};

}  // namespace

std::unique_ptr<communicator> make_faked_communicator(
  const communicator_options& options) {
  return std::make_unique<faked_communicator>(options);
}

void end_faked_communicators(const std::string& name) {
  places().end(name);
}

communicator_id new_faked_id() {
  static std::atomic<int> last{0};
  const auto number = ++last;
  return {static_cast<std::byte>(number & 255),
          static_cast<std::byte>(number >> 8)};
}

}  // namespace troupe::testing
