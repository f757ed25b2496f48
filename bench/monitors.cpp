// The cost of monitors: one process, by default one rank, the model of the
// peer; modes alternate in short blocks, so that the machine's noise affects
// all alike. Prints one JSON object; versus_monitors.py compares it with the
// peer.

#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <fmt/format.h>

#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "troupe/actors/trainer.hpp"
#include "troupe/bench/measuring.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/models/gpt.hpp"
#include "troupe/engine/stage/random.hpp"
#include "troupe/engine/stage/stage_module.hpp"
#include "troupe/monitors/tensors/gap.hpp"
#include "troupe/monitors/tensors/overflow.hpp"
#include "troupe/monitors/timing/timeline.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;

namespace {

using seconds = std::chrono::duration<double>;

struct sizes {
  gpt_options gpt{.width = 256, .layers = 6, .heads = 8, .length = 128};
  std::int64_t microbatch_size = 8;
  std::int32_t ranks = 1;
  std::int32_t microbatches = 1;
  int rounds = 8;
  int block = 4;
  std::vector<std::string> only;
  bool cuda = false;
  bool bf16 = false;
};

struct tally {
  std::vector<double> seconds;
  std::vector<double> processor;  // seconds of all threads of the process
  std::vector<double> observing;  // of the steps' own threads
  std::int64_t tensors = 0, values = 0, steps = 0;
};

source_pointer random_text(const sizes& use) {
  const auto at = [use](std::int64_t index) {
    const auto ids = at::randint(256, {use.microbatch_size, use.gpt.length + 1},
                                 generator_at(1, index), at::kLong);
    return microbatch_data{{ids.slice(1, 0, use.gpt.length).contiguous()},
                           {ids.slice(1, 1).contiguous()},
                           {},
                           use.microbatch_size * use.gpt.length};
  };
  return make_source(at, -1, /*counts_equally=*/true);
}

/// Counts the events that a monitor sees, and what the steps spent on it.
monitor counted(monitor original, tally& target) {
  original.see = [see = std::move(original.see), &target](const event& what) {
    if (const auto* op = std::get_if<tensors_event>(&what))
      for (const auto& record : op->tensors) {
        ++target.tensors;
        target.values +=
          record.sample ? record.sample->read : record.statistics.count;
      }
    if (const auto* step = std::get_if<step_event>(&what))
      target.observing.push_back(step->observe_seconds);
    see(what);
  };
  return original;
}

struct empty_module : torch::nn::Module {
  static at::Tensor forward(const at::Tensor& x) { return x; }
};

/// Nanoseconds that `observe` adds to a module's call without monitors.
double empty_publish_ns() {
  constexpr int calls = 20'000'000;
  auto module = std::make_shared<empty_module>();
  const auto x = at::ones({1});
  const auto time = [&](auto&& call) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) {
      auto y = call();
      asm volatile("" : : "r"(&y) : "memory");
    }
    return seconds(std::chrono::steady_clock::now() - begin).count() * 1e9
           / calls;
  };
  std::vector<double> added;
  for (int i = 0; i < 7; ++i) {
    const auto bare = time([&] { return module->forward(x); });
    added.push_back(time([&] { return observe(module, x); }) - bare);
  }
  return median(added);
}

/// The modes; the first has no monitor.
std::vector<std::pair<std::string, std::optional<monitor>>> modes_for(
  const sizes& use) {
  const auto nowhere = callback_sink([](const metrics_record&) {});
  std::vector<std::pair<std::string, std::optional<monitor>>> modes{
    {"none", std::nullopt},
    {"gap", gap_monitor({}, nowhere)},
    {"gap_sample", gap_monitor({.sample = 0.01}, nowhere)},
    {"overflow", overflow_monitor({}, nowhere)},
    {"overflow_full",
     overflow_monitor({.reading = overflow_reading::full}, nowhere)},
    {"timeline", timeline_monitor({})}};
  std::erase_if(modes, [&](const auto& mode) {
    return mode.second && !use.only.empty()
           && std::ranges::find(use.only, mode.first) == use.only.end();
  });
  return modes;
}

/// Less disturbed by other programs than the wall clock.
double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec)
         + static_cast<double>(now.tv_nsec) * 1e-9;
}

void run_block(trainer& run, const source_pointer& text, int steps,
               tally& target) {
  run.step(text);  // untimed, after the change
  target.tensors = target.values = 0;
  for (int i = 0; i < steps; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto before = processor_seconds();
    run.step(text);
    target.processor.push_back(processor_seconds() - before);
    target.seconds.push_back(
      seconds(std::chrono::steady_clock::now() - begin).count());
  }
}

struct share {
  double middle, low, high;
};

