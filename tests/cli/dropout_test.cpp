// Dropout as in practice: in several processes, resumed, with models of
// transformers and adapters.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

#include "../files.hpp"
#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

/// The saved parameters of a training.
std::string parameters_after(const tiny_training& at,
                             const std::string& command) {
  const auto saved = at.folder / "saved.safetensors";
  std::filesystem::remove(saved);
  const auto run =
    run_program(command + " --endpoint none --save-parameters " + saved);
  INFO(run.output);
  CHECK(run.exit_code == 0);
  return content(saved);
}

struct dropped_training : tiny_training {
  std::string trained(const std::string& flags,
                      const std::string& launcher = "") const {
    return parameters_after(
      *this, program + launcher + " train --text " + text + tiny + flags);
  }
};

}  // namespace

TEST_CASE("dropout has plain's bits, also in several processes and resumed") {
  const dropped_training at;
  const std::string flags = "--dropout 0.3 --ranks 2 ";
  const auto plain = at.trained(flags + "--plain");
  CHECK(at.trained(flags) == plain);
  CHECK(at.trained(flags, " launch --processes 2 --") == plain);
  CHECK(at.trained("--dropout 0.3 --ranks 4 --schedule zb_h1 --recompute")
        == plain);
  const auto run = "--checkpoints " + (at.folder / "run") + " ";
  at.trained(flags + run + "--steps 1");
  CHECK(at.trained(flags + run + "--resume auto") == plain);
  CHECK(at.trained("--ranks 2 --dropout 0.2") != plain);
  CHECK(at.trained(flags + "--seed 2") != at.trained(flags + "--seed 3"));
}

TEST_CASE("a resumed run tells of another dropout") {
  const dropped_training at;
  const auto run = "--endpoint none --checkpoints " + (at.folder / "run");
  CHECK(at.train(run + " --dropout 0.1 --steps 1").exit_code == 0);
  const auto resumed = at.train(run + " --resume auto");
  INFO(resumed.output);
  CHECK(resumed.exit_code == 0);
  CHECK_THAT(resumed.output, ContainsSubstring("dropout"));
}

TEST_CASE("a probability of dropout is from 0 to 1") {
  const dropped_training at;
  for (const auto* value : {"-0.1", "1.1", "nan", "x"}) {
    const auto run = at.train(std::string("--dropout ") + value);
    INFO(run.output);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.output, ContainsSubstring("--dropout"));
  }
}

namespace {

/// A GPT-2 of transformers without fields for dropout, whose defaults are 0.1.
struct dropped_gpt2 : tiny_training {
  dropped_gpt2() { std::filesystem::create_directory(folder / "gpt2"); }

  void configure(const std::string& fields) const {
    folder.write("gpt2/config.json",
                 R"({"model_type": "gpt2", "vocab_size": 256,
      "n_embd": 16, "n_layer": 4, "n_head": 2, "n_positions": 64, )"
                   + fields + "}");
  }
  std::string trained(const std::string& flags) const {
    return parameters_after(
      *this, program + " train --text " + text
               + " --seq 8 --microbatch-size 2 --microbatches 4 --steps 2 "
                 "--from-scratch --model "
               + (folder / "gpt2") + " --ranks 2 " + flags);
  }
};

}  // namespace

TEST_CASE("a model of transformers trains with its dropout and adapters'") {
  const dropped_gpt2 at;
  at.configure(R"("resid_pdrop": 0.2)");
  const auto plain = at.trained("--plain");
  CHECK(at.trained("--schedule zb_h1") == plain);
  const std::string adapted = "--lora-rank 2 --lora-dropout 0.5 ";
  CHECK(at.trained(adapted) == at.trained(adapted + "--plain"));
  CHECK(at.trained(adapted) != at.trained("--lora-rank 2"));
  at.configure(R"("resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0)");
  CHECK(at.trained("") != plain);
}
