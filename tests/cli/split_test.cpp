// Splitting a file of parameters into a folder that another program has used,
// or is using.
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/checkpoint/safetensors_file.hpp"
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

TEST_CASE("a file of dtypes that no model is trained from is passed through") {
  const temporary_folder at;
  const troupe::parameter_list tensors{
    {"f8", at::ones({4, 3}).to(at::kFloat8_e4m3fn)},
    {"ids", at::ones({5}).to(at::kUInt32)},
    {"scale", at::ones({2}).to(at::kFloat8_e8m0fnu)},
    {"weight", at::ones({7}, at::kBFloat16)}};
  const auto file = at / "a.safetensors", back = at / "b.safetensors";
  troupe::write_safetensors(file, tensors, {{"quantised by", "a test"}});
  const auto inspected = run_troupe("checkpoint inspect", file);
  CHECK(inspected.exit_code == 0);
  CHECK(inspected.output
        == file
             + "\n26 parameters in 4 tensors; 0.0 MiB\n"
               "BF16: 1 tensors\nF8_E4M3: 1 tensors\nF8_E8M0: 1 tensors\n"
               "U32: 1 tensors\nquantised by: a test\n");
  CHECK_THAT(
    run_troupe("checkpoint inspect", file, "--json").output,
    ContainsSubstring("\"F8_E4M3\": 1") && ContainsSubstring("\"bytes\": 48"));
  REQUIRE(run_troupe("checkpoint consolidate", file, "-o " + back).exit_code
          == 0);
  CHECK(troupe::safetensors_file(back).metadata()
        == std::map<std::string, std::string>{{"format", "pt"},
                                              {"quantised by", "a test"}});
  const auto split =
    run_troupe("checkpoint split", file, "--parts 3 -o " + (at / "split"));
  INFO(split.output);
  REQUIRE(split.exit_code == 0);
  CHECK(run_troupe("checkpoint verify", at / "split").exit_code == 0);
  REQUIRE(
    run_troupe("checkpoint consolidate", at / "split", "-o " + back).exit_code
    == 0);
  const auto read = troupe::read_safetensors(back);
  REQUIRE(read.size() == tensors.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    CHECK(read[i].first == tensors[i].first);
    CHECK(troupe::content_hash(read[i].second)
          == troupe::content_hash(tensors[i].second));
  }
}
