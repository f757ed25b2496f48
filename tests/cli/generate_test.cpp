// Generating from prompts with a stored model, by the program.
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <csignal>
#include <filesystem>
#include <sstream>
#include <tuple>

#include "../files.hpp"
#include "background_program.hpp"
#include "stalled_pipe.hpp"
#include "troupe/engine/checkpoint/manifest.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using namespace troupe::testing;

namespace {

/// Edits the model's description in a manifest.
void change_model(const std::string& path, const auto& change) {
  auto about = troupe::parse_manifest(content(path), path);
  change(about.model);
  std::ofstream(path) << to_json(about);
}

/// A tiny model after a short training, as a checkpoint and as a file.
struct trained_model {
  explicit trained_model(const std::string& flags = "--seq 32") {
    const auto run = run_troupe(
      "train",
      fmt::format("--text {} --d-model 16 --layers 4 --heads 2 "
                  "--microbatch-size 2 --microbatches 2 --steps 20 --lr 0.02 "
                  "--endpoint none --checkpoints {} --save-parameters {}",
                  write_text(at), checkpoints, file),
      flags);
    INFO(run.output);
    REQUIRE(run.exit_code == 0);
  }

  program_result generate(const std::string& flags,
                          std::string_view more = {}) const {
    return run_troupe("generate", "--checkpoint " + checkpoints + " " + flags,
                      more);
  }
  /// The standard output, without the log.
  std::string text(const std::string& flags) const {
    const auto run = generate(flags + " --log-level error");
    INFO(run.output);
    CHECK(run.exit_code == 0);
    return run.output;
  }
  std::vector<json> lines(const std::string& flags) const {
    std::istringstream all(text(flags + " --json"));
    std::vector<json> results;
    for (std::string line; std::getline(all, line);)
      results.push_back(json::parse(line));
    return results;
  }
  void refuses(const std::string& flags, int exit_code,
               const std::string& sentence) const {
    const auto run = generate(flags);
    CHECK(run.exit_code == exit_code);
    CHECK_THAT(run.output, ContainsSubstring(sentence));
  }

  temporary_folder at;
  std::string checkpoints = at / "run";
  std::string file = at / "model.safetensors";
};

}  // namespace

TEST_CASE("any number of ranks continues a prompt by the same text") {
  const trained_model model;
  const std::string flags = "--prompt 'in the' --max-tokens 20 --seed 3 ";
  const auto one = model.text(flags);
  CHECK(one.starts_with("in the"));
  CHECK(one.size() >= 27);
  CHECK(one.ends_with('\n'));
  for (const auto* more :
       {"--ranks 2", "--ranks 3", "--stages-per-rank 2",
        "--ranks 2 --stages-per-rank 2 --positions 1", "--ranks 2 --split 1,5"})
    CHECK(model.text(flags + more) == one);
  CHECK(model.text(flags + "--seed 4") != one);
  const auto greedy = model.text(flags + "--temperature 0");
  CHECK(model.text(flags + "--temperature 0 --seed 9") == greedy);
  CHECK(model.text(flags + "--top-k 1") == greedy);
  CHECK(model.text(flags + "--top-p 0.0001") == greedy);
}

TEST_CASE("a checkpoint, its folder and a file of parameters are one model") {
  const trained_model model;
  const std::string flags = " --log-level error --prompt in --max-tokens 9";
  const auto from = [&](const std::string& path) {
    const auto run = run_troupe("generate", "--checkpoint " + path, flags);
    INFO(run.output);
    CHECK(run.exit_code == 0);
    return run.output;
  };
  const auto text = from(model.checkpoints);
  CHECK(from(model.checkpoints + "/step-00000020") == text);
  CHECK(from(model.file) == text);
  const auto consolidated = model.at / "whole.safetensors";
  CHECK(run_troupe("checkpoint",
                   "consolidate " + model.checkpoints + " -o " + consolidated)
          .exit_code
        == 0);
  CHECK(content(consolidated) == content(model.file));
}

