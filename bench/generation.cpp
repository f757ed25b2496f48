// Tokens per second of a GPT with d_model 256 and untrained parameters, decoded
// greedily with one thread per rank. Each row is the median of several runs;
// the rows' runs alternate. Prints a Markdown table.
//   generation [--prompts N] [--tokens N] [--runs N]

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "troupe/actors/trainer.hpp"
#include "troupe/bench/measuring.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"
#include "troupe/engine/models/gpt.hpp"
#include "troupe/engine/stage/plain/plain_loop.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;

namespace {

constexpr gpt_options sizes{
  .width = 256, .layers = 8, .heads = 8, .length = 256};

struct settings {
  std::size_t prompts = 8;
  std::int64_t tokens = 128;
  int runs = 5;
};

std::vector<generation_request> requests_of(std::size_t prompts,
                                            std::int64_t tokens) {
  std::vector<generation_request> requests;
  for (std::size_t i = 0; i < prompts; ++i) {
    auto& each = requests.emplace_back();
    for (std::int64_t k = 0; k < 16; ++k)
      each.ids.push_back((static_cast<std::int64_t>(i) * 37 + k * 11) % 256);
    each.tokens = tokens;
    each.sampling.temperature = 0;
  }
  return requests;
}

struct row {
  std::string name;
  std::function<void()> run;
  std::int64_t tokens = 0;
  std::vector<double> seconds = {};
};

std::shared_ptr<trainer> trainer_of(std::int32_t ranks) {
  trainer_options options;
  options.schedule =
    make_schedule("gpipe", {.ranks = ranks, .microbatches = 1});
  return std::make_shared<trainer>(gpt(sizes), options);
}

/// `how`: rows and positions.
row cached(const settings& s, std::int32_t ranks, std::size_t prompts,
           generation_options how) {
  how.length = sizes.length;
  return {
    fmt::format("cache, {} rank{}, {} prompt{}, rows {}, positions {}", ranks,
                ranks == 1 ? "" : "s", prompts, prompts == 1 ? "" : "s",
                how.rows, how.positions),
    [=, run = trainer_of(ranks), requests = requests_of(prompts, s.tokens)] {
      run->generate(requests, how);
    },
    static_cast<std::int64_t>(prompts) * s.tokens};
}

row plain(const settings& s) {
  auto loop = std::make_shared<plain_loop>(gpt(sizes), plain_options{});
  return {"the whole sequence for each token, 1 prompt",
          [loop, request = requests_of(1, s.tokens).front()] {
            generate_plainly(
              [&](const at::Tensor& ids) { return loop->infer({ids}).at(0); },
              request, {.length = sizes.length});
          },
          s.tokens};
}

std::vector<row> rows_of(const settings& s) {
  const auto rows = static_cast<std::int64_t>(s.prompts);
  return {plain(s),
          cached(s, 1, 1, {}),
          cached(s, 2, 1, {}),
          cached(s, 1, s.prompts, {}),
          cached(s, 2, s.prompts, {}),
          cached(s, 2, s.prompts, {.positions = 1}),
          cached(s, 2, s.prompts, {.positions = 4}),
          cached(s, 2, s.prompts, {.positions = 64}),
          cached(s, 1, s.prompts, {.rows = rows}),
          cached(s, 2, s.prompts, {.rows = rows / 2})};
}

void measure(const settings& s) {
  set_intra_op_threads(1);
  auto rows = rows_of(s);
  for (int i = 0; i <= s.runs; ++i)
    for (auto& each : rows) {
      const auto begin = now_ns();
      each.run();
      if (i > 0)  // the first one warms up
        each.seconds.push_back(static_cast<double>(now_ns() - begin) * 1e-9);
    }
  fmt::print("| what | tokens/s | ms a token |\n|---|---|---|\n");
  for (const auto& each : rows) {
    const auto rate = static_cast<double>(each.tokens) / median(each.seconds);
    fmt::print("| {} | {:.0f} | {:.2f} |\n", each.name, rate, 1000 / rate);
  }
}

}  // namespace

int main(int argc, char** argv) {
  settings s;
  CLI::App app("tokens a second");
  app.add_option("--prompts", s.prompts)->check(CLI::Range(2, 1000));
  app.add_option("--tokens", s.tokens)->check(CLI::Range(1, 240));
  app.add_option("--runs", s.runs)->check(CLI::Range(1, 100));
  CLI11_PARSE(app, argc, argv);
  measure(s);
}
