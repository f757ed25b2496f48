#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <chrono>

#include "../files.hpp"
#include "troupe/cli/plan/commands.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

std::chrono::duration<double> fastest_of_ten(const std::string& command) {
  auto fastest = std::chrono::duration<double>::max();
  for (int i = 0; i < 10; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto run = run_program(command);
    fastest = std::min<std::chrono::duration<double>>(
      fastest, std::chrono::steady_clock::now() - begin);
    CHECK(run.exit_code == 0);
  }
  return fastest;
}

}  // namespace

TEST_CASE("every command that prints a report prints it as JSON too") {
  for (const auto* command :
       {"plan", "verify", "simulate", "schedules", "compare", "train", "attach",
        "detach", "events", "top", "replan", "ranks", "move", "drain",
        "certificates", "search"}) {
    CAPTURE(command);
    CHECK_THAT(run_troupe(command, "--help-all").output,
               ContainsSubstring("--json "));
  }
}

TEST_CASE("commands about plans start at once", "[serial]") {
  const temporary_folder folder;
  const auto csv = folder.write("x.csv", "0F0,0B0\n");
  const std::string program = TROUPE_PROGRAM;
  for (const std::string& command :
       {program + " --help", program + " verify " + csv,
        program + " simulate " + csv,
        program + " plan --schedule 1f1b --ranks 4 --microbatches 8"}) {
    INFO(command);
    CHECK(fastest_of_ten(command).count() < 0.05);
  }
}

TEST_CASE("help lists the commands of both programs, under their own words") {
  const auto all = run_troupe("--help", "").output;
  const auto runtime = run_program(TROUPE_PROGRAM "-runtime --help").output;
  for (const auto& [name, summary] : troupe::cli::runtime_commands) {
    CHECK_THAT(all, ContainsSubstring(std::string{summary}));
    CHECK_THAT(runtime, ContainsSubstring(std::string{summary}));
    CHECK(run_troupe(name, "--help").exit_code == 0);
  }
}

TEST_CASE("help and version are words, too") {
  const auto same = [](const char* words, const char* flags) {
    CAPTURE(words);
    const auto a = run_troupe(words, ""), b = run_troupe(flags, "");
    CHECK(a.exit_code == 0);
    CHECK(a.output == b.output);
  };
  same("help", "--help");
  same("help plan", "plan --help");
  same("help train", "train --help");
  same("help train --help=data", "train --help=data");
  same("help train data", "train --help=data");
  same("train --help data", "train --help=data");
  same("help checkpoint inspect", "checkpoint inspect --help");
  same("version", "--version");
  CHECK(run_troupe("help trian", "").exit_code == 2);
}

TEST_CASE("all errors begin with troupe: error:, and wrong usage names help") {
  for (const auto& [arguments, end] :
       {std::pair{"", "a command is missing; see troupe --help"},
        {"checkpoint", "a command is missing; see troupe checkpoint --help"},
        {"train --ranks 0", "1..65536; see troupe train --help"},
        {"plan --ranks x", "1..65536; see troupe plan --help"},
        {"train --json", "requires --dry-run; see troupe train --help"},
        {"train --decay cosin", "cosine? See troupe train --help"},
        {"train --bogus", "no flag --bogus. See troupe train --help"},
        {"launch train --ranks 2", "--processes 2 -- train ..."},
        {"checkpoint inspect",
         "PATH is missing; see troupe checkpoint inspect "
         "--help"},
        {"generate --prompt a",
         "--checkpoint is missing; see troupe generate --help"},
        {"--versoin", "did you mean --version? See troupe --help"},
        {"plan --schedule 1fb1",
         "did you mean 1f1b? 'search' searches for one"},
        {"train --tensor-model-parallel-size 2",
         "use --ranks, as there is no tensor parallelism; --shard divides "
         "parameters. See troupe train --help"},
        {"train --dtype bfloat16", "; use bf16; see troupe train --help"},
        {"train --quiet", "use --log-level error. See troupe train --help"},
        {"--bogus", "no flag --bogus. See troupe --help"}}) {
    CAPTURE(arguments);
    const auto run = run_troupe(arguments, "");
    CAPTURE(run.output);
    CHECK(run.exit_code == 2);
    CHECK(run.output.starts_with("troupe: error: "));
    CHECK(run.output.ends_with(end + std::string("\n")));
  }
}

