#include <fmt/format.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../files.hpp"
#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

struct trained_files : tiny_training {
  /// Checks that `train` refuses flags before it begins.
  void refuses(const std::string& flags, int code,
               const std::string& reason) const {
    INFO(flags);
    const auto run = train(flags);
    INFO(run.output);
    CHECK(run.exit_code == code);
    CHECK_THAT(run.output, ContainsSubstring(reason));
    CHECK_THAT(run.output, !ContainsSubstring("step 1/"));
  }
};

}  // namespace

TEST_CASE("train prints a line a step and a validation") {
  const trained_files at;
  const auto run = at.train("--sample 20");
  INFO(run.output);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output, ContainsSubstring("step 1/3 loss ")
                           && ContainsSubstring(" grad_norm ")
                           && ContainsSubstring(" lr 3e-4 tok/s ")
                           && ContainsSubstring(" % (plan ")
                           && ContainsSubstring("validation at step 3 loss ")
                           && ContainsSubstring("sample: And "));
  CHECK(run.output.find('\033') == std::string::npos);
}

TEST_CASE("a pipelined run saves the same bytes as the plain one") {
  const trained_files at;
  const auto a = at.folder / "a", b = at.folder / "b", c = at.folder / "c";
  CHECK(at.train("--plain --save-parameters " + a).exit_code == 0);
  CHECK(
    at.train("--ranks 2 --order ready_first --overlap none --save-parameters "
             + b)
      .exit_code
    == 0);
  CHECK(at.train("--ranks 2 --stages-per-rank 2 --schedule interleaved_1f1b "
                 "--recompute --offload-activations all=0.5,stage.0=1 "
                 "--save-parameters "
                 + c)
          .exit_code
        == 0);
  CHECK(content(a) == content(b));
  CHECK(content(a) == content(c));
  CHECK(at.train("--plain --slices 2 --save-parameters " + a).exit_code == 0);
  CHECK(at.train("--ranks 2 --slices 2 --save-parameters " + b).exit_code == 0);
  CHECK(content(a) == content(b));
}

TEST_CASE("a validation of less than a step gives the plain loop's loss") {
  const trained_files at;
  const auto validation = [&](const std::string& flags) {
    const auto run = at.train("--validation-microbatches 5 " + flags);
    const auto line = run.output.find("validation at step 3");
    REQUIRE(line != std::string::npos);
    return run.output.substr(line);
  };
  CHECK(validation("--ranks 2") == validation("--plain"));
  const std::string two = "--data-parallel 2 ";
  CHECK(validation(two + "--ranks 2") == validation(two + "--plain"));
}

TEST_CASE("initial parameters are saved and taken up again") {
  const trained_files at;
  const auto first = at.folder / "first", again = at.folder / "again";
  CHECK(at.train("--save-initial " + first).exit_code == 0);
  CHECK(at.train("--seed 9 --initial " + first + " --save-initial " + again)
          .exit_code
        == 0);
  CHECK(content(first) == content(again));
}

TEST_CASE("metrics, timeline and trace are written") {
  const trained_files at;
  const auto log = at.folder / "log", svg = at.folder / "t.svg",
             trace = at.folder / "t.json";
  const auto run = at.train("--data-parallel 2 --log-json " + log
                            + " --timeline " + svg + " --trace " + trace);
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  std::ifstream in(log);
  std::string line;
  for (int step = 1; step <= 3; ++step) {
    REQUIRE(std::getline(in, line));
    const auto entry = nlohmann::json::parse(line);
    CHECK(entry["step"] == step);
    CHECK(entry["tokens"] == 2 * 4 * 2 * 8);
    CHECK(entry["losses"]["loss"] == entry["loss"]);
    CHECK(entry["bubble"].get<double>() >= 0);
  }
  CHECK_THAT(content(svg), ContainsSubstring("<svg"));
  const auto events = nlohmann::json::parse(content(trace));
  // 3 steps x 2 replicas x (2 stages x 4 x (F + B) + 2 norms + 2 updates)
  CHECK(std::ranges::count_if(events["traceEvents"],
                              [](const auto& event) {
                                const auto type = event.value("cat", "");
                                return type == "compute" || type == "update";
                              })
        == 3 * 2 * (2 * 4 * 2 + 4));
}

