// A run that is saved and resumed with other numbers of replicas, ranks and
// microbatches trains once on each token of an epoch.
#include <catch2/catch_test_macros.hpp>

#include <map>
#include <mutex>

#include "../temporary_folder.hpp"
#include "saved_run.hpp"
#include "small_model.hpp"
#include "troupe/engine/checkpoint/stored_checkpoint.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

constexpr std::int64_t row_length = 10;
constexpr std::int64_t rows = 24;  // of an epoch

/// How often each target was trained.
struct trained_targets {
  std::mutex mutex;
  std::map<std::int64_t, int> counts;

  loss_function counting() {
    return [this, loss = cross_entropy_loss()](const tensor_list& outputs,
                                               const microbatch_data& data) {
      const auto& targets = data.targets.at(0);
      const std::scoped_lock lock(mutex);
      for (std::int64_t i = 0; i < targets.numel(); ++i)
        ++counts[targets.const_data_ptr<std::int64_t>()[i]];
      return loss(outputs, data);
    };
  }
};

struct part_of_epoch {
  small_case shape;
  std::int64_t microbatch_rows;
  int steps;
};

}  // namespace

TEST_CASE("an epoch over resumes and other world sizes takes each token once") {
  const temporary_folder folder;
  std::string bytes;
  for (int i = 0; i < 251; ++i)  // each id once
    bytes += static_cast<char>(i);
  const auto text =
    open_tokens(folder.write("text", bytes), token_format::bytes);
  const model layers = gpt({.width = 8,
                            .layers = 4,
                            .heads = 2,
                            .length = row_length,
                            .vocabulary = 251});
  // 24 rows in parts of 8, 2, 6 and 8.
  const std::vector<part_of_epoch> parts = {
    {{.microbatches = 2, .data_parallel = 2}, 1, 2},
    {{.ranks = 1, .microbatches = 1}, 2, 1},
    {{.ranks = 4, .microbatches = 3, .data_parallel = 2}, 1, 1},
    {{.ranks = 2,
      .microbatches = 1,
      .data_parallel = 4,
      .sharding = {.mode = shard_mode::all}},
     2,
     1}};
  trained_targets trained;
  std::string saved;
  std::int64_t first_row = 0;
  for (const auto& [shape, microbatch_rows, steps] : parts) {
    auto options = options_for(shape);
    options.numerics.loss = trained.counting();
    trainer run(layers, std::move(options));
    if (!saved.empty())
      run.restore(stored_checkpoint(saved));
    REQUIRE(first_row % microbatch_rows == 0);
    run.set_position(first_row / microbatch_rows);
    const auto source = text_batches(
      text, {.rows = microbatch_rows, .length = row_length, .seed = 3});
    for (int i = 0; i < steps; ++i)
      run.step(source);
    first_row = run.position() * microbatch_rows;
    saved = saved_run(run, folder / std::to_string(first_row));
  }
  REQUIRE(first_row == rows);
  CHECK(trained.counts.size() == rows * row_length);
  for (const auto& [target, count] : trained.counts)
    CHECK(count == 1);
}
