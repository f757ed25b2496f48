#include "troupe/actors/job/run_texts.hpp"

#include <catch2/catch_test_macros.hpp>

#include "troupe/actors/job/job_layout.hpp"

using namespace troupe;

TEST_CASE("a process is named with the ranks that it hosts, if any") {
  const job_layout layout{.processes = 3, .ranks = 2, .hosting = {0, 1}};
  CHECK(in_words(1, layout) == "process 1 (rank 1)");
  CHECK(in_words(2, layout) == "process 2");
}