TEST_CASE(
  "a checkpoint without a model needs the flags that tensors don't tell") {
  const trained_model model("--seq 16 --model u_net");
  const auto path = model.checkpoints + "/step-00000020/manifest.json";
  const std::string flags = "--prompt in --max-tokens 9 ";
  const auto text = model.text(flags);
  CHECK(json::parse(content(path)).at("model")
        == json{{"model", "u_net"},
                {"d-model", "16"},
                {"layers", "4"},
                {"heads", "2"},
                {"seq", "16"},
                {"vocabulary", "256"},
                {"tie-embeddings", "false"}});
  change_model(path, [](auto& of) { of.clear(); });
  model.refuses(
    flags, 2,
    "run does not record the model's --model; give the value used in training");
  model.refuses(
    flags + "--model u_net", 2,
    "run does not record the model's --heads; give the value used in training");
  CHECK(model.text(flags + "--model u_net --heads 2") == text);
  model.refuses(flags + "--model u_net --heads 3", 2,
                "--d-model 16 is not a multiple of --heads 3");
}

TEST_CASE("several prompts get what each gets alone, in their order") {
  const trained_model model;
  const std::vector<std::string> prompts{"in", "the beginning", "e", "n the"};
  const std::string usual = "--max-tokens 12 --temperature 0 --ranks 2 ";
  auto flags = usual;
  std::vector<std::string> alone;
  for (const auto& each : prompts) {
    alone.push_back(model.text(fmt::format("{} --prompt '{}'", usual, each)));
    flags += fmt::format("--prompt '{}' ", each);
  }
  std::string expected;
  for (std::size_t i = 0; i < alone.size(); ++i)
    expected += fmt::format("--- prompt {}\n{}", i + 1, alone[i]);
  CHECK(model.text(flags) == expected);
  std::string file;
  for (const auto& each : prompts)
    file += each + "\n\n";
  const auto path = model.at.write("prompts.txt", file);
  CHECK(model.text(usual + "--microbatches 1 --prompts " + path) == expected);
}

TEST_CASE("prompts draw by their place, or by their own seed") {
  const trained_model model;
  const auto ids = [&](const std::string& lines) {
    std::vector<nlohmann::json> all;
    for (const auto& line : model.lines("--max-tokens 12 --prompts "
                                        + model.at.write("p.jsonl", lines)))
      all.push_back(line.at("ids"));
    return all;
  };
  const std::string plain = "{\"text\": \"in\"}\n";
  const std::string seeded = "{\"text\": \"in\", \"seed\": 9}\n";
  const auto twice = ids(plain + plain);
  CHECK(twice[0] != twice[1]);
  CHECK(ids("{\"text\": \"the\"}\n" + plain)[1] == twice[1]);
  const auto mixed = ids(seeded + plain + seeded);
  CHECK(mixed[0] == mixed[2]);
  CHECK(mixed[1] == twice[1]);
}

TEST_CASE("JSON lines tell of each prompt, and take settings of its own") {
  const trained_model model;
  const auto path = model.at.write(
    "prompts.jsonl",
    "{\"text\": \"in the\", \"max_tokens\": 3}\n"
    "{\"ids\": [105, 110], \"temperature\": 0, \"top_k\": 5, \"top_p\": 0.5, "
    "\"seed\": 9}\n");
  const auto lines =
    model.lines("--max-tokens 40 --prompts " + path + " --prompt beg");
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].at("prompt") == 1);
  CHECK(lines[1].at("tokens") == 3);
  CHECK(lines[1].at("end") == "tokens");
  CHECK(lines[1].at("ids").size() == 3);
  CHECK(lines[1].at("text").get<std::string>().size() == 3);
  CHECK(lines[1].at("seconds") > 0);
  CHECK(lines[1].at("tokens_per_second") > 0);
  CHECK(lines[2].at("prompt_tokens") == 2);
  CHECK(lines[2].at("end") == "context");
  CHECK(lines[2].at("tokens") == 31);
  const auto ids = model.lines(
    "--ids --prompt '105 110' --max-tokens 31 "
    "--temperature 0");
  CHECK(ids.at(0).at("ids") == lines[2].at("ids"));
  CHECK_FALSE(ids.at(0).contains("text"));
}

TEST_CASE("a continuation ends before a stop, and with the model's positions") {
  const trained_model model;
  const std::string flags = "--prompt 'in the b' --temperature 0 ";
  const auto whole = model.text(flags + "--max-tokens 12");
  const auto stop = whole.substr(11, 3);
  CHECK(model.text(flags + "--max-tokens 12 --stop '" + stop + "'")
        == whole.substr(0, whole.find(stop, 8)) + "\n");
  const auto run = model.generate(flags + "--max-tokens 100");
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output,
             ContainsSubstring("prompt 1 ends after 25 tokens: the model has "
                               "32 positions, including the prompt's")
               && ContainsSubstring("25 tokens for 1 prompt in"));
}

