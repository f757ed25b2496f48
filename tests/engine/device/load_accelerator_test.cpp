#include "troupe/engine/device/load_accelerator.hpp"

#include <ATen/ops/ones.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>

#include <cstdlib>

#include "../../run_program.hpp"
#include "../../temporary_folder.hpp"
#include "troupe/engine/device/accelerator.hpp"
#include "troupe_paths.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

TEST_CASE("without a library of accelerators, a sentence says why") {
  const auto& loaded = load_accelerators();
  CHECK((loaded.library == nullptr) == !loaded.why_not.empty());
  CHECK(&loaded == &load_accelerators());
}

TEST_CASE("a library that is missing is named") {
  const auto loaded = load_accelerators("/nowhere/libtroupe_cuda.so");
  CHECK_FALSE(loaded);
  CHECK_THAT(loaded.why_not, StartsWith("libtroupe_cuda.so: "));
  CHECK_THAT(loaded.why_not, ContainsSubstring("No such file"));
}

TEST_CASE("a library of something else is refused") {
  const auto loaded = load_accelerators("libm.so.6");
  CHECK_FALSE(loaded);
  CHECK_THAT(loaded.why_not,
             StartsWith("libm.so.6: can't load the accelerator library"));
}

TEST_CASE("a library of another build is refused") {
  const testing::temporary_folder folder;
  const auto source = folder.write(
    "library.cpp", "extern \"C\" void troupe_accelerators(int, void*) {}");
  const auto file = folder / "libtroupe_cuda.so";
  const auto compiled = testing::run_program(
    fmt::format("{} -shared -fPIC -o {} {}", TROUPE_COMPILER, file, source));
  INFO(compiled.output);
  REQUIRE(compiled.exit_code == 0);
  CHECK_THAT(load_accelerators(file).why_not,
             StartsWith("libtroupe_cuda.so is from another build of troupe"));
}

TEST_CASE("the environment names a library of accelerators") {
  setenv("TROUPE_CUDA_PLUGIN", "/nowhere/mine.so", 1);
  CHECK(accelerator_file() == "/nowhere/mine.so");
  unsetenv("TROUPE_CUDA_PLUGIN");
}

TEST_CASE("transfers and devices are described") {
  CHECK(describe(transfer{.kind = transfer_kind::send,
                          .input = at::ones({4, 2}),
                          .peer = 1,
                          .name = "0F3"})
        == "send of Float[4, 2] to 1 (0F3)");
  CHECK(describe(transfer{.kind = transfer_kind::all_reduce,
                          .input = at::ones({4}),
                          .output = at::ones({4})})
        == "all-reduce of Float[4]");
  CHECK(describe(accelerator_description{
          .name = "H", .major = 9, .total_bytes = std::int64_t{3} << 29})
        == "cuda:0, H, 1.5 GiB, compute capability 9.0");
}
