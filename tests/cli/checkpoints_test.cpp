// Saving and resuming runs with the program.
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "../files.hpp"
#include "background_program.hpp"
#include "troupe/engine/checkpoint/folder_lock.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

constexpr auto small_model =
  "--d-model 16 --layers 4 --heads 2 --seq 8 --microbatch-size 2 --lr 0.01 "
  "--endpoint none ";

struct runs {
  temporary_folder at;
  std::string text = write_text(at);

  program_result train(const std::string& flags) const {
    return run_troupe("train", fmt::format("--text {} {}", text, small_model),
                      flags);
  }
  /// The bytes of the parameters after a run that must succeed.
  std::string trained(const std::string& flags) const {
    const auto path = at / "out.safetensors";
    const auto run = train(fmt::format("{} --save-parameters {}", flags, path));
    INFO(run.output);
    REQUIRE(run.exit_code == 0);
    return content(path);
  }
};

}  // namespace

TEST_CASE("a resumed run trains the bytes of one that was not interrupted") {
  const runs here;
  for (const std::string flags :
       {"--ranks 2 --microbatches 4 --optimizer adamw",
        "--ranks 2 --microbatches 4 --optimizer sgd --momentum 0.9 --clip 0.5 "
        "--data-parallel 2 --schedule zb_h1",
        "--ranks 2 --microbatches 2 --optimizer muon",
        "--ranks 2 --microbatches 2 --optimizer adafactor --parameters "
        "'tok.*:frozen'",
        "--ranks 2 --microbatches 4 --optimizer lion --schedule dualpipe",
        "--schedule two_bw --ranks 2 --microbatches 8 --breadth 4",
        "--ranks 2 --dtype fp16 --dynamic-loss-scale --loss-scale 1e7 "
        "--warmup 6 --plain"}) {
    CAPTURE(flags);
    const temporary_folder saved;
    const auto whole = here.trained(flags + " --steps 7");
    here.trained(
      fmt::format("{} --steps 4 --checkpoints {} "
                  "--checkpoint-every 2 --keep 1",
                  flags, saved / "c"));
    CHECK(std::filesystem::exists(saved / "c/step-00000004/manifest.json"));
    CHECK_FALSE(std::filesystem::exists(saved / "c/step-00000002"));
    CHECK(here.trained(fmt::format("{} --steps 7 --checkpoints {} "
                                   "--resume auto",
                                   flags, saved / "c"))
          == whole);
    CHECK(std::filesystem::exists(saved / "c/step-00000007/manifest.json"));
  }
}

TEST_CASE("tied embeddings are saved once, and taken up in all shapes") {
  const runs here;
  const std::string flags = "--tie-embeddings --microbatches 4 ";
  const auto whole = here.trained(flags + "--steps 5 --plain");
  CHECK(here.trained(flags + "--steps 5 --ranks 2") == whole);
  here.trained(flags + "--steps 3 --ranks 2 --checkpoints " + (here.at / "c"));
  const auto manifest =
    nlohmann::json::parse(content(here.at / "c/step-00000003/manifest.json"));
  CHECK(manifest["aliases"] == nlohmann::json{{"head.weight", "tok.weight"}});
  for (const std::string shape :
       {"--plain", "--ranks 4 --schedule gpipe",
        "--ranks 2 --stages-per-rank 2 --schedule zb_v"})
    CHECK(here.trained(fmt::format("{} --steps 5 {} --resume {}", flags, shape,
                                   here.at / "c"))
          == whole);
  const auto file = here.at / "all.safetensors";
  const auto run = run_troupe(
    "checkpoint", fmt::format("consolidate {} -o {}", here.at / "c", file));
  CHECK(run.exit_code == 0);
  CHECK(content(file).find("head.weight") == std::string::npos);
  const auto begun =
    here.trained(fmt::format("{} --steps 1 --plain --initial {}", flags, file));
  CHECK(begun
        == here.trained(
          fmt::format("{} --steps 1 --ranks 2 --initial {}", flags, file)));
  run_troupe("checkpoint", fmt::format("split {} --parts 3 -o {}",
                                       here.at / "c", here.at / "s"));
  CHECK(here.trained(flags + "--steps 5 --ranks 2 --resume " + (here.at / "s"))
        == whole);
  const auto refused =
    here.train("--steps 1 --parameters head.weight:frozen " + flags);
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output,
             ContainsSubstring("'head.weight' is tied to 'tok.weight'"));
}