TEST_CASE("settings come from a TOML file and are overridden by flags") {
  const trained_files at;
  const auto config = at.folder.write(
    "run.toml", "text = [\"" + at.text
                  + "\"]\nsteps = 2\nd-model = 16\nlayers = 4\nheads = 2\n"
                    "seq = 8\nmicrobatch-size = 2\nplain = true\n");
  const auto run =
    run_program(program + " train --config " + config + " --steps 1");
  INFO(run.output);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output, ContainsSubstring("step 1/1 "));
  const auto printed =
    run_program(program + " train --config " + config + " --print-config");
  CHECK_THAT(printed.output, ContainsSubstring("d-model = 16\n")
                               && ContainsSubstring("plain = true\n")
                               && ContainsSubstring("recompute = false\n"));
  const auto again = at.folder.write("again.toml", printed.output);
  const auto reprinted =
    run_program(program + " train --config " + again + " --print-config");
  CHECK(reprinted.output == printed.output);
}

TEST_CASE("a setting of the wrong type is reported with file, line and key") {
  const temporary_folder folder;
  const auto refused = [&](const std::string& line, const std::string& why) {
    const auto path = folder.write("bad.toml", "# settings\n" + line + "\n");
    const auto run = run_program(program + " train --config " + path);
    INFO(run.output);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.output, ContainsSubstring("bad.toml:2: " + why));
  };
  refused("eval-every = \"two\"",
          "eval-every is of type string, but must be a whole number");
  refused("warmup = 1.5", "warmup is of type floating-point, but must be a wh");
  refused("lr = true", "lr is of type boolean, but must be a number");
  refused("plain = 1", "plain is of type integer, but must be true or false");
  refused("schedule = [\"gpipe\"]",
          "schedule is of type array, but must be a string");
  refused("prompt = 42", "prompt is of type integer, but must be a string");
  refused("text = [\"a\", 1]",
          "text is of type integer, but must be a string or a list");
  refused("prefetch = 0", "prefetch: 0 is not a whole number in 1..1024");
  refused("[train]", "unknown key 'train'");
}

TEST_CASE("a dry run checks and shows the plan, and trains nothing") {
  const trained_files at;
  const auto run = at.train("--dry-run --save-parameters " + (at.folder / "p"));
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output, ContainsSubstring("stage 1 on rank 1: layers 3 to 5")
                           && ContainsSubstring("bubble ")
                           && !ContainsSubstring("step 1/"));
  CHECK_FALSE(std::ifstream(at.folder / "p").good());
  const auto report =
    nlohmann::json::parse(at.train("--dry-run --json 2>/dev/null").output);
  REQUIRE(report["stages"].size() == 2);
  CHECK(report["stages"][1]["rank"] == 1);
  CHECK(report["stages"][1]["first_layer"] == 3);
  CHECK(report["stages"][1]["last_layer"] == 5);
  CHECK(report["idle"] > 0);
  CHECK(report["in_flight"].size() == 2);
  CHECK(at.train("--json").exit_code == 2);
}

TEST_CASE("bad input is refused before any work") {
  const trained_files at;
  const auto u16 = at.folder.write("t.bin", std::string(400, '\x7f'));
  const auto cut_csv = at.folder.write("c.csv", "0F0,0B0\r\n1F0\r\n");
  const auto stuck_csv = at.folder.write("d.csv", "0B0,0F0\r\n1F0,1B0\r\n");
  at.refuses("--text /no/such/file", 1, "/no/such/file: can't be read: No");
  at.refuses("--text " + at.folder.write("empty", ""), 1, "is empty");
  at.refuses("--text " + u16, 1, "is beyond the vocabulary of 256");
  at.refuses("--seq 5000 --validation-fraction 0", 1,
             "fewer than one microbatch");
  at.refuses("--heads 3", 2, "--d-model 16 is not a multiple of --heads 3");
  at.refuses("--layers 1", 2,
             "1 block can't be cut into 2 stages (2 ranks x 1 stage per rank)");
  at.refuses("--layers 1 --ranks 4 --split parameters", 2,
             "1 block and 2 other layers can't be cut into 4 stages");
  at.refuses("--split 5,x", 2, "'x' is not a number of layers");
  at.refuses("--schedule 2f2b", 2, "interleaved_1f1b");
  at.refuses("--schedule 1f1b --stages-per-rank 2", 2, "stage");
  at.refuses("--schedule " + cut_csv, 1, "1");
  at.refuses("--schedule " + stuck_csv, 1, "0B0");
  at.refuses("--schedule forward_only", 2, "has no backwards");
  at.refuses("--schedule /no/such.csv", 1, "/no/such.csv");
  at.refuses("--no-such-flag 1", 2, "--no-such-flag");
}

