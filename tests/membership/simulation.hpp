#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "process.hpp"
#include "record_shelf.hpp"

namespace troupe::simulated {

/// What came of a seed.
struct outcome {
  std::string violation;  // empty: none
  std::int64_t events = 0, epochs = 0, decisions = 0, repeated = 0;
  bool has_stopped = false, has_saved = false;
  moment recovery{};  // from the end of all faults to three more steps
};

/// A whole job, from its first process to a few steps after the last fault.
class simulation : public process::surroundings {
 public:
  explicit simulation(const scenario& of, bool is_verbose = false);
  outcome run();

 private:
  struct authority_host {
    std::unique_ptr<membership::authority> machine;
    drifting_clock clock;
    bool is_alive = true;
    moment paused_until{};
  };

  // What processes need.
  void send_report(int from, const membership::member_report&) override;
  void decided(int self, const membership::epoch&,
               const membership::step_decision&) override;
  void voted(member_id leader) override;
  void ended(int self) override;
  void saved(int self, const membership::epoch&) override;
  void say(int self, const std::string& what) override;

  void run_until(moment time);
  void deliver(event&);
  bool is_paused(event&);
  void on_world(const wake&);
  void start_process(member_id replaces = membership::no_member);
  void start_authority();
  template <class Call>
  void with_authority(std::size_t index, const Call& call);
  void intervene();
  void send_orders(std::size_t index, membership::authority_output);
  void end_authority(std::size_t index);
  std::vector<std::size_t> living_authorities() const;
  std::vector<int> living_processes() const;

  // Faults (faults.cpp).
  void disturb();
  int any_process();  // -1: none lives
  void end_process();
  bool may_die(int victim);
  void kill_machine();
  void join();
  void lose_store();
  void wish();
  void crash(int self, bool is_silent);
  void pause();
  void pause_process(int self, std::int64_t most_ms);
  void part();
  void cut_link();
  void end_some_authority();
  void calm();
  bool is_over() const;

  void check_stored(const membership::job_record&);
  std::vector<membership::member_copies> living_copies(
    const std::vector<member_id>&) const;
  void check_kept(std::int64_t number, member_id holder,
                  const membership::held_copy&);
  void check_stop(const membership::job_record&);

  const scenario& of_;
  draws random_;
  network net_;
  checker check_;
  shared_disk disk_;
  record_shelf shelf_;
  std::vector<std::unique_ptr<process>> processes_;
  std::vector<authority_host> authorities_;
  bool is_verbose_, is_calm_ = false, is_intervening_ = false;
  std::set<std::pair<std::int64_t, int>> saved_;  // epoch, process
  bool is_saved_ = false;  // in the last epoch, by all its hosts
  moment calm_at_{};
  std::size_t swapping_ = 0;  // the authority that has its turn
  std::int64_t events_ = 0, partitions_ = 0, stored_epoch_ = 0,
               decisions_at_calm_ = 0;
};

}  // namespace troupe::simulated