TEST_CASE("a checkpoint is taken up at other ranks, replicas and schedules") {
  const runs here;
  const std::string sgd = " --optimizer sgd --momentum 0.5 --steps ";
  const auto first = "--ranks 2 --microbatches 2 --data-parallel 2" + sgd;
  const auto saved = here.trained(first + "3 --checkpoints " + (here.at / "a"));
  const auto whole = here.train(first + "5");
  const auto last_loss = [](const std::string& output) {
    const auto step = output.find("step 5/5 loss ");
    REQUIRE(step != std::string::npos);
    return std::stod(output.substr(step + 14));
  };
  for (const std::string shape :
       {"--ranks 4 --microbatches 4 --schedule gpipe",
        "--ranks 1 --microbatches 1 --data-parallel 4",
        "--ranks 2 --stages-per-rank 2 --microbatches 4 --schedule zb_v",
        "--plain --ranks 1 --microbatches 4"}) {
    CAPTURE(shape);
    const auto flags = shape + " --resume " + (here.at / "a") + sgd;
    CHECK(here.trained(flags + "3") == saved);
    // Gradients are summed in another order, or in the same one.
    const auto run = here.train(flags + "5");
    INFO(run.output);
    REQUIRE(run.exit_code == 0);
    CHECK(std::abs(last_loss(run.output) - last_loss(whole.output)) < 2e-4);
  }
}

TEST_CASE("a folder of checkpoints is not mixed with another run's") {
  const runs here;
  const auto flags =
    "--steps 1 --ranks 1 --microbatches 1 --checkpoints " + (here.at / "c");
  CHECK(here.train(flags).exit_code == 0);
  const auto again = here.train(flags);
  CHECK(again.exit_code == 2);
  CHECK_THAT(again.output, ContainsSubstring("--resume auto"));
  const auto other = here.train(
    "--ranks 1 --microbatches 1 --steps 2 "
    "--layers 2 --resume "
    + (here.at / "c"));
  CHECK(other.exit_code == 2);
  CHECK_THAT(other.output,
             ContainsSubstring("saved with --layers 4, and this"));
  CHECK(here.train("--keep 3").exit_code == 2);
  CHECK(here.train("--resume auto").exit_code == 2);
  CHECK_THAT(here.train("--resume /absent").output,
             ContainsSubstring("--resume /absent: there is no such folder"));
}

TEST_CASE("two jobs don't share a folder of checkpoints") {
  const runs here;
  const std::string flags =
    "--ranks 1 --microbatches 1 --checkpoint-every 1 --resume auto "
    "--checkpoints "
    + (here.at / "c");
  background_program first(
    fmt::format("{} train --text {} {} {} --steps 1000000", TROUPE_PROGRAM,
                here.text, small_model, flags),
    here.at / "log");
  REQUIRE(first.writes("step-00000002"));
  for (const auto* kind : {"", "--plain "}) {
    const auto second = here.train(kind + flags + " --steps 3");
    CHECK(second.exit_code == 1);
    CHECK_THAT(second.output,
               ContainsSubstring(fmt::format("process {} on ", first.pid())));
  }
  first.end(SIGKILL);
  const auto third = here.train(flags + " --steps 1");
  CHECK(third.exit_code == 0);
  CHECK_THAT(third.output, ContainsSubstring("nothing to train"));
  CHECK_FALSE(std::filesystem::exists(here.at / "c/.lock"));
}

TEST_CASE("a damaged checkpoint is skipped with a warning") {
  const runs here;
  const std::string flags = "--ranks 1 --microbatches 1 --checkpoints "
                            + (here.at / "c") + " --checkpoint-every 1 ";
  CHECK(here.train(flags + "--steps 3").exit_code == 0);
  const auto part = here.at / "c/step-00000003/part-00000.safetensors";
  auto bytes = content(part);
  bytes.back() ^= 1;
  here.at.write("c/step-00000003/part-00000.safetensors", bytes);
  CHECK(run_troupe("checkpoint verify", here.at / "c").exit_code == 1);
  const auto run = here.train(flags + "--steps 4 --resume auto");
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output,
             ContainsSubstring("its SHA-256 does not match the manifest")
               && ContainsSubstring("resuming from "));
  CHECK(run_troupe("checkpoint verify", here.at / "c").exit_code == 0);
}