TEST_CASE("tokens that are no bytes are given and printed as ids") {
  const trained_model model("--seq 16 --vocabulary 300");
  CHECK_THAT(model.text("--prompt '5 299' --max-tokens 3"),
             ContainsSubstring("5 299 "));
  model.refuses("--prompt '5 x'", 2,
                "--prompt '5 x': the tokens are not bytes, so give a list of "
                "ids from 0 to 299, such as '5 17'");
  model.refuses("--prompt '300'", 2, "ids from 0 to 299");
}

TEST_CASE("what can't be continued is refused before anything runs") {
  const trained_model model("--seq 16 --vocabulary 128");
  model.refuses("", 2, "no prompt given; give --prompt TEXT or --prompts FILE");
  model.refuses("--prompt ''", 2, "prompt 1 is empty; give at least one token");
  model.refuses("--prompt aaaaaaaaaaaaaaaaa", 2,
                "prompt 1 has 17 tokens, but the model has 16 positions; give "
                "a shorter one");
  model.refuses(
    "--prompt \xc3\xa9", 2,
    "--prompt '\\xC3\\xA9' has a byte beyond the vocabulary of 128");
  model.refuses("--prompt a --temperature -1", 2,
                "--temperature: -1 is not a number of at least 0");
  model.refuses("--prompt a --top-p 0", 2,
                "--top-p: 0 is not a number above 0");
  model.refuses("--prompt a --d-model 32", 2, "run is of a model with 16");
  model.refuses("--prompt a --model u_net", 2,
                "--model u_net: " + model.checkpoints
                  + " is of a model with gpt; omit the flag");
  model.refuses("--prompt a --ranks 9", 2, "can't be cut into 9 stages");
  CHECK_THAT(run_troupe("generate", "--prompt a --checkpoint /absent").output,
             ContainsSubstring("--checkpoint /absent: there is no such file"));
  CHECK(run_troupe("generate", "--prompt a").exit_code == 2);
  const auto lines = [&](const char* line, const std::string& sentence) {
    const auto path = model.at.write("bad.jsonl", line);
    model.refuses("--prompts " + path, 1, "bad.jsonl, line 1: " + sentence);
  };
  lines("in the", "is not a JSON object");
  lines("{}", "has both or none of 'text' and 'ids'");
  lines("{\"ids\": [128]}",
        "ids must be a list of numbers from 0 to 127, but is [128]");
  lines("{\"text\": \"a\", \"sed\": 1}", "has no field 'sed'");
  lines("{\"text\": \"a\", \"seed\": -1}", "seed must be a whole");
  lines("{\"text\": \"a\", \"top_p\": \"x\"}", "top_p must be a number");
  const auto refuses_line = [&](const char* line, const std::string& sentence) {
    const auto path = model.at.write("bad.jsonl", line);
    model.refuses("--prompts " + path, 2, "bad.jsonl, line 2: " + sentence);
  };
  refuses_line("\n{\"text\": \"a\", \"top_p\": 2}", "has a top-p of 2");
  refuses_line("\n{\"text\": \"\"}", "is empty; give at least one token");
  refuses_line("\n{\"text\": \"aaaaaaaaaaaaaaaaa\"}",
               "has 17 tokens, but the model has 16 positions");
  model.refuses(
    "--prompts " + model.at.write("long.txt", "a\naaaaaaaaaaaaaaaaa\n"), 2,
    "long.txt, line 2: has 17 tokens");
  model.refuses("--prompts " + model.at.write("empty", "\n\n"), 2,
                "empty holds no prompt");
}

TEST_CASE("a checkpoint that contradicts its own tensors is refused") {
  const trained_model model;
  const auto path = model.checkpoints + "/step-00000020/manifest.json";
  const auto about = content(path);
  for (const auto& [name, value, there] :
       {std::tuple{"layers", "5", "4"}, std::tuple{"seq", "64", "32"},
        std::tuple{"vocabulary", "255", "256"},
        std::tuple{"tie-embeddings", "true", "false"}}) {
    std::ofstream(path) << about;
    change_model(path, [&](auto& of) { of.at(name) = value; });
    model.refuses(
      "--prompt a", 1,
      fmt::format("describes a model whose {} is {}, but its tensors have {}",
                  name, value, there));
  }
}

