#include "troupe/engine/transport/mesh.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/engine/transport/close_wait.hpp"
#include "troupe/engine/transport/line_silence.hpp"

namespace troupe {

namespace {
using clock = std::chrono::steady_clock;
}  // namespace

struct mesh::impl : std::enable_shared_from_this<mesh::impl> {
  impl(io_loop& thread, job_place position, const mesh_patience& limits)
    : loop(thread),
      place(position),
      patience(limits),
      heartbeat(thread.context()),
      peers(static_cast<std::size_t>(position.processes)) {}

  struct peer {
    std::map<line, connection_pointer> lines;
    std::deque<frame> mail, notes, states;
    std::optional<std::string> lost;  // why
    line_silence silence;
    bool is_silent = false;

    /// Where frames of a type wait for whoever takes them; null: they don't.
    std::deque<frame>* queue_of(frame_type type) {
      return type == frame_type::mail    ? &mail
             : type == frame_type::note  ? &notes
             : type == frame_type::state ? &states
                                         : nullptr;
    }
  };

  peer& at(std::int32_t process) {
    return peers.at(static_cast<std::size_t>(process));
  }

  void listen(std::int32_t sender, line purpose, connection& link) {
    connection_events handlers;
    if (const auto memory = usable_bytes(); memory > 0)
      handlers.limits.tensor_bytes = static_cast<std::uint64_t>(memory);
    handlers.admit = [self = shared_from_this(), sender](
                       frame_type type, const frame_head& head) {
      if (self->events.admit)
        self->events.admit(sender, type, head);
    };
    handlers.arrived = [self = shared_from_this(), sender](frame message) {
      self->deliver(sender, std::move(message));
    };
    // An orderly end closes all lines, the control line last and with all
    // messages; a tensor line that ends earlier means nothing by itself.
    handlers.lost = [self = shared_from_this(), sender,
                     purpose](const std::string& reason) {
      if (!reason.empty() || purpose == line::control)
        self->lose(sender, reason.empty() ? "its program has ended" : reason);
    };
    link.start(std::move(handlers));
  }

  /// Called on the loop's thread.
  void deliver(std::int32_t sender, frame message) {
    if (auto* const queue = at(sender).queue_of(message.type)) {
      const std::scoped_lock lock(mutex);
      queue->push_back(std::move(message));
      changed.notify_all();
    } else if (message.type != frame_type::heartbeat && events.arrived) {
      events.arrived(sender, std::move(message));
    }
  }

  /// Waits, with the lock, until a process has sent what this queue holds or is
  /// lost, and reports long waits without the lock.
  void wait_for(const std::deque<frame>& queue, std::int32_t sender,
                std::unique_lock<std::mutex>& lock) {
    const auto begin = clock::now();
    auto wait = long_wait;
    while (!changed.wait_until(
      lock, begin + wait, [&] { return !queue.empty() || at(sender).lost; })) {
      const auto report = report_wait;
      lock.unlock();
      if (report)
        report(sender, std::chrono::duration<double>(wait).count());
      lock.lock();
      wait *= 2;
    }
  }

  void lose(std::int32_t process, const std::string& reason) {
    {
      const std::scoped_lock lock(mutex);
      if (at(process).lost)
        return;
      at(process).lost = reason;
      changed.notify_all();
    }
    if (events.lost)
      events.lost(process, reason);
  }

  void begin(mesh_events handlers) {
    events = std::move(handlers);
    loop.on_trouble([self = weak_from_this()](const std::string& reason) {
      if (const auto alive = self.lock())
        alive->lose_all("the thread of this process's links failed: " + reason);
    });
    for (std::int32_t p = 0; p < place.processes; ++p) {
      auto& peer = at(p);
      for (const auto& [purpose, link] : peer.lines)
        listen(p, purpose, *link);
    }
    keep_alive();
  }

  std::vector<connection_pointer> connections() const {
    std::vector<connection_pointer> all;
    for (const auto& each : peers)
      for (const auto& [purpose, link] : each.lines)
        all.push_back(link);
    return all;
  }