TEST_CASE("a resumed run keeps its own checkpoints, not later damaged ones") {
  const runs here;
  const auto folder = here.at / "c";
  const auto step = [&](int n) {
    return std::filesystem::path(folder) / fmt::format("step-{:08}", n);
  };
  const auto flags =
    "--microbatches 2 --checkpoint-every 2 --keep 3 --checkpoints " + folder;
  here.trained(flags + " --steps 6");
  const auto branch =
    here.train(flags + " --steps 8 --resume " + step(2).string());
  CHECK(branch.exit_code == 2);
  CHECK_THAT(branch.output,
             ContainsSubstring("also holds a checkpoint of step 6"));
  for (const int n : {4, 6})
    std::filesystem::resize_file(step(n) / "part-00000.safetensors", 100);
  here.trained(flags + " --steps 3 --resume " + folder);
  CHECK(std::filesystem::exists(step(2)));
  CHECK(std::filesystem::exists(step(3)));
  CHECK_FALSE(std::filesystem::exists(step(6)));
  for (const int n : {2, 3})
    std::filesystem::resize_file(step(n) / "part-00000.safetensors", 100);
  const auto none = here.train(flags + " --steps 3 --resume auto");
  CHECK(none.exit_code == 1);
  CHECK_THAT(none.output, ContainsSubstring("is both intact and finite"));
}

TEST_CASE("a checkpoint of another model, optimizer or text is noticed") {
  const runs here;
  const auto flags =
    fmt::format("--microbatches 2 --checkpoints {} --steps 2 ", here.at / "c");
  here.trained(flags);
  const auto refused = [&](const std::string& others, const std::string& why) {
    const auto run = here.train(flags + "--resume auto " + others);
    INFO(run.output);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.output, ContainsSubstring(why));
  };
  refused("--heads 4", "was saved with --heads 2, and this run has 4");
  refused("--optimizer lion",
          "was saved with --optimizer adamw, and this run has lion");
  auto bytes = content(here.text);
  std::ranges::reverse(bytes);
  const auto other = here.at.write("reversed", bytes);
  const auto run =
    run_troupe("train", fmt::format("--text {} {}", other, small_model),
               flags + "--resume auto");
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output, ContainsSubstring("other data"));
}

TEST_CASE("another microbatch size continues at the same row, or is refused") {
  const runs here;
  const auto flags = [&](int rows) {
    return fmt::format(
      "--ranks 1 --microbatches 2 --checkpoints {} --resume auto --log-json {} "
      "--microbatch-size {}",
      here.at / "c", here.at / "log", rows);
  };
  CHECK(here.train(flags(2) + " --steps 1").exit_code == 0);  // 4 rows
  const auto refused = here.train(flags(3) + " --steps 2");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output,
             ContainsSubstring("--microbatch-size 3: the checkpoint was saved "
                               "after 4 rows"));
  CHECK(here.train(flags(1) + " --steps 2").exit_code == 0);
  // The log goes on, too.
  const auto log = content(here.at / "log");
  CHECK_THAT(log, ContainsSubstring(R"({"step":1,"phase":"training")")
                    && ContainsSubstring(R"({"step":2,"phase":"training")"));
}

