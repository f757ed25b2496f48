#include "troupe/engine/transport/mesh.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "troupe/schedules/error.hpp"

namespace troupe {

std::uint64_t new_run_id() {
  std::random_device device;
  const auto made = (std::uint64_t{device()} << 32) | device();
  return made == 0 ? 1 : made;
}

namespace {
constexpr std::chrono::seconds longest_goodbye{2};
}

struct mesh::impl : std::enable_shared_from_this<mesh::impl> {
  impl(io_loop& on, job_place at)
    : loop(on), place(at), peers(static_cast<std::size_t>(at.processes)) {}

  struct peer {
    std::map<line, connection_pointer> lines;
    std::vector<std::shared_ptr<early_frames>> early;
    std::deque<frame> mail;
    std::optional<std::string> lost;  // why
  };

  peer& at(std::int32_t process) {
    return peers.at(static_cast<std::size_t>(process));
  }

  void send(std::int32_t to, line purpose, frame what) {
    const auto found = at(to).lines.find(purpose);
    if (found == at(to).lines.end())
      fail(error_code::internal,
           "process {} has no connection of kind {} to process {}",
           place.process, static_cast<int>(purpose), to);
    found->second->send(std::move(what));
  }

  void listen(std::int32_t from, const connection_pointer& with) {
    connection_events each;
    each.admit = [self = shared_from_this(), from](frame_type type,
                                                   const frame_head& head) {
      if (self->events.admit)
        self->events.admit(from, type, head);
    };
    each.arrived = [self = shared_from_this(), from](frame what) {
      self->arrived(from, std::move(what));
    };
    each.lost = [self = shared_from_this(), from](const std::string& reason) {
      self->lose(from, reason.empty() ? "its program has ended" : reason);
    };
    with->start(std::move(each));
  }

  // On the loop's thread.
  void arrived(std::int32_t from, frame what) {
    if (what.type == frame_type::mail) {
      const std::scoped_lock lock(mutex);
      at(from).mail.push_back(std::move(what));
      changed.notify_all();
    } else if (what.type != frame_type::heartbeat && events.arrived) {
      events.arrived(from, std::move(what));
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

  io_loop& loop;
  job_place place;
  std::vector<peer> peers;
  std::vector<std::int64_t> offsets;
  bool started = false;
  mesh_events events;  // of the loop's thread alone
  std::mutex mutex;    // of mail and losses
  std::condition_variable changed;
};

mesh::mesh(io_loop& loop, job_place place)
  : impl_(std::make_shared<impl>(loop, place)) {}

mesh::~mesh() {
  stop();
  std::vector<connection_pointer> open;
  for (auto& peer : impl_->peers)
    for (auto& [purpose, with] : peer.lines)
      open.push_back(with);
  for (const auto& each : open)
    each->close();
  // What was sent last is on its way; leaving before it has arrived may lose
  // it.
  const auto until = std::chrono::steady_clock::now() + longest_goodbye;
  while (!std::ranges::all_of(open, [](const auto& each) {
    return each->is_closed();
  }) && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

const job_place& mesh::place() const {
  return impl_->place;
}

void mesh::add(std::int32_t peer, line purpose, connection_pointer with,
               std::shared_ptr<early_frames> early) {
  impl_->at(peer).lines[purpose] = std::move(with);
  if (early)
    impl_->at(peer).early.push_back(std::move(early));
}

void mesh::set_run(std::uint64_t run) {
  impl_->place.run = run;
}

void mesh::set_clock_offsets(std::vector<std::int64_t> offsets) {
  impl_->offsets = std::move(offsets);
}

std::int64_t mesh::clock_offset(std::int32_t from) const {
  const auto& all = impl_->offsets;
  const auto here = static_cast<std::size_t>(place().process);
  const auto there = static_cast<std::size_t>(from);
  return std::max(here, there) < all.size() ? all[there] - all[here] : 0;
}

void mesh::start(mesh_events events) {
  if (std::exchange(impl_->started, true))
    fail(error_code::invalid_argument,
         "a job runs one trainer; this is the second one");
  impl_->loop.run([&] {
    impl_->events = std::move(events);
    for (std::int32_t p = 0; p < impl_->place.processes; ++p) {
      auto& peer = impl_->at(p);
      for (const auto& early : std::exchange(peer.early, {})) {
        for (auto& each : early->frames)
          impl_->arrived(p, std::move(each));
        if (early->lost)
          impl_->lose(p, *early->lost);
      }
      for (const auto& [purpose, with] : peer.lines)
        impl_->listen(p, with);
    }
  });
}

void mesh::stop() {
  impl_->loop.run([this] { impl_->events = {}; });
}

void mesh::broadcast(const frame& what) {
  if (!impl_->place.leads())
    return control(0, what);
  for (std::int32_t p = 1; p < impl_->place.processes; ++p)
    control(p, what);
}

void mesh::control(std::int32_t to, frame what) {
  impl_->send(to, line::control, std::move(what));
}

void mesh::send(std::int32_t to, frame what) {
  impl_->send(to, line::outgoing, std::move(what));
}

void mesh::answer(std::int32_t to, frame what) {
  impl_->send(to, line::incoming, std::move(what));
}

void mesh::mail(std::int32_t to, frame what) {
  what.type = frame_type::mail;
  impl_->send(to, line::control, std::move(what));
}

frame mesh::take(std::int32_t from) {
  auto& peer = impl_->at(from);
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] { return !peer.mail.empty() || peer.lost; });
  if (peer.mail.empty())
    fail(error_code::transport, "process {} is gone: {}", from, *peer.lost);
  auto first = std::move(peer.mail.front());
  peer.mail.pop_front();
  return first;
}

std::vector<frame> mesh::gather(frame mine) {
  if (!place().leads()) {
    mail(0, std::move(mine));
    return {};
  }
  std::vector<frame> all;
  all.push_back(std::move(mine));
  for (std::int32_t p = 1; p < place().processes; ++p)
    all.push_back(take(p));
  return all;
}

frame mesh::share(frame of_leader) {
  if (!place().leads())
    return take(0);
  for (std::int32_t p = 1; p < place().processes; ++p)
    mail(p, of_leader);
  return of_leader;
}

std::int64_t mesh::bytes_sent(std::int32_t to) const {
  std::int64_t bytes = 0;
  for (const auto& [purpose, with] : impl_->at(to).lines)
    bytes += with->bytes_sent();
  return bytes;
}

std::int64_t mesh::bytes_received(std::int32_t from) const {
  std::int64_t bytes = 0;
  for (const auto& [purpose, with] : impl_->at(from).lines)
    bytes += with->bytes_received();
  return bytes;
}

}  // namespace troupe
