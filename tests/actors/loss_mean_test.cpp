#include <catch2/catch_test_macros.hpp>

#include <cmath>

#include "small_model.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// The small text with leading labels of each microbatch ignored: none of the
/// first, then 5 more each time, all of the fourth. `all`: ignores all labels.
source_pointer partly_ignored(bool all = false) {
  return preprocess(small_text(), [all](microbatch_data data,
                                        std::int64_t index) {
    auto labels = data.targets.at(0).clone();
    const auto count = all || index % 4 == 3 ? labels.numel() : 5 * (index % 4);
    labels.view(-1).narrow(0, 0, count).fill_(-100);
    data.targets = {labels};
    return data;
  });
}

double labels_of(const microbatch_data& data) {
  return data.targets.at(0).ne(-100).sum().item<double>();
}

}  // namespace

TEST_CASE("the reported loss is the mean over all real labels of a step") {
  const small_case what{.data_parallel = 2};
  const auto text = partly_ignored();
  plain_loop each(model_for(what), plain_options_for(what));
  double sum = 0, count = 0;
  for (std::int64_t k = 0; k < 8; ++k) {
    const auto labels = labels_of(text->at(k));
    if (labels > 0)
      sum += labels * each.evaluate([&](auto) { return text->at(k); }, 1).value;
    count += labels;
  }
  CHECK(count == 2 * (16 + 11 + 6));

  trainer run(model_for(what), options_for(what));
  plain_loop plain(model_for(what), plain_options_for(what));
  CHECK(std::abs(run.evaluate(text, 8).losses.at(0).value - sum / count)
        < 1e-6);
  for (std::int64_t step = 0; step < 3; ++step) {
    const auto loss = run.step(text).summary.losses.at(0);
    const auto expected =
      plain.step([&](std::int64_t k) { return text->at(8 * step + k); });
    CHECK(loss.count == count);
    CHECK(loss.value == expected.loss);
    if (step == 0)
      CHECK(std::abs(loss.value - sum / count) < 1e-6);
  }
  CHECK(first_difference(run.parameters(), plain.parameters()) == "");
}

TEST_CASE("steps of ignored labels alone have no loss and change nothing") {
  small_case what{};
  auto options = options_for(what);
  options.numerics.optimizer = sgd{};
  options.numerics.clip = 1;
  trainer run(model_for(what), options);
  trainer before(model_for(what), options);
  const auto loss = run.step(partly_ignored(true)).summary.losses.at(0);
  CHECK(loss.value == 0);
  CHECK(loss.count == 0);
  CHECK(first_difference(run.parameters(), before.parameters()) == "");
}
