// What files record about a run that is resumed.
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <nlohmann/json.hpp>
#include <sstream>

#include "../files.hpp"
#include "tiny_training.hpp"

using namespace troupe::testing;

namespace {

/// The steps in a file's lines: the first number after `key`.
std::vector<int> steps_in(const std::string& path, const std::string& key) {
  std::vector<int> steps;
  std::istringstream lines(content(path));
  for (std::string line; std::getline(lines, line);)
    if (const auto at = line.find(key); at != std::string::npos)
      if (const auto digit = line.find_first_of("0123456789", at + key.size());
          digit == at + key.size())
        if (const auto step = std::stoi(line.substr(digit));
            steps.empty() || steps.back() != step)
          steps.push_back(step);
  return steps;
}

std::vector<int> one_to(int last) {
  std::vector<int> all;
  for (int i = 1; i <= last; ++i)
    all.push_back(i);
  return all;
}

}  // namespace

TEST_CASE("records of a resumed run go on from its step") {
  const tiny_training at;
  const auto csv = at.folder / "m.csv", json = at.folder / "m.json",
             log = at.folder / "log.json", order = at.folder / "order";
  const auto flags = fmt::format(
    "--endpoint none --ranks 2 --checkpoints {} --resume auto --sink csv:{} "
    "--sink json:{} --log-json {} --order-log {} ",
    at.folder / "run", csv, json, log, order);
  const auto check = [&](int last) {
    CAPTURE(last);
    CHECK(steps_in(csv, "") == one_to(last));
    CHECK(steps_in(json, "\"step\":") == one_to(last));
    CHECK(steps_in(log, "\"step\":") == one_to(last));
    CHECK(steps_in(order, "step ") == one_to(last));
    CHECK(content(csv).find("step,phase,name,value")
          == content(csv).rfind("step,phase,name,value"));
  };
  CHECK(at.train(flags + "--steps 4").exit_code == 0);
  check(4);
  CHECK(at.train(flags + "--steps 4").exit_code == 0);  // has finished already
  check(4);
  CHECK(at.train(flags + "--steps 6").exit_code == 0);
  check(6);
  // A killed run has recorded more than it saved.
  std::filesystem::remove_all(at.folder / "run/step-00000006");
  CHECK(at.train(flags + "--steps 7").exit_code == 0);
  check(7);
}

TEST_CASE("a run that begins anew replaces its records") {
  const tiny_training at;
  const auto csv = at.folder / "m.csv";
  for (const auto* steps : {"5", "2"})
    CHECK(at.train(fmt::format("--endpoint none --sink csv:{} --steps {}", csv,
                               steps))
            .exit_code
          == 0);
  CHECK(steps_in(csv, "") == one_to(2));
}
