#pragma once

#include <cstdint>
#include <functional>

#include "executor.hpp"
#include "troupe/engine/membership/member.hpp"

namespace troupe::simulated {

/// A clock that starts anywhere and runs a little fast or slow.
class drifting_clock {
 public:
  explicit drifting_clock(draws& random)
    : offset_(random.time(0, 100'000'000)), drift_(random.between(-9, 9)) {}
  moment local(moment time) const {
    return offset_ + time + moment(time.count() * drift_ / 1000);
  }

 private:
  moment offset_;
  std::int64_t drift_;  // thousandths
};

/// One life of a process: its member and its executor.
class process {
 public:
  /// What other parts of the simulation do for it.
  class surroundings {
   public:
    virtual ~surroundings() = default;
    virtual void send_report(int from, const membership::member_report&) = 0;
    virtual void decided(int self, const membership::epoch&,
                         const membership::step_decision&) = 0;
    virtual void voted(member_id leader) = 0;
    virtual void ended(int self) = 0;
    virtual void saved(int self, const membership::epoch&) = 0;
    virtual void say(int self, const std::string& what) = 0;
  };

  process(const scenario& of, draws& random, network& net, checker& check,
          shared_disk& disk, surroundings& around, int self,
          member_id replaces);

  void receive(event&);
  void drain() { perform(member_.drain(now())); }
  void kill() { is_alive_ = false; }

  bool is_alive() const { return is_alive_; }
  const membership::member& member() const { return member_; }
  const executor& steps() const { return executor_; }
  moment paused_until{};

 private:
  moment now() const { return clock_.local(net_.now()); }
  void perform(membership::member_output);
  void broadcast(const membership::step_decision&);
  void go_on();
  void compute(const wake&);
  void fail(membership::trouble);

  void on(int, const wake&);
  void on(int, const link_closed&);
  void on(int, const membership::authority_order&);
  void on(int, const membership::step_vote&);
  void on(int, const membership::step_decision&);
  void on(int, const membership::member_report&) {}
  template <class Message>
  void on(int from, const Message& message) {
    executor_.receive(from, message);
    go_on();
  }

  const scenario& of_;
  draws& random_;
  network& net_;
  checker& check_;
  shared_disk& disk_;
  surroundings& around_;
  int self_;
  drifting_clock clock_;
  membership::member member_;
  executor executor_;
  bool is_alive_ = true;
};

}  // namespace troupe::simulated
