// What a run may resume from.
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

#include "../files.hpp"
#include "tiny_training.hpp"
#include "troupe/base/error.hpp"
#include "troupe/training/resume.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using namespace troupe;
using namespace troupe::testing;

TEST_CASE("a run from another folder is not saved among a run's checkpoints") {
  const tiny_training at;
  const auto own = at.folder / "own", other = at.folder / "other",
             copy = at.folder / "step-00000002", link = at.folder / "link";
  const auto step = [](const std::string& folder, int n) {
    return fmt::format("{}/step-{:08}", folder, n);
  };
  const auto save = [&](int steps, const std::string& flags) {
    const auto run = at.train(
      fmt::format("--endpoint none --steps {} --checkpoints {}", steps, flags));
    INFO(run.output);
    CHECK(run.exit_code == 0);
  };
  save(3, other);
  save(2, own);
  const auto part = content(step(own, 2) + "/part-00000.safetensors");
  std::filesystem::copy(step(own, 2), copy);
  for (const auto& from : {other, step(other, 3), copy}) {
    const auto run = at.train(fmt::format(
      "--endpoint none --steps 4 --checkpoints {} --resume {}", own, from));
    INFO(run.output);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.output,
               ContainsSubstring(": is not in --checkpoints " + own));
  }
  CHECK(content(step(own, 2) + "/part-00000.safetensors") == part);
  CHECK_FALSE(std::filesystem::exists(step(own, 4)));
  // Other names of its own checkpoint, and an empty folder.
  std::filesystem::create_symlink(step(own, 2), link);
  save(3, own + " --resume " + link);
  save(4, own + " --keep 3 --resume " + step(own, 3) + "/.");
  const auto older = at.train(fmt::format(
    "--endpoint none --steps 4 --checkpoints {} --resume {}", own, link));
  CHECK(older.exit_code == 2);
  CHECK_THAT(older.output,
             ContainsSubstring("also holds a checkpoint of step 4"));
  save(4, (at.folder / "new") + " --resume " + other);
  CHECK(std::filesystem::exists(step(at.folder / "new", 4)));
}

TEST_CASE("a run on other data names the flags that make it other") {
  const tiny_training at;
  const auto flags = "--endpoint none --checkpoints " + (at.folder / "a");
  CHECK(at.train(flags).exit_code == 0);
  const auto resumed = at.train(flags + " --resume auto --steps 4 --seed 8 "
                                "--validation-fraction 0.2");
  CHECK(resumed.exit_code == 0);
  CHECK_THAT(resumed.output,
             ContainsSubstring("on other data (it had another --seed, "
                               "--validation-fraction or --mix): reading the "
                               "data from its start"));
  const auto mask = at.folder.write(
    "mask", std::string(std::filesystem::file_size(at.text), '\1'));
  const auto masked =
    at.train(flags + " --resume auto --steps 5 --seed 8 "
                     "--validation-fraction 0.2 --loss-mask " + mask);
  CHECK_THAT(masked.output, ContainsSubstring("had another --loss-mask)"));
  const auto longer = at.train(flags + " --resume auto --steps 6 --seq 16");
  CHECK(longer.exit_code != 0);
  CHECK_THAT(longer.output, ContainsSubstring("(it was saved with --seq 8)"));
}

TEST_CASE("more slices than tokens are refused before any work") {
  const tiny_training at;
  for (const std::string more : {"", " --dry-run", " --plain"}) {
    const auto run =
      at.train("--schedule seq_1f1b --slices 9 --endpoint none" + more);
    INFO(run.output);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.output,
               ContainsSubstring("9 slices of a microbatch: its rows have 8 "
                                 "tokens (--seq)"));
  }
}

TEST_CASE("a checkpoint whose rows can't be is refused") {
  const setting_texts settings{{"microbatch-size", "2"}, {"seed", "7"}};
  manifest about;
  about.settings = settings;
  about.progress.microbatches = 8;
  CHECK(position_after(about, settings) == 8);
  for (const std::string rows : {"-4", "0", "two", ""}) {
    about.settings["microbatch-size"] = rows;
    CHECK_THROWS_MATCHES(position_after(about, settings), error,
                         MessageMatches(ContainsSubstring(fmt::format(
                           "settings.microbatch-size is '{}'", rows))));
  }
}