TEST_CASE("a missing file has one exit code") {
  const temporary_folder folder;
  const auto train = "train --dry-run --text " + write_text(folder) + ' ';
  for (const std::string& arguments :
       {std::string{"verify /absent"},
        std::string{"simulate /absent"},
        std::string{"plan --schedule /absent.csv"},
        std::string{"simulate --costs /absent"},
        std::string{"simulate --sizes absent.txt"},
        std::string{"simulate --slow /absent"},
        std::string{"plan --offload-activations /absent"},
        std::string{"train --text /absent"},
        std::string{"generate --checkpoint /absent"},
        std::string{"checkpoint inspect /absent"},
        std::string{"top --token-file /absent"},
        train + "--config /absent",
        train + "--initial /absent",
        train + "--plan /absent",
        train + "--replay /absent",
        train + "--loss-mask /absent",
        train + "--model /absent/x",
        train + "--slow /absent",
        train + "--job-token-file /absent",
        train + "--endpoint-token-file /absent",
        train + "--certificates /absent"}) {
    const auto run = run_troupe(arguments, "");
    CAPTURE(arguments, run.output);
    CHECK(run.exit_code == 1);
    CHECK_THAT(run.output, ContainsSubstring("absent"));
  }
}

TEST_CASE("a misspelt command or flag is reported with a suggestion") {
  const auto check = [](const char* command, const char* flags,
                        const char* reason) {
    const auto run = run_troupe(command, flags);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.output, ContainsSubstring(reason));
  };
  check("train", "--text x 100 --stpes",
        "train has no flag --stpes; did you mean --steps?");
  check("plan", "--rank=3", "plan has no flag --rank; did you mean --ranks?");
  check("plan", "1f1b 3", "plan does not accept '3' there");
  check("plan", "--schedule 1f1b 3", "--schedule excludes SCHEDULE");
  check("trian", "", "unknown command 'trian'; did you mean train?");
  check("nonsense", "", "unknown command 'nonsense'. The commands are plan,");
}

TEST_CASE("a mistyped value of a flag is answered with a similar one") {
  const auto check = [](const char* flags, const char* reason) {
    CAPTURE(flags);
    const auto run = run_troupe("train", "--text x --dry-run", flags);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.output, ContainsSubstring(reason));
  };
  check("--optimizer AdamW", "did you mean adamw?");
  check("--model gtp", "did you mean gpt?");
  check("--decay cosin", "did you mean cosine?");
  check("--data_parallel 2", "did you mean --data-parallel?");
}

TEST_CASE("a flag of another program is answered with its counterpart") {
  const auto check = [](const char* command, const std::string& flag,
                        const std::string& advice) {
    const auto run = run_troupe(command, flag);
    CAPTURE(command, flag, run.output);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.output,
               ContainsSubstring("has no flag " + flag + "; use " + advice));
  };
  for (const auto& [flag, ours] :
       {std::pair{"--batch-size", "--microbatch-size; a step has"},
        {"--micro_batch_size", "--microbatch-size;"},
        {"--global-batch-size", "--microbatches;"},
        {"--gradient_accumulation_steps", "--microbatches;"},
        {"--learning-rate", "--lr. "},
        {"--num_train_epochs", "--epochs. "},
        {"--train-iters", "--steps. "},
        {"--num-layers", "--layers. "},
        {"--hidden-size", "--d-model. "},
        {"--seq-length", "--seq. "},
        {"--vocab-size", "--vocabulary. "},
        {"--bf16", "--dtype bf16 (16-bit"},
        {"--fp16", "--dtype fp16 (16-bit"},
        {"--max_grad_norm", "--clip. "},
        {"--pipeline-model-parallel-size", "--ranks. "},
        {"--gradient-checkpointing", "--recompute. "},
        {"--data-path", "--text. "},
        {"--save", "--checkpoints. "},
        {"--load", "--resume. "},
        {"--tensorboard-dir", "--sink tensorboard:FOLDER. "}})
    check("train", flag, ours);
  check("generate --checkpoint x", "--max_new_tokens", "--max-tokens. ");
  check("generate --checkpoint x", "--load", "--checkpoint. ");
  const auto none = run_troupe("verify", "--learning-rate");
  CHECK_THAT(none.output,
             ContainsSubstring("has no flag --learning-rate. See"));
}

TEST_CASE("a flag's value reaches the terminal without control characters") {
  const auto run = run_troupe("plan", "--ranks '\x1b[31m'");
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.output,
             ContainsSubstring("\\x1B[31m") && !ContainsSubstring("\x1b"));
}
