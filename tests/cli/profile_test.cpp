#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "../files.hpp"
#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using namespace troupe::testing;

namespace {

struct span {
  std::string name;
  double begin = 0, end = 0;
  json thread;
};

/// The spans of a kind in a profile.
std::vector<span> spans(const std::string& path, const std::string& category) {
  std::vector<span> found;
  const auto profile = json::parse(content(path));
  for (const auto& each : profile.at("traceEvents"))
    if (each.value("cat", "") == category)
      found.push_back(
        {each.at("name"), each.at("ts"),
         each.at("ts").get<double>() + each.at("dur").get<double>(),
         each.at("tid")});
  return found;
}

std::map<std::string, int> counts(const std::vector<span>& of) {
  std::map<std::string, int> result;
  for (const auto& each : of)
    ++result[each.name];
  return result;
}

bool contains(const span& outer, const span& inner) {
  return outer.thread == inner.thread && outer.begin <= inner.begin
         && inner.end <= outer.end;
}

}  // namespace

TEST_CASE("a profile has the ops of its steps and LibTorch's within them") {
  const tiny_training at;
  const auto file = at.folder / "profile.json";
  const auto run = at.train(
    "--ranks 2 --profile-from 2 --profile-steps 2 "
    "--profile "
    + file);
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  CHECK_THAT(run.output, ContainsSubstring("the profile is in " + file));
  const auto ranges = spans(file, "user_annotation");
  const auto of = counts(ranges);
  CHECK(of.at("ProfilerStep#2") == 1);
  CHECK(of.at("ProfilerStep#3") == 1);
  CHECK(of.count("ProfilerStep#1") == 0);
  CHECK(of.at("0F0") == 2);  // of stage 0 and microbatch 0, in two steps
  CHECK(of.at("1B3") == 2);  // and of no validation
  std::size_t inside = 0;
  const auto operators = spans(file, "cpu_op");
  for (const auto& each : operators)
    for (const auto& range : ranges)
      if (contains(range, each)) {
        ++inside;
        break;
      }
  CHECK(inside > operators.size() / 2);
}

TEST_CASE("a profile goes where a link leads, and into a pipe or a device") {
  const tiny_training at;
  const auto file = at.folder / "profile.json", link = at.folder / "link.json";
  std::ofstream(file) << "an earlier one";
  std::filesystem::create_symlink(file, link);
  const auto linked = at.train("--profile " + link);
  INFO(linked.output);
  CHECK(linked.exit_code == 0);
  CHECK(std::filesystem::is_symlink(link));
  CHECK_FALSE(spans(file, "user_annotation").empty());
  const auto full = at.train("--profile /dev/full");
  INFO(full.output);
  CHECK(full.exit_code == 1);
  CHECK_THAT(full.output, ContainsSubstring("/dev/full: can't be written"));
  CHECK(std::filesystem::is_character_file("/dev/full"));
}

TEST_CASE("the plain loop is profiled too, and what ends early is written") {
  const tiny_training at;
  const auto file = at.folder / "profile.json";
  const auto run =
    at.train("--plain --profile-from 3 --profile-steps 9 --profile " + file);
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  CHECK(counts(spans(file, "user_annotation"))
        == std::map<std::string, int>{{"ProfilerStep#3", 1}});
  // Of the residual connections, on every processor.
  CHECK(counts(spans(file, "cpu_op")).count("aten::add_") == 1);
}

TEST_CASE("each process of a job writes a profile of its own") {
  const tiny_training at;
  const auto run =
    run_program(program + " launch --processes 2 -- train --text " + at.text
                + tiny + "--ranks 2 --profile " + (at.folder / "profile.json"));
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  CHECK(
    counts(spans(at.folder / "profile.json", "user_annotation")).count("0F0")
    == 1);
  CHECK(
    counts(spans(at.folder / "profile.1.json", "user_annotation")).count("1F0")
    == 1);
}

TEST_CASE("a profile that can't be is refused before the first step") {
  const tiny_training at;
  const auto late = at.train("--profile-from 4 --profile x.json");
  CHECK(late.exit_code == 2);
  CHECK_THAT(late.output, ContainsSubstring("--profile-from 4: the run has 3 "
                                            "steps; give a step of it"));
  CHECK_THAT(at.train("--profile-from 2").output,
             ContainsSubstring("--profile-from has no effect without "
                               "--profile FILE"));
  CHECK(at.train("--profile /absent/x.json").exit_code != 0);
}
