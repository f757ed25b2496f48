#include <catch2/catch_test_macros.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/log_softmax.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/data/microbatch_source.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// 13 microbatches: each has two rows of 8 labels, but the last has one row of
/// 3.
constexpr std::int64_t all_labels = 12 * 16 + 3;

source_pointer held_out_rows() {
  std::vector<std::int64_t> ids(all_labels + 1);
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int64_t>((i * i * 7 + i / 3) % 32);
  return rows_once(std::make_shared<token_source>(
                     "list", std::ssize(ids),
                     [ids](auto first, auto count, auto* out) {
                       std::copy_n(ids.begin() + first, count, out);
                     }),
                   {.rows = 2, .length = 8, .vocabulary = 32});
}

/// The plain loop's validation loss on so many microbatches.
double plainly(const small_case& what, std::int64_t count) {
  plain_loop plain(model_for(what), {});
  const auto rows = held_out_rows();
  return plain.evaluate([&](std::int64_t k) { return rows->at(k); }, count)
    .value;
}

/// The mean over all labels, with one microbatch after the other.
double mean_of_labels() {
  plain_loop plain(model_for({}), {});
  const auto rows = held_out_rows();
  double sum = 0;
  for (std::int64_t k = 0; k < rows->size(); ++k) {
    const auto data = rows->at(k);
    const auto logits = at::log_softmax(plain.infer(data.inputs).at(0), -1);
    for (std::int64_t r = 0; r < data.targets[0].size(0); ++r)
      for (std::int64_t t = 0; t < data.targets[0].size(1); ++t)
        if (const auto id = data.targets[0][r][t].item<std::int64_t>(); id >= 0)
          sum -= logits[r][t][id].item<double>();
  }
  return sum / all_labels;
}

}  // namespace

TEST_CASE("rows once give each token but the first as a label once") {
  const auto rows = held_out_rows();
  REQUIRE(rows->size() == 13);
  std::int64_t labels = 0, tokens = 0;
  for (std::int64_t k = 0; k < rows->size(); ++k) {
    labels += rows->at(k).targets.at(0).ne(-100).sum().item<std::int64_t>();
    tokens += rows->at(k).tokens;
  }
  CHECK(labels == all_labels);
  CHECK(tokens == all_labels);
  CHECK(rows->at(12).inputs.at(0).sizes() == at::IntArrayRef{1, 8});
}

TEST_CASE("the held-out loss is the mean over all labels in every shape") {
  CHECK(std::abs(plainly({}, 13) - mean_of_labels()) < 1e-6);
  const auto rows = held_out_rows();
  const std::map<std::int32_t, double> by_stages{
    {1, plainly({}, 13)}, {2, plainly({.stages_per_rank = 2}, 13)}};
  for (const auto& row : builtin_schedules())
    for (const std::int32_t microbatches : {1, 2, 5, 8})
      for (const std::int32_t replicas : {1, 2}) {
        auto what =
          catalogue_case(row, {.ranks = 2,
                               .stages_per_rank = row.stages_per_rank.least,
                               .microbatches = microbatches,
                               .slices = row.has_slices ? 2 : 1});
        what.data_parallel = replicas;
        try {
          (void)make_schedule(what.schedule, shape_of(what));
        } catch (const error&) {
          continue;  // the schedule does not support so many microbatches
        }
        if (row.name == "forward_only")
          continue;
        INFO(describe(what));
        const auto expected = by_stages.at(what.stages_per_rank);
        trainer run(model_for(what), options_for(what));
        const auto result = run.evaluate(rows, rows->size());
        CHECK(result.losses.at(0).count == all_labels);
        CHECK(result.tokens == all_labels);
        if (what.slices == 1)  // otherwise the sums have another order
          CHECK(result.losses.at(0).value == expected);
        else
          CHECK(std::abs(result.losses.at(0).value - expected) < 1e-6);
      }
}

TEST_CASE("a validation of some of the microbatches counts no others") {
  const auto rows = held_out_rows();
  for (const std::int64_t count : {1, 3, 7, 13}) {
    const small_case what{.data_parallel = 2};
    trainer run(model_for(what), options_for(what));
    const auto result = run.evaluate(rows, count);
    CHECK(result.losses.at(0).value == plainly({}, count));
    CHECK(result.tokens == std::min(count * 16, all_labels));
  }
}
