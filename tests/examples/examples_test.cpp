#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>
#include <filesystem>

#include "../run_program.hpp"
#include "../temporary_folder.hpp"
#include "troupe_paths.hpp"

using Catch::Matchers::ContainsSubstring;
using troupe::testing::run_program;
using troupe::testing::temporary_folder;

TEST_CASE("example: train a GPT") {
  const temporary_folder folder;
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += "the quick brown fox ";
  const auto path = folder.write("text", text);
  const auto result = run_program(TROUPE_EXAMPLES "/train_gpt " + path + " 3");
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output, ContainsSubstring("step 3 loss "));
  CHECK(run_program(TROUPE_EXAMPLES "/train_gpt").exit_code == 2);
}

TEST_CASE("each example's --help prints its usage") {
  for (const std::string name : {"train_gpt", "own_schedule", "own_monitor",
                                 "stage_graphs", "vision_transformer"}) {
    const auto program = TROUPE_EXAMPLES "/" + name;
    const auto help = run_program(program + " --help");
    CHECK(help.exit_code == 0);
    CHECK_THAT(help.output, ContainsSubstring("usage: " + name));
  }
  CHECK(run_program(TROUPE_EXAMPLES "/own_monitor 5").exit_code == 2);
}

TEST_CASE("example: an actor as a monitor") {
  const auto result = run_program(TROUPE_EXAMPLES "/actor_monitor");
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output, ContainsSubstring("step 5 loss "));
}

TEST_CASE("example: models that are no chain") {
  const auto result = run_program(TROUPE_EXAMPLES "/stage_graphs");
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output,
             ContainsSubstring("u_net: stages read 0>1 0>2")
               && ContainsSubstring("step 20 left.1.loss ")
               && !ContainsSubstring("lacks the plain loop's bits"));
}

TEST_CASE("example: a vision transformer, the same under two schedules") {
  const std::string program = TROUPE_EXAMPLES "/vision_transformer";
  const auto result = run_program(program);
  INFO(result.output);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output, ContainsSubstring("step 40 loss "));
  const auto accuracy = result.output.find("accuracy ");
  REQUIRE(accuracy != std::string::npos);
  CHECK(std::atof(result.output.c_str() + accuracy + 9) > 0.9);
  CHECK(run_program(program + " interleaved_1f1b 2").output == result.output);
  CHECK(run_program(program + " 1f2b").exit_code == 2);
}

TEST_CASE("example: a schedule of one's own") {
  const auto result = run_program(TROUPE_EXAMPLES "/own_schedule");
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output, ContainsSubstring("deeper_1f1b")
                              && ContainsSubstring("step 5 mse "));
}

TEST_CASE("example: a monitor of one's own") {
  const auto result = run_program(TROUPE_EXAMPLES "/own_monitor");
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output,
             ContainsSubstring("blocks.0.mlp gradient of output: at most"));
}

TEST_CASE("example: a fine-tuned model is saved, and goes on") {
  const temporary_folder at;
  std::filesystem::create_directory(at / "config");
  at.write("config/config.json", R"({
    "model_type": "llama", "vocab_size": 256, "hidden_size": 16,
    "intermediate_size": 24, "num_hidden_layers": 4,
    "num_attention_heads": 2, "num_key_value_heads": 1,
    "max_position_embeddings": 64, "torch_dtype": "float32"})");
  const auto book = at.write("book", std::string(2000, 'a'));
  const auto training = run_program(TROUPE_PROGRAM
                                    " train --from-scratch --steps 0 --seq 8 "
                                    "--endpoint none --model "
                                    + (at / "config") + " --text " + book
                                    + " --save-model " + (at / "model"));
  INFO(training.output);
  REQUIRE(training.exit_code == 0);
  const auto tune = [&](const std::string& steps) {
    return run_program(TROUPE_EXAMPLES "/fine_tune " + (at / "model") + " "
                       + book + " " + (at / "run") + " " + steps);
  };
  const auto first = tune("6");
  INFO(first.output);
  CHECK(first.exit_code == 0);
  CHECK_THAT(first.output, ContainsSubstring("troupe top unix:")
                             && ContainsSubstring("http://127.0.0.1:")
                             && ContainsSubstring("step 6/6 loss "));
  CHECK(std::filesystem::exists(at / "run/adapter-6/adapter_config.json"));
  const auto second = tune("8");
  INFO(second.output);
  CHECK(second.exit_code == 0);
  CHECK_THAT(second.output, ContainsSubstring("resuming from ")
                              && ContainsSubstring("step 7/8 loss ")
                              && !ContainsSubstring("step 6/8 loss "));
  CHECK(std::filesystem::exists(at / "run/checkpoints/step-00000008"));
}
