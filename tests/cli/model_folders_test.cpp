// `troupe train` and `generate` with folders of Hugging Face's transformers.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "../files.hpp"
#include "../temporary_folder.hpp"
#include "troupe_program.hpp"

using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A new Qwen 3 with tied embeddings, made by the program.
struct saved_qwen {
  saved_qwen() {
    std::filesystem::create_directory(folder / "config");
    folder.write("config/config.json", R"({
      "model_type": "qwen3", "vocab_size": 256, "hidden_size": 16,
      "intermediate_size": 24, "num_hidden_layers": 4, "head_dim": 8,
      "num_attention_heads": 2, "num_key_value_heads": 1,
      "max_position_embeddings": 64, "tie_word_embeddings": true,
      "torch_dtype": "float32"})");
    folder.write("config/tokenizer.json", "{\"a\": 1}");
    folder.write("book", std::string(3000, 'a') + std::string(3000, 'b'));
    const auto training =
      run("train --from-scratch --steps 0 --model " + (folder / "config")
          + " --save-model " + model());
    INFO(training.output);
    REQUIRE(training.exit_code == 0);
  }
  std::string model() const { return folder / "model"; }
  program_result run(const std::string& what) const {
    const bool trains = what.starts_with("train");
    return run_program(
      std::string(TROUPE_PROGRAM) + " " + what
      + (trains ? " --seq 8 --microbatch-size 1 --microbatches 4 --log-level "
                  "warn --endpoint none --text "
                    + (folder / "book")
                : std::string()));
  }
  program_result train(const std::string& more) const {
    auto done = run("train --steps 3 --model " + model() + " " + more);
    INFO(done.output);
    CHECK(done.exit_code == 0);
    return done;
  }
  void refused(const std::string& command, const std::string& why) const {
    const auto done = run(command);
    INFO(command);
    CHECK(done.exit_code != 0);
    CHECK_THAT(done.output, ContainsSubstring(why));
  }

  temporary_folder folder;
};

}  // namespace

TEST_CASE("a model folder trains the plain loop's bits, also with adapters") {
  const saved_qwen at;
  const auto a = at.folder / "a.safetensors", b = at.folder / "b.safetensors";
  for (const std::string flags :
       {"--schedule zb_h1",
        "--schedule 1f1b --document-end 98 "
        "--loss-positions 3",
        "--schedule interleaved_1f1b --stages-per-rank 2 --lora-rank 2"}) {
    at.train(flags + " --save-parameters " + a);
    at.train(flags + " --plain --save-parameters " + b);
    INFO(flags);
    CHECK(content(a) == content(b));
  }
}

TEST_CASE("a trained model folder is one again") {
  const saved_qwen at;
  const auto out = at.folder / "out", resumed = at.folder / "resumed";
  at.train("--save-model " + out + " --max-shard-size 4KB --save-dtype bf16");
  CHECK(content(out + "/tokenizer.json") == "{\"a\": 1}");
  CHECK_THAT(content(out + "/config.json"),
             ContainsSubstring("\"torch_dtype\": \"bfloat16\""));
  CHECK_THAT(content(out + "/model.safetensors.index.json"),
             ContainsSubstring("model-00001-of-"));
  const auto checkpoints = " --checkpoints " + (at.folder / "run");
  at.train("--checkpoint-every 2" + checkpoints);
  for (const auto& source : {out, at.folder / "run"}) {
    const auto done = at.run(
      "generate --ids --prompt '97 97' --max-tokens 4 "
      "--checkpoint "
      + source);
    INFO(done.output);
    CHECK(done.exit_code == 0);
  }
  CHECK(at.run("train --steps 4 --resume auto --model " + at.model()
               + checkpoints + " --save-model " + resumed)
          .exit_code
        == 0);
  const auto straight = at.folder / "straight";
  CHECK(at.run("train --steps 4 --model " + at.model() + " --save-model "
               + straight)
          .exit_code
        == 0);
  CHECK(content(resumed + "/model.safetensors")
        == content(straight + "/model.safetensors"));
  at.refused("train --steps 1 --model " + at.model() + " --save-model " + out,
             "exists already");
}

