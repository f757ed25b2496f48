#include "troupe/cli/train/train_output.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sstream>
#include <vector>

#include "../files.hpp"
#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

TEST_CASE(
  "a negative id is refused as negative, not as beyond the vocabulary") {
  const tiny_training at;
  const std::int64_t below = -1;
  std::string npy("\x93NUMPY\x01\x00\x36\x00", 10);
  npy += "{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}";
  npy.resize(64, ' ');
  npy.append(reinterpret_cast<const char*>(&below), sizeof(below));
  const auto run = at.train("--text " + at.folder.write("below.npy", npy));
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output, ContainsSubstring(" has the id -1; ids are numbers "
                                           "from 0 up"));
}

TEST_CASE("a sample of tokens that are not text is a list of ids") {
  const tiny_training at;
  const auto tokens = at.folder.write("t.bin", [] {
    std::string bytes;
    for (int i = 0; i < 1000; ++i)
      bytes += {static_cast<char>(i % 10), '\1'};  // 256 to 265
    return bytes;
  }());
  const auto flags = "--text " + tokens + " --vocabulary 300 --sample 4 ";
  const auto run = at.train(flags + "--prompt '256 257'");
  INFO(run.output);
  CHECK(run.exit_code == 0);
  std::istringstream sample(run.output.substr(run.output.find("sample: ") + 8));
  std::vector<int> ids(6);
  for (auto& id : ids)
    CHECK(sample >> id);
  CHECK(ids[0] == 256);
  CHECK(ids[1] == 257);
  CHECK(at.train(flags + "--prompt And").exit_code == 2);
}

TEST_CASE("the plain loop logs its steps as the pipelined run does") {
  const tiny_training at;
  const auto log = at.folder / "log.json";
  CHECK(at.train("--plain --log-json " + log).exit_code == 0);
  CHECK_THAT(content(log), ContainsSubstring("\"step\":1,")
                             && ContainsSubstring("\"loss\":"));
}

TEST_CASE("metrics without a sink are shown, and alerts once") {
  const tiny_training at;
  const auto gap = at.train("--monitor gap");
  INFO(gap.output);
  CHECK_THAT(gap.output, ContainsSubstring("no sink is given")
                           && ContainsSubstring("step 1 gap/"));
  const auto alerts = [&](const std::string& flags) {
    const auto run = at.train("--monitor overflow --lr 1e30 " + flags);
    // Does not count the end of the run, "monitor overflow: ...", which repeats
    // the alert, possibly before the last step's line.
    const std::string alert = "overflow: step 2: the first tensor";
    const std::string end = "monitor ";
    int count = 0;
    for (std::size_t i = 0; (i = run.output.find(alert, i)) != alert.npos; ++i)
      count += run.output.substr(0, i).ends_with(end) ? 0 : 1;
    INFO(run.output);
    return count;
  };
  CHECK(alerts("") == 1);
  CHECK(alerts("--sink terminal") == 1);
}

TEST_CASE("overflow names one tensor whether it watches or reads all") {
  const tiny_training at;
  const auto said = [&](const std::string& spec) {
    const auto run = at.train("--lr 1e30 --ranks 2 --monitor " + spec);
    CHECK(run.exit_code == 1);
    const auto begin = run.output.find("step 2: the first tensor");
    INFO(run.output);
    REQUIRE(begin != run.output.npos);
    return run.output.substr(begin, run.output.find('\n', begin) - begin);
  };
  CHECK(said("overflow") == said("overflow:reading=full"));
  const auto refused = at.train("--monitor overflow:reading=some");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output,
             ContainsSubstring("reading=some is not watch or full"));
}
