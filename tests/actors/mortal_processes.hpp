#pragma once

// Processes of a job that heals, as threads of this one, which can be killed at
// any time and start again.
#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../engine/transport/joined_meshes.hpp"
#include "device_trainings.hpp"
#include "faked_accelerator.hpp"
#include "job_trainings.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/events/monitor.hpp"

namespace troupe::testing {

/// Where the processes of a job, which are threads of this one, meet again and
/// again.
class meeting_place {
 public:
  explicit meeting_place(std::int32_t processes) : processes_(processes) {}

  /// Returns when all processes have come.
  std::shared_ptr<mesh> join(std::int32_t process) {
    std::unique_lock lock(mutex_);
    const auto meeting = meetings_;
    if (++here_ == processes_) {
      here_ = 0;
      ++meetings_;
      met_ = std::make_shared<joined_meshes>(processes_, new_run_id());
      all_here_.notify_all();
    }
    all_here_.wait(lock, [&] { return is_over_ || meetings_ != meeting; });
    if (meetings_ == meeting)
      throw troupe::error(error_code::transport, "another process has ended");
    return {met_, met_->all[static_cast<std::size_t>(process)].get()};
  }
  /// A process has ended, so that there are no further meetings.
  void end() {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
    all_here_.notify_all();
  }
  bool is_over() const {
    const std::scoped_lock lock(mutex_);
    return is_over_;
  }
  /// A process was killed.
  void lose_one() {
    const std::scoped_lock lock(mutex_);
    has_lost_one_ = true;
    all_here_.notify_all();
  }
  void await_loss() {
    std::unique_lock lock(mutex_);
    all_here_.wait(lock, [&] { return has_lost_one_ || is_over_; });
  }
  int meetings() const {
    const std::scoped_lock lock(mutex_);
    return meetings_;
  }

 private:
  const std::int32_t processes_;
  mutable std::mutex mutex_;
  std::condition_variable all_here_;
  std::int32_t here_ = 0;
  int meetings_ = 0;
  bool is_over_ = false;
  bool has_lost_one_ = false;
  std::shared_ptr<joined_meshes> met_;
};

/// How a job that heals runs.
struct healing_case {
  std::int64_t copy_every = 1;
  bool changes = false;  // its order and its hosting, now and then
  /// On faked accelerators, with or without links between them.
  std::optional<bool> device_links{};
};

/// What a monitor of the leading process sees.
struct seen_events {
  std::vector<std::int64_t> steps;
  int epochs = 0;
  int second_runs = 0;  // events of such

  /// `watches`: also the tensors of a second run.
  monitor watch(bool watches) {
    monitor watcher;
    watcher.name = "seen";
    if (watches)
      watcher.wants = {.tensors = tensor_kind::activation, .watches = true};
    watcher.see = [this](const event& what) {
      if (const auto* step = std::get_if<step_event>(&what))
        steps.push_back(step->source.step);
      epochs += std::holds_alternative<epoch_event>(what) ? 1 : 0;
      if (const auto* op = std::get_if<tensors_event>(&what))
        second_runs += op->reading == step_reading::again;
    };
    return watcher;
  }
};

/// A process of a job that heals, on a thread; it can be killed at any time,
/// and starts again.
class mortal_process {
 public:
  mortal_process(meeting_place& where, std::int32_t process,
                 const small_case& what, std::int64_t steps,
                 const healing_case& how)
    : where_(where),
      process_(process),
      what_(what),
      steps_(steps),
      how_(how),
      thread_([this] {
        try {
          while (!live()) {
          }
        } catch (const std::exception& reason) {
          error = reason.what();
        }
        where_.end();
      }) {}

  /// As if the process was killed: its connections end, and it knows nothing
  /// more.
  bool kill() {
    const std::scoped_lock lock(mutex_);
    // A state is lost whose host and keeper are killed before there is another
    // copy.
    if (!run_ || !has_stepped_ || step_ > steps_ - 5)
      return false;
    was_killed_ = true;
    job_->leave();
    run_->interrupt("killed");
    where_.lose_one();
    return true;
  }
  void join() { thread_.join(); }

  std::string error;
  parameter_list parameters;  // of the leading process
  seen_events seen;           // since it was started
  /// By monitors that were attached at the beginning of an epoch.
  std::deque<seen_events> seen_late;

