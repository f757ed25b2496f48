#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <random>
#include <vector>

#include "../files.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

/// The output of --print-config with these flags; checks that reading it prints
/// the same.
std::string printed_and_read(const temporary_folder& folder,
                             const std::string& flags) {
  const auto printed = run_troupe("train", "--print-config " + flags);
  INFO(flags << "\n" << printed.output);
  CHECK(printed.exit_code == 0);
  const auto path = folder.write("printed.toml", printed.output);
  const auto again = run_troupe("train", "--print-config --config " + path);
  CHECK(again.exit_code == 0);
  CHECK(again.output == printed.output);
  return printed.output;
}

}  // namespace

TEST_CASE("every printed configuration can be read") {
  const temporary_folder folder;
  const auto csv = folder.write("own.csv", "0F0,0B0\n1F0,1B0\n");
  const auto print = [&](const std::string& flags) {
    return printed_and_read(folder, flags);
  };
  const auto usual = print("");
  CHECK_THAT(usual, ContainsSubstring("ranks = 2\n"));
  CHECK_THAT(usual, !ContainsSubstring("listen")
                      && !ContainsSubstring("announce")
                      && !ContainsSubstring("endpoint"));
  const auto several = print(
    "--monitor gap:every=2 --monitor overflow --text a b "
    "--sink csv:a.csv --sink terminal");
  CHECK_THAT(several,
             ContainsSubstring("monitor = ['gap:every=2', 'overflow']\n"));
  CHECK_THAT(several, ContainsSubstring("text = ['a', 'b']\n"));
  print("--monitor gap --text a --sink terminal");
  print("--prompt ''");
  print("--prompt '-a \"quoted\" \\ text' --endpoint none --listen 1.2.3.4:5");
  print("--plain --recompute --lr 1e-4 --patience 1.5 --eval-every 3");
  CHECK_THAT(print("--schedule " + csv), !ContainsSubstring("ranks ="));
  CHECK_THAT(print("--plan step.plan"),
             !ContainsSubstring("schedule =") && !ContainsSubstring("ranks ="));
}

TEST_CASE("flags whose help names their value take numbers and text") {
  const temporary_folder folder;
  const auto read = [&](const std::string& settings) {
    return run_troupe("train", "--print-config --save-model x --config "
                                 + folder.write("c.toml", settings));
  };
  const auto numbers = read(
    "checkpoints = 'run'\ncheckpoint-every = 5\nclip-norm-type = 1\n"
    "max-shard-size = 5000\nmemory-limit = 7\noffload-activations = 0.5\n");
  INFO(numbers.output);
  CHECK(numbers.exit_code == 0);
  CHECK_THAT(numbers.output, ContainsSubstring("checkpoint-every = 5\n")
                               && ContainsSubstring("clip-norm-type = 1\n")
                               && ContainsSubstring("keep = 2\n")
                               && ContainsSubstring("memory-limit = 7\n"));
  const auto texts = read(
    "checkpoint-every = '5'\nclip-norm-type = 'inf'\n"
    "max-shard-size = '5kb'\n");
  INFO(texts.output);
  CHECK(texts.exit_code == 0);
  CHECK_THAT(texts.output, ContainsSubstring("clip-norm-type = 'inf'\n"));
  const auto wrong = read("checkpoint-every = 'often'\n");
  CHECK(wrong.exit_code == 2);
  CHECK_THAT(wrong.output, ContainsSubstring("c.toml:1: checkpoint-every: "));
}

TEST_CASE("a printed configuration omits flags without effect") {
  const auto print = [](const std::string& flags) {
    return run_troupe("train", "--print-config " + flags).output;
  };
  const auto usual = print("");
  for (const auto* flag : {"keep", "final-lr", "muon-scale", "lora-alpha",
                           "reduce-dtype", "shard-group"})
    CHECK_THAT(usual, !ContainsSubstring(std::string("\n") + flag + " = "));
  CHECK_THAT(print("--decay cosine"), ContainsSubstring("final-lr = 0.1\n"));
  CHECK_THAT(print("--optimizer muon"), ContainsSubstring("muon-scale"));
  CHECK_THAT(print("--keep 3"), ContainsSubstring("keep = 3\n"));
}

