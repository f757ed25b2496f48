#include "troupe/cli/train/shared_devices.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "troupe/base/error.hpp"
#include "troupe/engine/launch/environment.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using troupe::cli::choose_devices;
using numbers = std::vector<int>;

namespace {

troupe::launch_environment process_of(int process, int processes) {
  return {.process = process,
          .processes = processes,
          .local_process = process,
          .local_processes = processes};
}

}  // namespace

TEST_CASE("a process that is alone takes all GPUs, one of several its own") {
  CHECK(choose_devices(process_of(0, 1), 4, 22809).numbers
        == numbers{0, 1, 2, 3});
  for (int i = 0; i < 3; ++i) {
    const auto choice = choose_devices(process_of(i, 3), 4, 22809);
    CHECK(choice.numbers == numbers{i});
    CHECK(choice.shared.empty());
  }
}

TEST_CASE("processes share GPUs in turns where NCCL can") {
  const auto choice = choose_devices(process_of(2, 5), 2, 23007);
  CHECK(choice.numbers == numbers{0});
  CHECK_THAT(choice.shared,
             ContainsSubstring("5 processes share 2 GPUs of this machine (NCCL "
                               "2.30.7, NCCL_MULTI_RANK_GPU_ENABLE=1)"));
  CHECK(choose_devices(process_of(3, 5), 2, 23000).numbers == numbers{1});
  CHECK_THROWS_MATCHES(
    choose_devices(process_of(2, 5), 2, 22809), troupe::error,
    MessageMatches(ContainsSubstring("NCCL 2.28.9 does not allow")
                   && ContainsSubstring("NCCL 2.30 or later")));
}
