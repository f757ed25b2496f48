// Every parser reads its corpus and mutations of it, or refuses them by an
// `error`, quickly and without much memory. scripts/fuzz searches for more, and
// longer.
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>

#include "../files.hpp"
#include "largest_allocation.hpp"
#include "mutate.hpp"
#include "seeds.hpp"
#include "token_mutator.hpp"
#include "troupe_fuzz_parsers.hpp"
#include "troupe_paths.hpp"

using namespace troupe::testing;

namespace {

using entry = int (*)(const std::uint8_t*, std::size_t);

const std::vector<std::string> parsers_of_texts{"addresses",
                                                "cells",
                                                "configurations",
                                                "control_groups",
                                                "costs",
                                                "environments",
                                                "failure_policies",
                                                "http_requests",
                                                "job_lists",
                                                "manifests",
                                                "plans",
                                                "schedules",
                                                "specs"};

const std::string folder =
  std::string(TROUPE_SOURCE_DIR) + "/tests/fuzz/corpus/";

std::vector<std::string> examples_of(const std::string& parser) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::exists(folder + parser))
    for (const auto& each :
         std::filesystem::directory_iterator(folder + parser))
      files.push_back(each.path());
  std::ranges::sort(files);
  std::vector<std::string> all;
  for (const auto& path : files)
    all.push_back(content(path));
  for (const auto& [name, bytes] : seeds())
    if (name == parser)
      all.push_back(bytes);
  return all;
}

std::string in_hex(const std::string& bytes) {
  std::string text;
  for (const auto byte : bytes.substr(0, 4096)) {
    constexpr auto digits = "0123456789abcdef";
    const auto value = static_cast<unsigned char>(byte);
    text += {digits[value / 16], digits[value % 16]};
  }
  return text;
}

void take(const std::string& parser, entry with, const std::string& bytes) {
  constexpr std::size_t most_bytes = std::size_t{64} << 20;
  constexpr std::chrono::seconds longest{5};
  const auto begin = std::chrono::steady_clock::now();
  largest_allocation() = 0;
  std::string thrown;
  try {
    with(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  } catch (const std::exception& what) {
    thrown = what.what();
  }
  const bool is_fine = thrown.empty() && largest_allocation() < most_bytes
                       && std::chrono::steady_clock::now() - begin < longest;
  if (!is_fine)
    FAIL(parser << " throws '" << thrown << "', or allocates "
                << largest_allocation() << " bytes, or is slow, by "
                << in_hex(bytes));
}

template <class Mutator>
void take_mutations(const std::string& parser, entry with, int count) {
  const auto examples = examples_of(parser);
  REQUIRE_FALSE(examples.empty());
  Mutator mutations(7);
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    take(parser, with,
         mutations.mutate(examples[at % examples.size()],
                          examples[at * 7 % examples.size()]));
  }
}

}  // namespace

TEST_CASE("every parser takes its corpus") {
  for (const auto& [parser, with] : fuzzed_parsers)
    for (const auto& bytes : examples_of(parser))
      take(parser, with, bytes);
}

TEST_CASE("every parser takes mutations of its corpus") {
  for (const auto& [parser, with] : fuzzed_parsers)
    take_mutations<mutator>(parser, with,
                            parser == "certificates" ? 300 : 3'000);
}

TEST_CASE("every parser of texts takes its own tokens in other orders") {
  for (const auto& parser : parsers_of_texts)
    take_mutations<token_mutator>(parser, fuzzed_parsers.at(parser), 5'000);
}

TEST_CASE("every parser takes a hundred thousand mutations", "[.full]") {
  for (const auto& [parser, with] : fuzzed_parsers)
    take_mutations<mutator>(parser, with,
                            parser == "certificates" ? 5'000 : 100'000);
  for (const auto& parser : parsers_of_texts)
    take_mutations<token_mutator>(parser, fuzzed_parsers.at(parser), 100'000);
}

// To be run after a change of a format: scripts/fuzz begins with these, too.
TEST_CASE("valid examples are written to the corpus", "[.seeds]") {
  std::map<std::string, int> written;
  for (const auto& [parser, bytes] : seeds()) {
    std::filesystem::create_directories(folder + parser);
    std::ofstream(
      folder + parser + "/seed-" + std::to_string(written[parser]++),
      std::ios::binary)
      << bytes;
  }
}
