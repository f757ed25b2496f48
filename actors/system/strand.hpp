#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "troupe/actors/system/caf.hpp"
#include "troupe/actors/system/spin_sharing.hpp"

namespace troupe {

/// Actors that take turns, as on Asio's strand: one of them runs at a time, in
/// the order in which they got messages, on any worker. While one runs,
/// messages to the others, from members or from outside, take no lock of the
/// scheduler and wake no worker. Between two turns the strand yields to jobs
/// that no idle worker is about to take. Any thread may send. It must outlive
/// its actors and the actor system.
class strand final : public caf::resumable {
 public:
  explicit strand(caf::actor_system& system);

  /// Schedules a member that has messages. `sender`: the execution unit of the
  /// sending actor; null outside of actors.
  void push(caf::resumable* member, caf::execution_unit* sender);

  resume_result resume(caf::execution_unit* worker, std::size_t) override;
  // Not reference-counted: the spawner's list owns it.
  void intrusive_ptr_add_ref_impl() override {}
  void intrusive_ptr_release_impl() override {}

 private:
  /// The execution unit of members: it passes other actors on to the worker.
  struct context final : caf::execution_unit {
    using caf::execution_unit::execution_unit;
    void exec_later(caf::resumable* job) override { worker->exec_later(job); }
    caf::execution_unit* worker = nullptr;
  };

  caf::resumable* take();

  caf::actor_system& system_;
  const spin_sharing::coordinator_data* shared_ = nullptr;
  context context_;
  std::mutex mutex_;  // of what follows
  std::vector<caf::resumable*> waiting_;
  bool scheduled_ = false;
};

/// An actor of a strand, to be spawned with `caf::lazy_init`: its first message
/// starts it.
class strand_actor final : public caf::event_based_actor {
 public:
  using behavior_maker =
    std::function<caf::behavior(caf::event_based_actor* self)>;

  strand_actor(caf::actor_config& config, strand* turns, behavior_maker make)
    : caf::event_based_actor(config), turns_(turns), make_(std::move(make)) {}

  using caf::event_based_actor::enqueue;
  bool enqueue(caf::mailbox_element_ptr message,
               caf::execution_unit* sender) override;

 protected:
  /// The captures of `make_` are freed with the behavior, when the actor ends.
  caf::behavior make_behavior() override {
    return std::exchange(make_, nullptr)(this);
  }

 private:
  strand* turns_;
  behavior_maker make_;
};

}  // namespace troupe
