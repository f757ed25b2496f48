// The settings of compute threads, and of the user's own threads.
#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <thread>

#include "small_model.hpp"
#include "troupe/engine/stage/update/optimizer.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Elements of the state that are neither 0 nor normal.
int subnormals(const optimizer_state& state) {
  int count = 0;
  for (const auto& each : state)
    for (const auto& [name, value] : each.tensors) {
      const auto row = value.reshape(-1).contiguous();
      for (std::int64_t i = 0; i < row.numel(); ++i)
        count += std::fpclassify(row.const_data_ptr<float>()[i]) == FP_SUBNORMAL
                   ? 1
                   : 0;
    }
  return count;
}

}  // namespace

TEST_CASE("moments of rows that are no longer used become 0, not subnormal") {
  const small_case what{.optimizer = adamw{.beta1 = 0.01, .beta2 = 0.01}};
  // Only the first step has these rows; later their gradients are 0.
  const auto text = small_text();
  const auto source = make_source(
    [text](std::int64_t index) { return text->at(index < 4 ? index : 4); });
  trainer run(model_for(what), options_for(what));
  plain_loop loop(model_for(what), plain_options_for(what));
  for (int step = 0; step < 24; ++step) {
    run.step(source);
    loop.step([&](std::int64_t k) { return source->at(4 * step + k); });
  }
  CHECK(first_difference(run.parameters(), loop.parameters()) == "");
  CHECK(subnormals(loop.state()) == 0);
}

TEST_CASE("a trainer leaves the user's threads their settings") {
  int own = 0, later = 0;
  float tiny = 0;
  std::thread([&] {
    at::set_num_threads(2);
    const small_case what{};
    trainer run(model_for(what), options_for(what));
    run.step(small_text());
    plain_loop loop(model_for(what), {});
    loop.evaluate([text = small_text()](std::int64_t k) { return text->at(k); },
                  1);
    own = at::get_num_threads();
    std::thread([&] { later = at::get_num_threads(); }).join();
    tiny = (at::full({1}, 1e-39F) * 1).item<float>();
  }).join();
  CHECK(own == 2);
  CHECK(later == 2);
  CHECK(tiny != 0);
}