TEST_CASE("a continuation ends before the end of text that a folder names") {
  const saved_qwen at;
  const auto generated = [&](const std::string& more) {
    const auto done = at.run(
      "generate --ids --prompt '97 97' --max-tokens 4 --temperature 0 --json "
      "--log-level warn --checkpoint "
      + more);
    INFO(done.output);
    CHECK(done.exit_code == 0);
    return nlohmann::json::parse(done.output);
  };
  const auto all = generated(at.model())["ids"];
  REQUIRE(all.size() == 4);
  const auto end = all[2].dump();
  const auto before =
    std::ranges::find(all, all[2]) - all.begin();  // the token may be repeated
  const auto check_ends = [&](const std::string& source) {
    const auto result = generated(source);
    CHECK(result["end"] == "stop");
    CHECK(std::ssize(result["ids"]) == before);
    CHECK(generated(source + " --ignore-end-of-text")["ids"] == all);
  };
  auto config = nlohmann::json::parse(content(at.model() + "/config.json"));
  config["eos_token_id"] = all[2];
  at.folder.write("model/config.json", config.dump());
  check_ends(at.model());
  at.run("train --steps 0 --model " + at.model() + " --checkpoints "
         + (at.folder / "run"));
  check_ends(at.folder / "run");
  at.folder.write("model/generation_config.json", "{}");
  CHECK(generated(at.model())["ids"] == all);
  const auto train =
    "train --steps 0 --model " + at.model() + " --checkpoints ";
  at.run(train + (at.folder / "endless"));
  CHECK(generated(at.folder / "endless")["ids"] == all);
  at.folder.write("model/generation_config.json",
                  "{\"eos_token_id\": [" + end + ", 1000000]}");
  check_ends(at.model());
  at.run(train + (at.folder / "two"));
  check_ends(at.folder / "two");
  at.run("checkpoint consolidate " + (at.folder / "two") + " -o "
         + (at.folder / "two.safetensors"));
  check_ends(at.folder / "two.safetensors");
  // A different end token does not make it another model.
  CHECK(at.run(train + (at.folder / "endless") + " --resume auto").exit_code
        == 0);
  at.folder.write("model/generation_config.json", "{\"eos_token_id\": \"x\"}");
  at.refused("generate --prompt 97 --checkpoint " + at.model(),
             "generation_config.json: eos_token_id is \"x\", not an id");
}

TEST_CASE("adapters resume with the weights that they were trained on") {
  const saved_qwen at;
  const auto flags = " --lora-rank 2 --checkpoints " + (at.folder / "run");
  at.train(flags);
  const auto about = run_troupe("checkpoint inspect", at.folder / "run").output;
  const auto weights = about.find("model's base-weights: ");
  REQUIRE(weights != about.npos);
  CHECK_THAT(about.substr(weights, about.find('\n', weights) - weights),
             !ContainsSubstring("\\x0A"));
  const auto other = at.folder / "other";
  CHECK(at.run("train --from-scratch --seed 9 --steps 0 --model "
               + (at.folder / "config") + " --save-model " + other)
          .exit_code
        == 0);
  const auto resume = "train --steps 4 --resume auto" + flags + " --model ";
  at.refused(resume + other,
             "were trained on other files of weights than those of "
             "--model "
               + other);
  at.refused("train --steps 4 --resume auto --checkpoints "
               + (at.folder / "run") + " --model " + at.model(),
             "was saved with --lora-rank 2; give it again");
  CHECK(at.run(resume + at.model()).exit_code == 0);
}

TEST_CASE("a continuation by an adapter's folder is refused with what to do") {
  const saved_qwen at;
  const auto adapter = at.folder / "adapter";
  at.train("--lora-rank 2 --save-adapter " + adapter);
  at.refused("generate --prompt 97 --checkpoint " + adapter,
             "adapter: is an adapter, which troupe does not read back; give a "
             "model that the run saved with --save-model");
}

