// membership_simulator [--seeds FIRST:LAST] [--all] [--bug NAME] [--verbose]
//
// Runs simulated jobs (docs/design.md, Membership), one for each seed of FIRST
// .. LAST; stops at the first that violates an invariant, unless --all.
// --verbose prints a history. --bug runs the program with that bug planted.
// Exits with 1 if it found a violation.

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "seeds.hpp"

using namespace troupe::simulated;

namespace {

struct arguments {
  std::int64_t first = 1, last = 1000;
  bool is_verbose = false, runs_all = false;
  std::string bug;
};

arguments parse(const std::vector<std::string_view>& words) {
  arguments given;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto word = words[i];
    if (word == "--verbose")
      given.is_verbose = true;
    else if (word == "--all")
      given.runs_all = true;
    else if (word == "--bug" && i + 1 < words.size())
      given.bug = words[++i];
    else if (word == "--seeds" && i + 1 < words.size()) {
      const auto range = words[++i];
      const auto colon = range.find(':');
      const auto number = [](std::string_view text, std::int64_t& value) {
        std::from_chars(text.data(), text.data() + text.size(), value);
      };
      number(range.substr(0, colon), given.first);
      number(range.substr(colon + 1), given.last);
    }
  }
  return given;
}

int run_verbose(const arguments& given) {
  bool is_violated = false;
  for (auto seed = given.first; seed <= given.last; ++seed) {
    fmt::print("{}\n",
               describe(draw_scenario(static_cast<std::uint64_t>(seed))));
    const auto result = run_seed(seed, true);
    if (!result.violation.empty())
      fmt::print("VIOLATED: {}\n", result.violation);
    is_violated |= !result.violation.empty();
  }
  return is_violated ? 1 : 0;
}

int run_fast(const arguments& given) {
  const auto start = std::clock();
  const auto all = run_seeds(given.first, given.last + 1, !given.runs_all);
  const auto seconds =
    static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  fmt::print(
    "{} seeds, {:.0f} a second of processor time; {} events, {} epochs, {} "
    "steps decided, {} of "
    "them again, {} jobs stopped, {} saved and ended; longest recovery {:.1f} "
    "s (seed {})\n",
    all.seeds, static_cast<double>(all.seeds) / seconds, all.events, all.epochs,
    all.decisions, all.repeated, all.stops, all.saves,
    static_cast<double>(all.longest_recovery.count()) / 1e6, all.slowest);
  if (all.violations > 0)
    fmt::print("{} violations; the first in seed {}: {}\n", all.violations,
               all.first_violation, all.what);
  return all.violations > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto given = parse({argv + 1, argv + argc});
  if (!given.bug.empty()) {
    const auto program =
      (std::filesystem::path(argv[0]).parent_path() / "bugs" / given.bug)
        .string();
    std::vector<std::string> words{program};
    for (int i = 1; i < argc; ++i)
      if (std::string_view(argv[i]) == "--bug")
        ++i;
      else
        words.emplace_back(argv[i]);
    std::vector<char*> raw;
    for (auto& word : words)
      raw.push_back(word.data());
    raw.push_back(nullptr);
    ::execv(program.c_str(), raw.data());
    fmt::print(stderr, "there is no planted bug {}\n", given.bug);
    return 2;
  }
  return given.is_verbose ? run_verbose(given) : run_fast(given);
}