  void lose_all(const std::string& reason) {
    for (std::int32_t p = 0; p < place.processes; ++p)
      if (p != place.process)
        lose(p, reason);
  }

  /// Sends a heartbeat to everybody, and checks who has been silent.
  void keep_alive() {
    for (std::int32_t p = 0; p < place.processes; ++p) {
      if (p == place.process || at(p).lost)
        continue;
      for (const auto& [purpose, link] : at(p).lines) {
        if (purpose != line::incoming && link->waiting() == 0)
          link->send({frame_type::heartbeat, {}, {}});
        if (link->unacknowledged() > patience.cut_off)
          cut_off(p, *link);
      }
      check_silence(p);
    }
    heartbeat.expires_after(patience.heartbeat);
    heartbeat.async_wait([self = weak_from_this()](const auto& problem) {
      const auto alive = self.lock();
      if (!problem && alive && alive->events.arrived)
        alive->keep_alive();
    });
  }

  void cut_off(std::int32_t process, connection& link) {
    link.abort();
    lose(process,
         fmt::format("its machine has not responded for {:.3g} s: the network "
                     "is cut, or the machine is down",
                     std::chrono::duration<double>(patience.cut_off).count()));
  }

  void check_silence(std::int32_t process) {
    auto& peer = at(process);
    const auto now = clock::now();
    for (const auto& [purpose, link] : peer.lines)
      if (purpose != line::outgoing)  // which brings answers, and may be quiet
        peer.silence.note(purpose, link->bytes_received(), now);
    const auto [longest, only] = peer.silence.check(patience.silence, now);
    const auto seconds = std::chrono::duration<double>(longest).count();
    const bool is_silent = longest > patience.silence;
    if (std::exchange(peer.is_silent, is_silent) != is_silent && events.silent)
      events.silent(process, is_silent ? seconds : 0, only);
  }