TEST_CASE("rotary embeddings that depend on the length of long texts") {
  const saved_qwen at;
  auto config = nlohmann::json::parse(content(at.model() + "/config.json"));
  const std::string generate =
    "generate --ids --prompt '97 98 97' --max-tokens 9 --temperature 0 "
    "--log-level error --checkpoint "
    + at.model();
  const auto plain = at.run(generate);
  CHECK(plain.exit_code == 0);
  config["max_position_embeddings"] = 16;
  config["rope_parameters"] = {
    {"rope_type", "dynamic"}, {"factor", 2}, {"rope_theta", 10000}};
  at.folder.write("model/config.json", config.dump());
  CHECK(at.run(generate).output == plain.output);
  at.refused(generate + " --seq 17", "slices");
  at.train("--slices 2");
  const std::string shared = "not trained as it would be alone; --seq 7 or";
  CHECK_THAT(at.train("--document-end 98").output, !ContainsSubstring(shared));
  config["max_position_embeddings"] = 7;
  at.folder.write("model/config.json", config.dump());
  CHECK_THAT(at.train("--document-end 98").output, ContainsSubstring(shared));
  CHECK_THAT(at.train("").output, !ContainsSubstring(shared));
  at.refused("train --steps 1 --slices 2 --model " + at.model(), "slices");
  const auto sampled = at.run("train --sample 2 --model " + at.model());
  CHECK_THAT(sampled.output, ContainsSubstring("does not run in slices"));
  CHECK_THAT(sampled.output, !ContainsSubstring("step 1"));
}

TEST_CASE("the printed settings of a run on a model folder are its settings") {
  const saved_qwen at;
  auto config = nlohmann::json::parse(content(at.model() + "/config.json"));
  config["vocab_size"] = 200;
  at.folder.write("config/config.json", config.dump());
  const auto printed = at.run("train --print-config --from-scratch --model "
                              + (at.folder / "config"));
  CHECK_THAT(printed.output, !ContainsSubstring("vocabulary"));
  const auto done = run_troupe(
    "train", "--dry-run --config " + at.folder.write("c.toml", printed.output));
  INFO(done.output);
  CHECK(done.exit_code == 0);
}

TEST_CASE("a text that the model's tokenizer did not make is warned of") {
  const saved_qwen at;
  CHECK_THAT(at.train("").output,
             ContainsSubstring("is read as bytes, and not by the model's"));
  CHECK_THAT(at.train("--text-format bytes").output,
             !ContainsSubstring("is read as bytes"));
  auto file = at.model() + "/tokenizer.json";
  for (const auto* name : {"tokenizer.model", "tokenizer_config.json",
                           "vocab.json", "tekken.json", "LICENSE"}) {
    const auto other = at.model() + "/" + name;
    std::filesystem::rename(file, other);
    file = other;
    INFO(name);
    CHECK((at.run("train --dry-run --model " + at.model())
             .output.find("is read as bytes")
           == std::string::npos)
          == (std::string_view(name) == "LICENSE"));
  }
}

TEST_CASE("masked tokens do not count in a program's loss") {
  const saved_qwen at;
  std::string mask(6000, '\0');
  const auto path = at.folder.write("mask", mask);
  at.refused("train --model " + at.model() + " --loss-mask " + path,
             "mask: is 0 throughout");
  mask.back() = '\1';
  at.folder.write("mask", mask);
  const auto done =
    at.train("--validation-fraction 0 --loss-mask " + (at.folder / "mask"));
  CHECK_THAT(done.output, ContainsSubstring("loss - (no counted tokens)"));
  at.folder.write("mask", "short");
  at.refused(
    "train --model " + at.model() + " --loss-mask " + (at.folder / "mask"),
    "has 5 values, for the 6000 tokens");
}

TEST_CASE("a run resumes with another config.json that computes the same") {
  const saved_qwen at;
  const auto resume = " --model " + at.model() + " --resume auto --checkpoints "
                      + (at.folder / "run");
  at.train("--checkpoints " + (at.folder / "run"));
  auto config = nlohmann::json::parse(content(at.model() + "/config.json"));
  config["use_cache"] = false;
  config["transformers_version"] = "5.0";
  config["temperature"] = 0.5;
  config["rope_scaling"] = nullptr;
  at.folder.write("model/config.json", config.dump());
  CHECK(at.run("train --steps 4" + resume).exit_code == 0);
  config["rms_norm_eps"] = 0.5;
  config["rope_theta"] = 5000;
  at.folder.write("model/config.json", config.dump());
  at.refused("train --steps 5" + resume,
             "differs from that of --model in rms_norm_eps, rope_theta\n");
}