TEST_CASE("a printed configuration names no schedule that there is not") {
  const temporary_folder folder;
  const auto text = folder.write("book.txt", std::string(20'000, 'a'));
  const auto printed = run_troupe("train", "--print-config --text " + text);
  const auto run =
    run_troupe("train", "--dry-run --config "
                          + folder.write("printed.toml", printed.output));
  INFO(run.output);
  CHECK(run.exit_code == 0);
}

TEST_CASE("of a flag's values the last one is used and printed") {
  const temporary_folder folder;
  const auto printed =
    printed_and_read(folder,
                     "--seed 1 --seed 2 --lr 1 --lr=1e-3 --steps 3 "
                     "--steps 4 --text a --text b --plain --plain");
  for (const auto* line : {"seed = 2\n", "lr = 0.001\n", "steps = 4\n",
                           "text = ['a', 'b']\n", "plain = true\n"})
    CHECK_THAT(printed, ContainsSubstring(line));
  const auto config = folder.write("c.toml", "seed = 5\n");
  CHECK_THAT(run_troupe("train", "--print-config --seed 1 --config " + config
                                   + " --seed 2")
               .output,
             ContainsSubstring("seed = 2\n"));
  const auto plan = run_troupe("plan", "--ranks 4 --ranks 3");
  INFO(plan.output);
  CHECK(plan.exit_code == 0);
  CHECK_THAT(plan.output, ContainsSubstring("1f1b: 3 ranks"));
  const auto twice =
    run_troupe("train", "--config " + config + " --config=" + config);
  CHECK(twice.exit_code == 2);
  CHECK_THAT(twice.output, ContainsSubstring("--config is given twice"));
}

TEST_CASE("a flag displaces those of a configuration that it excludes") {
  const temporary_folder folder;
  const auto usual =
    folder.write("usual.toml", run_troupe("train", "--print-config").output);
  const auto epochs = folder.write("epochs.toml", "epochs = 2\n");
  for (const auto& [flags, line] :
       {std::pair{" --epochs 3 --config " + usual, "epochs = 3\n"},
        {" --decay cosine --min-lr 1e-5 --config " + usual, "min-lr = '1e-5'"},
        {" --steps 7 --config " + epochs, "steps = 7\n"}}) {
    const auto run = run_troupe("train", "--print-config" + flags);
    INFO(run.output);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.output, ContainsSubstring(line));
  }
}

TEST_CASE("a switch takes true and false") {
  const temporary_folder folder;
  const auto read = [&](const std::string& setting) {
    return run_troupe("train", "--print-config --config "
                                 + folder.write("c.toml", setting + "\n"));
  };
  CHECK_THAT(read("plain = true").output, ContainsSubstring("plain = true\n"));
  CHECK(read("plain = false").exit_code == 0);
  for (const auto* setting :
       {"plain = 'yes'", "dry-run = [true]", "plain = 1"}) {
    const auto run = read(setting);
    INFO(run.output);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.output, ContainsSubstring("but must be"));
  }
}

TEST_CASE("an unknown key is answered with a similar flag, or a counterpart") {
  const temporary_folder folder;
  const auto check = [&](const char* key, const char* answer) {
    const auto run = run_troupe(
      "train", "--config " + folder.write("c.toml", key + std::string(" = 1")));
    CAPTURE(key, run.output);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.output, ContainsSubstring(answer)
                             && !ContainsSubstring("validation-fraction"));
  };
  check("d_model", "c.toml:1: unknown key 'd_model'; did you mean d-model?");
  check("learning_rate", "unknown key 'learning_rate'; use --lr.");
  check("nonsense", "unknown key 'nonsense'. Keys are long flags without");
}

TEST_CASE("flags that contradict a schedule's file are refused") {
  const temporary_folder folder;
  const auto csv = folder.write("own.csv", "0F0,0B0\n1F0,1B0\n");
  const auto text = write_text(folder);
  const auto check = [&](const char* flags, const char* reason) {
    for (const auto* command : {"train --dry-run --text ", "plan "}) {
      const auto run =
        run_troupe(command + (*command == 't' ? text : std::string{}),
                   "--schedule " + csv, flags);
      INFO(run.output);
      CHECK(run.exit_code == 2);
      CHECK_THAT(run.output, ContainsSubstring(reason));
    }
  };
  check("--ranks 4", "own.csv has 2; omit the flag");
  check("--microbatches 4", "own.csv has 1; omit the flag");
  check("--stages-per-rank 4", "own.csv has 1; omit the flag");
  CHECK(run_troupe("train --dry-run --text " + text,
                   "--schedule " + csv + " --ranks 2")
          .exit_code
        == 0);
}

TEST_CASE("plan and simulate take what train takes where nothing is said") {
  CHECK_THAT(run_troupe("plan", "").output,
             ContainsSubstring("1f1b: 2 ranks, 2 stages, 8 microbatches"));
  CHECK_THAT(run_troupe("simulate", "").output,
             ContainsSubstring("1f1b: 2 ranks, 2 stages, 8 microbatches"));
}