  io_loop& loop;
  job_place place;
  const mesh_patience patience;
  boost::asio::steady_timer heartbeat;
  std::vector<peer> peers;
  std::vector<std::int64_t> offsets;
  std::atomic<bool> started = false;
  mesh_events events;  // used by the loop's thread only
  std::mutex mutex;    // guards mail, losses, and the following
  std::function<void(std::int32_t, double)> report_wait;
  std::chrono::milliseconds long_wait = std::chrono::hours(1);
  std::condition_variable changed;
};

mesh::mesh(io_loop& loop, job_place place, const mesh_patience& patience)
  : impl_(std::make_shared<impl>(loop, place, patience)) {}

mesh::~mesh() {
  stop();
  const auto open = impl_->connections();
  for (const auto& each : open)
    each->close();
  wait_until_closed(open, impl_->patience.leave);
  // A connection that could not close keeps its events, which hold this.
  impl_->loop.run([this] {
    for (auto& peer : impl_->peers)
      peer.lines.clear();
  });
}

job_place mesh::place() const {
  return now()->place;
}

std::shared_ptr<mesh::impl> mesh::now() const {
  const std::scoped_lock lock(mutex_);
  return impl_;
}

void mesh::leave() {
  stop();
  const auto state = now();
  state->lose_all("this process has left the job");
  for (const auto& each : state->connections())
    each->abort();
  state->loop.run([] {});  // they have ended
}

void mesh::take_over(std::shared_ptr<mesh> met) {
  const std::scoped_lock lock(mutex_);
  impl_ = met->now();
  met_ = std::move(met);
}

void mesh::add(std::int32_t peer, line purpose, connection_pointer link) {
  now()->at(peer).lines[purpose] = std::move(link);
}

void mesh::set_clock_offsets(std::vector<std::int64_t> offsets) {
  now()->offsets = std::move(offsets);
}

std::int64_t mesh::clock_offset(std::int32_t process) const {
  const auto state = now();
  const auto& all = state->offsets;
  const auto here = static_cast<std::size_t>(state->place.process);
  const auto there = static_cast<std::size_t>(process);
  return std::max(here, there) < all.size() ? all[there] - all[here] : 0;
}

void mesh::start(mesh_events events) {
  const auto state = now();
  if (state->started.exchange(true))
    fail(error_code::invalid_argument,
         "a job runs one trainer; this is the second one");
  try {
    state->loop.run([&] { state->begin(std::move(events)); });
  } catch (...) {
    stop();
    throw;
  }
}

void mesh::redirect(mesh_events events) {
  const auto state = now();
  state->loop.run([&] {
    state->events = std::move(events);
    for (std::int32_t p = 0; p < state->place.processes; ++p)
      if (const auto reason = lost(p); reason && state->events.lost)
        state->events.lost(p, *reason);
  });
}

void mesh::report_waits(
  std::chrono::milliseconds longer_than,
  std::function<void(std::int32_t sender, double seconds)> report) {
  const auto state = now();
  const std::scoped_lock lock(state->mutex);
  state->long_wait = std::max(longer_than, std::chrono::milliseconds(1));
  state->report_wait = std::move(report);
}

void mesh::stop() {
  const auto state = now();
  state->loop.run([&] {
    state->events = {};
    state->heartbeat.cancel();
  });
}

void mesh::send(std::int32_t receiver, frame message, std::uint64_t run) {
  const auto purpose = line_of(message.type);
  const auto state = now();
  if (run != 0 && run != state->place.run)
    return;
  const auto& lines = state->at(receiver).lines;
  const auto link = lines.find(purpose);
  if (link == lines.end())
    fail(error_code::internal,
         "process {} has no connection of kind {} to process {}",
         place().process, static_cast<int>(purpose), receiver);
  link->second->send(std::move(message));
}

frame mesh::receive(std::int32_t sender, frame_type type) {
  const auto state = now();
  if (!state->started)
    fail(error_code::invalid_argument,
         "process {} waits for process {}, but its mesh has not been started; "
         "call mesh::start first",
         place().process, sender);
  auto& from = state->at(sender);
  auto* const queue = from.queue_of(type);
  if (!queue)
    fail(error_code::internal, "no thread can wait for frames of type {}",
         static_cast<int>(type));
  std::unique_lock lock(state->mutex);
  state->wait_for(*queue, sender, lock);
  // Lets the lost process end first, so that launchers report its own reason.
  constexpr std::chrono::milliseconds courtesy{300};
  if (!state->changed.wait_for(lock, courtesy, [&] { return !queue->empty(); }))
    fail(error_code::transport, "process {} has left: {}", sender,
         from.lost.value_or("its program has ended"));
  auto first = std::move(queue->front());
  queue->pop_front();
  return first;
}

std::optional<frame> mesh::poll(std::int32_t sender) {
  const auto state = now();
  const std::scoped_lock lock(state->mutex);
  auto& notes = state->at(sender).notes;
  if (notes.empty())
    return std::nullopt;
  auto first = std::move(notes.front());
  notes.pop_front();
  return first;
}

std::optional<std::string> mesh::lost(std::int32_t process) const {
  const auto state = now();
  const std::scoped_lock lock(state->mutex);
  return state->at(process).lost;
}

bool mesh::has_silent() const {
  const auto state = now();
  bool found = false;
  state->loop.run([&] {
    for (const auto& each : state->peers)
      found |= each.is_silent;
  });
  return found;
}

bool mesh::await_loss(std::chrono::milliseconds longest) const {
  const auto state = now();
  std::unique_lock lock(state->mutex);
  return state->changed.wait_for(lock, longest, [&] {
    return std::ranges::any_of(
      state->peers, [](const impl::peer& each) { return !!each.lost; });
  });
}

std::int64_t mesh::bytes_received(std::int32_t process) const {
  std::int64_t bytes = 0;
  const auto state = now();
  for (const auto& [purpose, link] : state->at(process).lines)
    bytes += link->bytes_received();
  return bytes;
}

}  // namespace troupe