TEST_CASE("checkpoints are looked into, joined and split") {
  const runs here;
  const std::string flags = "--ranks 2 --microbatches 2 --steps 2 ";
  const auto parameters =
    here.trained(flags + "--checkpoints " + (here.at / "c"));
  const auto about = nlohmann::json::parse(
    run_troupe("checkpoint inspect", here.at / "c", "--json").output);
  CHECK(about["step"] == 2);
  CHECK(about["files"].size() == 2);
  const auto one = here.at / "one.safetensors";
  CHECK(
    run_troupe("checkpoint consolidate", here.at / "c", "-o " + one).exit_code
    == 0);
  const auto split = here.at / "split";
  CHECK(run_troupe("checkpoint split", one, "--parts 3 -o " + split).exit_code
        == 0);
  CHECK(run_troupe("checkpoint split", one, "--parts 3 -o " + split).exit_code
        == 2);
  CHECK(run_troupe("checkpoint verify", split).exit_code == 0);
  CHECK(here.trained("--ranks 2 --microbatches 2 --steps 0 --resume " + split)
        == parameters);
  CHECK(run_troupe("checkpoint inspect", "/absent").exit_code == 1);
  const auto refused = [&](const char* command, const std::string& more,
                           const char* why) {
    const auto run = run_troupe(command, here.at / "c", more);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.output, ContainsSubstring(why));
  };
  refused("checkpoint consolidate",
          "-o " + (here.at / "c/step-00000002/part-00000.safetensors"),
          "is in the folder of the checkpoint itself");
  refused("checkpoint split", "--parts 1000 -o " + (here.at / "many"),
          "each of which is in one part; use at most");
  refused("checkpoint inspect", "--bogus",
          "checkpoint inspect has no flag --bogus");
  refused("checkpoint verify", "other",
          "checkpoint verify does not accept 'other' there");
}

TEST_CASE("a split that fails leaves no folder of its own") {
  const runs here;
  here.trained("--ranks 2 --microbatches 2 --steps 0");
  const auto split = [&](const std::string& to) {
    // Limits files to one block.
    return run_program(
      fmt::format("ulimit -f 1; {} checkpoint split {} --parts 2 -o {}",
                  TROUPE_PROGRAM, here.at / "out.safetensors", to));
  };
  const auto run = split(here.at / "new/split");
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output, ContainsSubstring("File too large"));
  CHECK_FALSE(std::filesystem::exists(here.at / "new"));
  std::filesystem::create_directory(here.at / "old");
  CHECK(split(here.at / "old/").exit_code == 1);
  CHECK(std::filesystem::is_empty(here.at / "old"));
}

TEST_CASE("a split does not write to a folder that a job has") {
  const runs here;
  here.trained("--ranks 2 --microbatches 2 --steps 0");
  const troupe::folder_lock job(here.at / "c");
  const auto part = here.at / "c/.step-00000001.job.partial";
  std::filesystem::create_directory(part);
  const auto run = run_troupe("checkpoint split", here.at / "out.safetensors",
                              "--parts 2 -o " + (here.at / "c"));
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output, ContainsSubstring("in use: process"));
  CHECK(std::filesystem::exists(part));
}

TEST_CASE("a path whose file can't be looked up is refused by name") {
  const runs here;
  const auto name = std::string(300, 'x');
  const auto run = run_troupe("checkpoint consolidate", name,
                              "-o " + (here.at / "out.safetensors"));
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output,
             ContainsSubstring("xxx")
               && ContainsSubstring("can't be read: File name too long"));
}

namespace {

/// The index of a Megatron corpus with sequences of these lengths.
std::string megatron_index_of(const std::vector<std::int32_t>& lengths) {
  std::string text("MMIDIDX\0\0", 9);
  const auto append = [&](auto value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  append(std::uint64_t{1});
  append(std::uint8_t{1});
  append(std::uint64_t{lengths.size()});
  append(std::uint64_t{2});
  for (const auto length : lengths)
    append(length);
  std::int64_t offset = 0;
  for (const auto length : lengths) {
    append(offset);
    offset += length;
  }
  for (std::int64_t document = 0; document < 2; ++document)
    append(document);
  return text;
}

}  // namespace

TEST_CASE("another index of the same Megatron corpus is noticed") {
  const runs here;
  const auto size = static_cast<std::int32_t>(content(here.text).size());
  const auto text = here.at.write("corpus.bin", content(here.text));
  const auto trained = [&] {
    const auto run = run_troupe(
      "train", fmt::format("--text {} {}", text, small_model),
      fmt::format("--microbatches 2 --steps 2 --resume auto --checkpoints {}",
                  here.at / "c"));
    INFO(run.output);
    CHECK(run.exit_code == 0);
    return run.output;
  };
  here.at.write("corpus.idx", megatron_index_of({size - 5, 5}));
  trained();
  CHECK_THAT(trained(), !ContainsSubstring("other data"));
  here.at.write("corpus.idx", megatron_index_of({size - 6, 6}));
  CHECK_THAT(trained(), ContainsSubstring("other data"));
}