TEST_CASE("damaged parameters are refused") {
  const trained_model model;
  const auto path = model.checkpoints + "/step-00000020/";
  for (const auto& each : std::filesystem::directory_iterator(path))
    if (each.path().extension() == ".safetensors") {
      auto bytes = content(each.path());
      bytes.back() = static_cast<char>(bytes.back() ^ 1);
      std::ofstream(each.path(), std::ios::binary) << bytes;
    }
  model.refuses("--prompt a", 1, "SHA-256");
}

TEST_CASE("launched processes generate what one does") {
  const trained_model model;
  const std::string flags =
    "--prompt 'in the' --prompt beg --max-tokens 10 --ranks 2 --log-level "
    "error";
  const auto one = model.text(flags);
  const auto run = run_program(
    fmt::format("{} launch --processes 2 -- generate --checkpoint {} {}",
                TROUPE_PROGRAM, model.checkpoints, flags));
  INFO(run.output);
  CHECK(run.exit_code == 0);
  std::string expected;
  std::istringstream lines(one);
  for (std::string line; std::getline(lines, line);)
    expected += "[0] " + line + "\n";
  CHECK(run.output == expected);
}

TEST_CASE("processes that hold different files of one name are refused") {
  const trained_model model;
  const auto whole = model.at / "whole.safetensors";
  REQUIRE(run_troupe("checkpoint consolidate", model.checkpoints, "-o " + whole)
            .exit_code
          == 0);
  auto bytes = content(whole);
  for (int p = 0; p < 2; ++p) {
    const auto folder = model.at / std::to_string(p);
    std::filesystem::create_directory(folder);
    bytes.back() = static_cast<char>(bytes.back() ^ p);
    std::ofstream(folder + "/m.safetensors", std::ios::binary) << bytes;
    std::ofstream(folder + "/p.jsonl")
      << R"({"text": "a", "max_tokens": )" << p + 2 << "}\n";
  }
  const auto refused = [&](const std::string& flags, const std::string& why) {
    std::vector<std::unique_ptr<background_program>> processes;
    for (int p = 0; p < 2; ++p) {
      const auto folder = model.at / std::to_string(p);
      processes.push_back(std::make_unique<background_program>(
        fmt::format("env -C {} RANK={} WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 {} "
                    "generate {} --ranks 2 --rendezvous unix:{}",
                    folder, p, TROUPE_PROGRAM, flags, model.at / "job"),
        folder + "/output"));
    }
    for (const auto& each : processes) {
      CHECK(each->end(0) != 0);
      CHECK_THAT(each->output(), ContainsSubstring(why));
    }
  };
  refused("--checkpoint m.safetensors --prompt a --max-tokens 3",
          "what m.safetensors holds");
  refused("--checkpoint " + whole + " --prompts p.jsonl",
          "what the prompts are");
}

TEST_CASE("an interrupt ends the program in the middle of its prompts") {
  const trained_model model("--seq 2000 --microbatch-size 1 --steps 1");
  std::string prompts;
  for (int i = 0; i < 500; ++i)
    prompts += "in the beginning\n";
  background_program run(
    fmt::format("{} generate --checkpoint {} --ranks 2 --max-tokens 1900 "
                "--microbatches 1 --prompts {}",
                TROUPE_PROGRAM, model.checkpoints,
                model.at.write("prompts", prompts)),
    model.at / "output");
  REQUIRE(run.writes("--- prompt 1\n"));
  CHECK(run.end(SIGINT) == 130);
  CHECK_THAT(run.output(), ContainsSubstring("SIGINT"));
}

TEST_CASE("a signal that follows the last token is the program's exit code") {
  const trained_model model;
  std::string prompts;
  for (int i = 0; i < 10'000; ++i)
    prompts += "in the beginning\n";
  const stalled_pipe pipe(model.at / "pipe");
  background_program run(
    fmt::format("{} generate --checkpoint {} --max-tokens 0 --prompts {} > {}",
                TROUPE_PROGRAM, model.checkpoints,
                model.at.write("prompts", prompts), pipe.path()),
    model.at / "output");
  REQUIRE(pipe.fills());
  ::kill(run.pid(), SIGINT);
  REQUIRE(run.writes("SIGINT"));
  const background_program reader("cat " + pipe.path(), model.at / "read");
  CHECK(run.end(0) == 130);
  CHECK_THAT(content(model.at / "read"), ContainsSubstring("prompt 9990"));
}