TEST_CASE("files and values that can't be are refused before any work") {
  const trained_files at;
  const auto bad_toml = at.folder.write("b.toml", "steps = \n");
  const auto unknown_toml = at.folder.write("u.toml", "stepz = 3\n");
  at.refuses("--config " + bad_toml, 2, "b.toml:1");
  at.refuses("--config " + unknown_toml, 2, "unknown key 'stepz'");
  at.refuses("--save-parameters /no/such/folder/p", 1, "can't be created");
  at.refuses("--timeline /proc/x.svg", 1, "can't be");
  at.refuses("--device gpu", 2, "cuda:0,2");
  at.refuses("--initial " + at.text, 1, "announces a header");
  at.refuses("--dry-run --initial " + at.text, 1, "announces a header");
  at.refuses("--patience 1e18", 2,
             "1e18 is not a number above 0, up to 1000000");
  at.refuses("--dashboard 127.0.0.1:0:0", 2, "is not an address to listen at");
  at.refuses("--ranks 65536 --layers 65536", 2, "more than 1024 threads");
  at.refuses("--split 1,2", 2, "hold 3 layers together, the model has 6");
  at.refuses("--clip -1", 2, "--clip");
  at.refuses("--lr nan", 2, "nan is not a number");
  at.refuses("--seed -1", 2, "--seed: -1 is not a whole number of at least 0");
  at.refuses("--vocabulary 0", 2,
             "--vocabulary: 0 is not a whole number in 1..");
  at.refuses("--steps 99999999999999999999", 2,
             "is not a whole number of at least 0");
  at.refuses("--loss-scale 0", 2, "--loss-scale: 0 is not a number above 0");
  at.refuses("--loss-scale 1e39", 2,
             "use a number above 0, and at most 1.701e+38");
  at.refuses("--d-model 1048576 --heads 1", 2, "GiB, and this machine has");
  at.refuses("--d-model 2000000000", 2, "--d-model: 2000000000 is not a whole");
  at.refuses("--layers 2000000000", 2, "--layers: 2000000000 is not a whole");
  at.refuses("--layers 60000 --ranks 2000", 2, "more than 1024 threads");
  at.refuses("--threads 100000", 2,
             "--threads: 100000 is not a whole number in");
  at.refuses("--ranks 60000", 2, "can't be cut into 60000 stages");
  at.refuses("--save-parameters " + at.text, 2, "is also the file of --text");
  at.refuses("--trace a --timeline a", 2, "is also the file of --trace");
  at.refuses("--config /dev/zero", 1, "/dev/zero: is a device");
  at.refuses("--config /", 1, "/: is a folder, not a regular file");
  at.refuses("--config /no/such", 1, "/no/such: can't be read: No such file");
  at.refuses("--sample 9 --vocabulary 128 --prompt \xc3\xa9", 2, "--prompt");
  at.refuses("--dry-run --endpoint-token-file /no/such", 1, "/no/such: ");
  at.refuses("--dry-run --job-token-file /no/such", 1, "/no/such: ");
  at.refuses("--dry-run --endpoint tcp:127.0.0.1:0", 2, "needs a token");
  at.refuses("--dry-run --endpoint nonsense", 2, "nonsense");
  at.refuses("--dry-run --endpoint unix:/no/such/socket", 1, "/no/such");
  at.refuses("--dry-run --rendezvous nonsense", 2, "nonsense");
  for (const std::string flag : {"--rendezvous", "--announce"})
    at.refuses("--dry-run " + flag + " 127.0.0.1:0", 2,
               "127.0.0.1:0: other processes can't connect to port 0");
  at.refuses("--dry-run --listen nonsense", 2, "nonsense");
  at.refuses("--dry-run --certificates /no/such", 1, "/no/such");
  at.refuses("--dry-run --sink tensorboard:/proc/x", 1, "/proc/x");
  at.refuses("--save-parameters= --dry-run", 2, "--save-parameters= is empty");
  at.refuses("--save-parameters --dry-run", 2,
             "--save-parameters needs a value, but --dry-run follows");
  at.refuses("--save-initial w.st --save-parameters ./w.st", 2,
             "is also the file of --save-initial");
  at.refuses("--plain --trace t.json", 2, "--plain runs no actors");
}

TEST_CASE("a process needs no more than its share of memory and threads") {
  const trained_files at;
  const auto dry_run = [&](const std::string& world, const std::string& flags) {
    return run_program(world + program + " train --dry-run --text " + at.text
                       + tiny + flags)
      .exit_code;
  };
  const std::string large =
    "--d-model 256 --layers 12 --data-parallel 65536 ";  // 5 TiB
  CHECK(dry_run("", large) == 2);
  CHECK(dry_run("RANK=0 WORLD_SIZE=65536 LOCAL_WORLD_SIZE=65536 ", large) == 2);
  CHECK(dry_run("RANK=0 WORLD_SIZE=65536 LOCAL_WORLD_SIZE=1 ", large) == 0);
  const std::string wide = "--layers 1200 --ranks 1200 ";
  CHECK(dry_run("", wide) == 2);
  CHECK(dry_run("RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 ", wide) == 0);
}