/// The median over rounds of a mode's extra time per block, in percent of a
/// block without; `low` to `high` contains it with a confidence of 95 % (order
/// statistics: rounds fall on either side of it like coins).
share overhead_pct(const std::vector<double>& subject,
                   const std::vector<double>& without, int block) {
  std::vector<double> rounds;
  for (auto index = 0; index + block <= std::ssize(subject); index += block) {
    const auto middle = [&](const std::vector<double>& each) {
      const auto begin = each.begin() + index;
      return median(std::vector<double>(begin, begin + block));
    };
    rounds.push_back(100 * (middle(subject) / middle(without) - 1));
  }
  std::ranges::sort(rounds);
  const auto count = static_cast<double>(rounds.size());
  const auto reach = 0.98 * std::sqrt(count);
  const auto ranked = [&](double place) {
    return rounds[static_cast<std::size_t>(std::clamp(place, 0., count - 1))];
  };
  return {ranked(count / 2), ranked(count / 2 - reach),
          ranked(count / 2 + reach)};
}

void measure_modes(const sizes& use) {
  trainer_options options;
  options.schedule = make_schedule(
    "1f1b", {.ranks = use.ranks, .microbatches = use.microbatches});
  options.devices = one_gpu(use.cuda);
  options.execution.holds_updates = true;  // overflow watches
  if (use.bf16)
    options.numerics.autocast = at::kBFloat16;
  trainer run(gpt(use.gpt), options);
  const auto text = random_text(use);
  std::map<std::string, tally> tallies;
  for (int i = 0; i < 3; ++i)
    run.step(text);
  for (int round = 0; round < use.rounds; ++round) {
    auto modes = modes_for(use);
    // Each mode follows each other one equally often, as conditions may change
    // within a round.
    std::ranges::rotate(modes, modes.begin() + round % std::ssize(modes));
    for (auto& [name, monitor_of_mode] : modes) {
      auto& tally = tallies[name];
      const auto id =
        monitor_of_mode
          ? run.attach(counted(std::move(*monitor_of_mode), tally))
          : std::int64_t{0};
      run_block(run, text, use.block, tally);
      if (monitor_of_mode)
        run.detach(id);
    }
  }
  const auto base = median(tallies["none"].seconds);
  nlohmann::ordered_json out;
  for (const auto& [name, tally] : tallies) {
    const auto& without = tallies["none"];
    const auto added = overhead_pct(tally.seconds, without.seconds, use.block);
    const auto worked =
      overhead_pct(tally.processor, without.processor, use.block);
    out["modes"][name] = {
      {"ms_per_step", median(tally.seconds) * 1e3},
      {"overhead_pct", added.middle},
      {"overhead_pct_low", added.low},
      {"overhead_pct_high", added.high},
      {"processor_ms_per_step", median(tally.processor) * 1e3},
      {"processor_pct", worked.middle},
      {"processor_pct_low", worked.low},
      {"processor_pct_high", worked.high},
      {"observe_ms_per_step",
       tally.observing.empty() ? 0 : median(tally.observing) * 1e3},
      {"tensors_per_step", tally.tensors / use.block},
      {"values_per_step", tally.values / use.block}};
  }
  const auto empty = empty_publish_ns();
  // Modules that call `observe` in a forward: seven per block and four more.
  const auto calls =
    (7.0 * static_cast<double>(use.gpt.layers) + 4) * use.microbatches;
  out["empty_publish_ns"] = empty;
  out["empty_publish_pct_of_step"] = 100 * empty * 1e-9 * calls / base;
  fmt::print("{}\n", out.dump());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What monitors cost a step.\n\n  monitors --rounds 8");
  sizes use;
  app.add_option("--ranks", use.ranks);
  app.add_option("--d-model", use.gpt.width);
  app.add_option("--layers", use.gpt.layers);
  app.add_option("--heads", use.gpt.heads);
  app.add_option("--seq", use.gpt.length);
  app.add_option("--microbatch-size", use.microbatch_size);
  app.add_option("--microbatches", use.microbatches);
  app.add_option("--rounds", use.rounds, "blocks of each mode");
  app.add_option("--block", use.block, "timed steps a block");
  app
    .add_option("--only", use.only,
                "these monitors alone: gap, gap_sample, overflow, "
                "overflow_full, timeline")
    ->check(CLI::IsMember(
      {"gap", "gap_sample", "overflow", "overflow_full", "timeline"}));
  app.add_flag("--cuda", use.cuda, "on the first GPU");
  app.add_flag("--bf16", use.bf16, "compute in bf16 where that gains");
  CLI11_PARSE(app, argc, argv);
  return run_benchmark([&] { measure_modes(use); });
}
