#include <catch2/catch_test_macros.hpp>

#include "small_model.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("every optimizer gives the bits of the plain loop") {
  for (const optimizer_options& options :
       {optimizer_options{
          sgd{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}},
        optimizer_options{lion{.learning_rate = 1e-2, .weight_decay = 0.1}},
        optimizer_options{adafactor{}},
        optimizer_options{muon{.learning_rate = 1e-2}},
        optimizer_options{muon{.scale = muon_scale::original}}})
    for (const auto& what :
         {small_case{.ranks = 3, .clip = 0.5, .optimizer = options},
          small_case{.schedule = "zb_h1",
          .ranks = 2,
          .data_parallel = 2,
          .optimizer = options},
          small_case{.schedule = "two_bw", .ranks = 2, .optimizer = options}}) {
      INFO("optimizer " << options.index() << ", " << describe(what));
      CHECK(compare_with_plain(what, 3) == "");
    }
}