TEST_CASE("train warns of flags without effect") {
  const trained_files at;
  for (const std::vector<std::string>& each :
       std::vector<std::vector<std::string>>{
         {"--momentum 0.9",
          "--momentum 0.9 has no effect with --optimizer adamw"},
         {"--breadth 2", "--breadth 2 has no effect with --schedule 1f1b"},
         {"--prompt a", "--prompt has no effect without --sample"},
         {"--run-name a", "--run-name has no effect without --dashboard"},
         {"--final-lr 0.2", "--final-lr has no effect without --decay cosine"},
         {"--optimizer sgd --dampening 0.5",
          "--dampening has no effect without --momentum"},
         {"--plain --order any_ready", "--order has no effect with --plain"}}) {
    const auto run = at.train("--dry-run " + each[0]);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.output, ContainsSubstring("warning: " + each[1]));
  }
}

TEST_CASE("debug logs show memory, parameters and gradients") {
  const trained_files at;
  const auto run = at.train("--log-level debug");
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output,
             ContainsSubstring("step 0: memory ")
               && ContainsSubstring("step 3: blocks.2.mlp.up.weight norm "));
}

TEST_CASE("a slow load is warned of, with its time") {
  const trained_files at;
  const auto run = at.train("--slow-load 0");
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output,
             ContainsSubstring("warning: step 1: loading microbatch "
                               "0 of replica 0 took 0."));
}

TEST_CASE("texts are mixed by weights") {
  const temporary_folder folder;
  const auto texts =
    fmt::format("--text {} {}", write_text(folder, "abcdefgh ", "a"),
                write_text(folder, "ABCDEFGH ", "b"));
  const std::string flags = std::string{two_ranks}
                            + "--d-model 8 --layers 2 --heads 1 --seq 8 "
                              "--steps 2 --endpoint none ";
  CHECK(run_troupe("train", texts, flags + "--mix 0.7,0.3").exit_code == 0);
  const auto refused = run_troupe("train", texts, flags + "--mix 1");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output, ContainsSubstring("1 weights for 2 texts"));
  CHECK(run_troupe("train", texts, flags + "--mix 1,0").exit_code == 2);
}

TEST_CASE("no text at all is wrong usage") {
  const auto run = run_program(program + " train");
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.output, ContainsSubstring("--text FILE"));
  CHECK(run_program(program).exit_code == 2);
  CHECK_THAT(run_program(program + " train --help").output,
             ContainsSubstring("Example: "));
  CHECK(run_program(program + " --version").exit_code == 0);
}

TEST_CASE("an unknown command is named") {
  const auto run = run_program(program + " frob --ranks 2");
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.output,
             ContainsSubstring("unknown command 'frob'. The commands are "
                               "plan, verify, simulate, schedules, "
                               "compare, search, env, train"));
}

TEST_CASE("a full disk is an error, and leaves no half-written file") {
  const trained_files at;
  const auto run = at.train("--log-json /dev/full");
  INFO(run.output);
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output, ContainsSubstring("/dev/full: can't be written: No "
                                           "space left on device"));
  const auto parameters = at.train("--save-parameters /dev/full");
  CHECK(parameters.exit_code == 1);
  CHECK_FALSE(std::filesystem::is_regular_file("/dev/full"));
  CHECK(run_program("exec >/dev/full; " + at.command("")).exit_code == 1);
  const auto trace = at.train("--trace /dev/full");
  CHECK(trace.exit_code == 1);
  CHECK_THAT(trace.output, ContainsSubstring("No space left on device"));
}

TEST_CASE("monitors and sinks are made from the command line") {
  const trained_files at;
  const auto csv = at.folder / "metrics.csv";
  const auto run =
    at.train("--monitor gap:match=blocks.0.*,every=2 --sink csv:" + csv);
  INFO(run.output);
  CHECK(run.exit_code == 0);
  const auto rows = content(csv);
  CHECK_THAT(rows,
             ContainsSubstring("2,training,gap/activations/blocks.0.mlp/max,")
               && ContainsSubstring("3,training,train/loss,")
               && !ContainsSubstring("1,training,gap/"));
  const auto unknown = at.train("--monitor nope");
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.output, ContainsSubstring("unknown monitor 'nope'"));
}

TEST_CASE("a sink that can't be is refused before any work") {
  const trained_files at;
  for (const auto& [sink, code, reason] :
       {std::tuple{"graphite:x", 2, "unknown sink 'graphite'"},
        {"csv:/no/such/folder/x", 1, "can't be created"},
        {"prometheus:0.0.0.0:0", 2, "give a token by token_file=FILE"}}) {
    const auto run = at.train(std::string("--dry-run --sink ") + sink);
    INFO(run.output);
    CHECK(run.exit_code == code);
    CHECK_THAT(run.output, ContainsSubstring(reason));
  }
}
