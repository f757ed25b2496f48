#include "troupe/actors/step/step_loader.hpp"

#include <ATen/ops/full.h>
#include <catch2/catch_test_macros.hpp>

#include <stdexcept>

using namespace troupe;

namespace {

/// Notes what was made.
struct numbered {
  std::vector<std::int64_t> made;
  std::int64_t hole = -1;
  std::shared_ptr<const microbatch_source> source(std::int64_t size = -1) {
    return make_source(
      [this](std::int64_t index) {
        made.push_back(index);
        if (index == hole)
          throw std::runtime_error("a hole");
        return microbatch_data{{at::full({1}, index)}, {}, {}, 1};
      },
      size);
  }
};

std::vector<std::int64_t> numbers(const std::vector<microbatch_data>& step) {
  std::vector<std::int64_t> all;
  for (const auto& data : step)
    all.push_back(data.inputs[0].item<std::int64_t>());
  return all;
}

using list = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("a step's microbatches are made at once, or ahead of time") {
  numbered from;
  const auto source = from.source();
  step_loader loader(2, 1e9, {});
  CHECK(numbers(loader.take(source, 4)) == list{4, 5});
  loader.make_ahead(source, 6);
  CHECK(from.made == list{4, 5, 6, 7});
  CHECK(numbers(loader.take(source, 6)) == list{6, 7});
  CHECK(from.made.size() == 4);
  CHECK(numbers(loader.take(source, 6)) == list{6, 7});  // taken only once
  CHECK(from.made.size() == 6);
}

TEST_CASE("what was made ahead is of use only where the run goes on") {
  numbered from, other;
  const auto source = from.source();
  step_loader loader(2, 1e9, {});
  loader.make_ahead(source, 2);
  CHECK(numbers(loader.take(source, 0)) == list{0, 1});
  loader.make_ahead(source, 2);
  const auto elsewhere = other.source();
  CHECK(numbers(loader.take(elsewhere, 2)) == list{2, 3});
  CHECK(other.made == list{2, 3});
}

TEST_CASE("what can't be made is left to others") {
  numbered from{.made = {}, .hole = 3};
  step_loader loader(2, 1e9, {});
  const auto source = from.source(7);
  CHECK(loader.take(source, 2).empty());
  loader.make_ahead(source, 2);
  CHECK(loader.take(source, 2).empty());
  CHECK(numbers(loader.take(source, 5)) == list{5, 6});
  CHECK(loader.take(source, 6).empty());  // beyond the end
}

TEST_CASE("microbatches that take long are reported") {
  numbered from;
  list slow;
  const auto report = [&](std::int64_t which, double seconds) {
    slow.push_back(which);
    CHECK(seconds >= 0);
  };
  step_loader loader(2, -1, report);
  loader.take(from.source(), 4);
  CHECK(slow == list{0, 1});
  step_loader patient(2, 1e9, report);
  patient.take(from.source(), 4);
  CHECK(slow.size() == 2);
}