 private:
  /// Returns whether it has trained all steps.
  bool live() {
    auto options = options_for(what_);
    options.job = where_.join(process_);
    // The place keeps the mesh of a process that has ended.
    const std::unique_ptr<mesh, void (*)(mesh*)> leaving(
      options.job.get(), [](mesh* job) { job->leave(); });
    options.healing = {.rejoin =
                         [this](const auto&, const auto&) {
                           require_alive();
                           return job_meeting{.job = where_.join(process_)};
                         },
                       .copy_every = how_.copy_every};
    if (how_.device_links) {
      options.devices = {std::make_shared<faked_accelerator>()};
      options.device_links = *how_.device_links;
    }
    trainer run(model_for(what_), options);
    has_stepped_ = false;
    seen = {};
    run.attach(seen.watch(what_.hits));
    set(&run, options.job);
    const auto killed = [&] {
      set(nullptr, nullptr);
      return std::exchange(was_killed_, false);
    };
    try {
      while (!train(run)) {
      }
    } catch (const troupe::error&) {
      if (killed())
        return false;
      throw;
    }
    return !killed();
  }
  bool train(trainer& run) {
    has_stepped_ = false;
    try {
      for (; (step_ = run.progress().step) < steps_;)
        step(run);
      run.check_replicas();
      const auto all = run.gather_parameters();
      parameters.clear();
      for (const auto& [name, value] : on_host(all))
        parameters.emplace_back(name, value.clone());
      return true;
    } catch (const troupe::error& reason) {
      require_alive();
      has_stepped_ = false;
      if (!run.heal(reason))
        throw;
      run.attach(seen_late.emplace_back().watch(what_.hits));
      return false;
    }
  }
  /// The leading process also changes the order and the hosting now and then.
  void step(trainer& run) {
    const auto before = run.progress().step;
    if (before == 20)
      where_.await_loss();
    require_alive();
    if (how_.changes && process_ == 0 && before % 7 == 3)
      run.replan(
        make_schedule(before % 2 == 0 ? "gpipe" : "zb_h1", shape_of(what_)));
    if (how_.changes && process_ == 0 && before % 5 == 2)
      run.move(static_cast<std::int32_t>(before % what_.ranks),
               static_cast<std::int32_t>(before / 2 % 3));
    run.step(small_text());
    has_stepped_ = true;
  }
  void require_alive() {
    const std::scoped_lock lock(mutex_);
    if (was_killed_)
      throw troupe::error(error_code::interrupted, "killed");
  }
  void set(trainer* run, std::shared_ptr<mesh> job) {
    const std::scoped_lock lock(mutex_);
    run_ = run;
    job_ = std::move(job);
  }

  meeting_place& where_;
  const std::int32_t process_;
  const small_case what_;
  const std::int64_t steps_;
  const healing_case how_;
  std::mutex mutex_;
  trainer* run_ = nullptr;
  std::shared_ptr<mesh> job_;
  bool was_killed_ = false;
  std::atomic<std::int64_t> step_ = 0;
  std::atomic<bool> has_stepped_ = false;  // since the processes met
  std::thread thread_;
};

/// Trains in so many processes, of which each meeting loses one; checks the
/// bits of a run without losses.
inline void check_healed(const small_case& what, std::int32_t processes,
                         int kills, std::uint32_t seed,
                         const healing_case& how = {}) {
  INFO(describe(what) << ", seed " << seed);
  constexpr std::int64_t steps = 60;
  std::mt19937 random(seed);
  meeting_place where(processes);
  std::vector<std::unique_ptr<mortal_process>> all;
  for (std::int32_t p = 0; p < processes; ++p)
    all.push_back(std::make_unique<mortal_process>(where, p, what, steps, how));
  for (int k = 0; k < kills; ++k) {
    while (where.meetings() <= k && !where.is_over())
      std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 40));
    while (!all[random() % all.size()]->kill() && !where.is_over())
      std::this_thread::yield();
  }
  for (auto& each : all)
    each->join();
  for (const auto& each : all)
    CHECK(each->error == "");
  CHECK(where.meetings() > 1);
  auto alone = trainer_for(what, nullptr);
  for (std::int64_t i = 0; i < steps; ++i)
    alone.step(small_text());
  CHECK(first_difference(alone.parameters(), all[0]->parameters) == "");
}

}  // namespace troupe::testing
