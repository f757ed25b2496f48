// Splitting a file of parameters, where another program has been or is.
#include <ATen/ops/ones.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

TEST_CASE("a split does not write over what a killed job left to put back") {
  const temporary_folder at;
  troupe::write_safetensors(at / "a.safetensors",
                            {{"a", at::ones({2})}, {"b", at::ones({3})}});
  const auto to = at / "split";
  const auto split = [&](const char* parts) {
    return run_troupe("checkpoint split", at / "a.safetensors",
                      fmt::format("--parts {} -o {}", parts, to));
  };
  REQUIRE(split("1").exit_code == 0);
  std::filesystem::rename(to + "/step-00000000",
                          to + "/.step-00000000.replaced");
  const auto run = split("2");
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.output, ContainsSubstring("already holds a checkpoint"));
  CHECK_THAT(run_troupe("checkpoint verify", to).output,
             ContainsSubstring("1 files match"));
}

TEST_CASE("a split is not written into the checkpoint that it reads") {
  const temporary_folder at;
  troupe::write_safetensors(at / "a.safetensors", {{"a", at::ones({2})}});
  const auto all = at / "split";
  REQUIRE(
    run_troupe("checkpoint split", at / "a.safetensors", "--parts 1 -o " + all)
      .exit_code
    == 0);
  for (const auto* inside : {"", "/", "/new", "/new/one"}) {
    const auto run =
      run_troupe("checkpoint split", all,
                 fmt::format("--parts 1 -o {}/step-00000000{}", all, inside));
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.output,
               ContainsSubstring("is in the folder of the checkpoint itself"));
  }
  CHECK(run_troupe("checkpoint verify", all).exit_code == 0);
}