TEST_CASE("errors about a model folder say what to do") {
  const saved_qwen at;
  at.refused("train --model " + at.model() + "/config.json",
             "is a file; give the folder with the config.json");
  at.folder.write("config/config.json", [&] {
    auto small = nlohmann::json::parse(content(at.model() + "/config.json"));
    small["vocab_size"] = 98;
    return small.dump();
  }());
  at.refused("train --from-scratch --model " + (at.folder / "config"),
             "beyond the vocabulary of 98; tokenize with this model's "
             "tokenizer (scripts/tokenize)");
}

TEST_CASE("flags that a model folder contradicts are refused or warned of") {
  const saved_qwen at;
  CHECK_THAT(
    at.run("generate --prompt 97 --seq 65 --checkpoint " + at.model()).output,
    ContainsSubstring("is made for 64 positions"));
  const auto model = " --model " + at.model();
  at.refused("train --vocabulary 300" + model, "has 256; omit the flag");
  for (const auto* size : {"--heads 3", "--d-model 16", "--tie-embeddings"})
    at.refused("train " + std::string(size) + model, "; omit the flag");
  const std::pair<std::string, std::string> cases[]{
    {"--lora-rank 2 --lora-modules x", "matches no linear module"},
    {"--lora-rank 2 --lora-modules q_prj,v_proj",
     "'q_prj' matches no linear module; did you mean q_proj?"},
    {"--lora-rank 2 --lora-modules q_proj,",
     "'' is empty; write globs such as"},
    {"--lora-modules q_proj",
     "--lora-modules has no effect without --lora-rank"},
    {"--lora-alpha 16", "--lora-alpha has no effect without --lora-rank"},
    {"--save-dtype bf16", "--save-dtype has no effect without --save-model"},
    {"--max-shard-size 1GB",
     "--max-shard-size has no effect without --save-model"},
    {"--from-scratch --lora-rank 2 --save-adapter x",
     "no folder would hold the weights that the adapter belongs to"}};
  for (const auto& [flags, why] : cases)
    at.refused("train " + flags + model, why);
  at.refused("train --save-adapter " + (at.folder / "x") + model,
             "give their --lora-rank");
  at.refused("train --save-model " + (at.folder / "x"),
             "--save-model needs a --model that is a folder");
  at.refused("train --lora-rank 2", "--lora-rank is for a --model that is");
  at.refused("train --document-end 3", "--document-end is for a --model");
  at.refused("train --model " + (at.folder / "none/"), "none/config.json");
  at.refused("train --document-end 256" + model, "has ids up to 255");
  at.refused("train --save-model x --max-shard-size 0" + model,
             "--max-shard-size");
  at.refused("train --save-model x --max-shard-size -1" + model,
             "--max-shard-size");
  const auto generate = "generate --prompt 97 --checkpoint " + at.model();
  at.refused(generate + " --model gpt", "--model: ");
  at.refused(generate + " --heads 3", "config.json; omit the flag");
  const auto saved = at.folder / "saved.safetensors", run = at.folder / "run";
  at.train("--save-parameters " + saved + " --checkpoints " + run);
  for (const auto& stored : {saved, run}) {
    const auto from = "generate --ids --prompt 97 --checkpoint " + stored;
    CHECK(at.run(from).exit_code == 0);
    at.refused(from + " --model gpt", "config.json; omit the flag");
    at.refused(from + " --tie-embeddings", "config.json; omit the flag");
    at.refused(from + model, "a model folder is a --checkpoint itself");
  }
  at.refused(generate + " --vocabulary 300", "is of a model with 256");
  at.refused("train --model nobody", "there is no model, and no folder");
  std::filesystem::remove(at.model() + "/model.safetensors");
  at.refused("train" + model, "has neither model.safetensors nor");
}
