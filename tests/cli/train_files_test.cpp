#include "troupe/cli/train/train_setup.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

#include "../temporary_folder.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

struct watched_files {
  void refused(const cli::train_options& options,
               const std::string& because) const {
    CHECK_THROWS_MATCHES(cli::require_outputs(options), error,
                         Catch::Matchers::MessageMatches(
                           Catch::Matchers::ContainsSubstring(because)));
  }
  cli::train_options writing(std::vector<std::string> monitors,
                             std::vector<std::string> sinks) const {
    cli::train_options options;
    options.data.text = {text};
    options.access.endpoint_token_file = token;
    options.monitoring.monitors = std::move(monitors);
    options.monitoring.sinks = std::move(sinks);
    return options;
  }

  temporary_folder folder;
  std::string own_output = [&] {
    std::filesystem::create_directory(folder / "retro");
    return folder / "";
  }();
  std::string text = folder.write("retro/book.txt", "once upon a time");
  std::string token = folder.write("token", "secret");
};

}  // namespace

TEST_CASE("circular links are refused") {
  const watched_files at;
  std::filesystem::create_symlink(at.folder / "a", at.folder / "b");
  std::filesystem::create_symlink(at.folder / "b", at.folder / "a");
  auto options = at.writing({}, {});
  options.monitoring.trace = at.folder / "a";
  options.model.initial = at.folder / std::string(5000, 'x');
  at.refused(options, "Too many levels of symbolic links");
}

TEST_CASE("a sink that would replace what the run reads or writes is refused") {
  const watched_files at;
  at.refused(at.writing({}, {"csv:" + at.text}), "is also the file of --text");
  at.refused(at.writing({}, {"json:" + at.folder / "./retro/../token"}),
             "is also the file of --endpoint-token-file");
  const auto shared = at.folder / "a";
  at.refused(at.writing({}, {"json:" + shared, "csv:" + shared}),
             "is also the file of --sink");
  auto logged = at.writing({}, {"json:" + shared});
  logged.monitoring.metrics = shared;
  at.refused(logged, "is also the file of --log-json");
}

TEST_CASE("an output in place of a file that a flag's value names is refused") {
  const watched_files at;
  for (const auto* sink : {"csv:", "json:"}) {
    auto both = at.writing(
      {}, {"prometheus:127.0.0.1:0,token_file=" + at.token, sink + at.token});
    both.access.endpoint_token_file.clear();
    at.refused(both, "is also the file of --sink");
  }
  auto scraped =
    at.writing({}, {"prometheus:127.0.0.1:0,token_file=" + at.token});
  scraped.access.endpoint_token_file.clear();
  cli::require_outputs(scraped);
  scraped.monitoring.metrics = at.token;
  at.refused(scraped, "is also the file of --sink");
  auto options = at.writing({}, {"csv:" + at.folder / "member.key"});
  options.processes.trust.shown.certificates = at.folder / "";
  at.refused(options, "is also the file of --certificates");
  options = at.writing({}, {"csv:" + at.folder / "set.toml"});
  options.config = at.folder / "set.toml";
  at.refused(options, "is also the file of --config");
  options = at.writing({}, {"csv:" + at.folder / "tokens.idx"});
  options.data.text = {at.folder / "tokens.bin"};
  at.refused(options, "is also the file of --text");
}

TEST_CASE("an output in place of another name of an input is refused") {
  const watched_files at;
  const auto hard = at.folder / "hard";
  std::filesystem::create_hard_link(at.text, hard);
  at.refused(at.writing({}, {"csv:" + hard}), "is also the file of --text");
  at.refused(at.writing({"timeline:svg=" + hard}, {}),
             "is also the file of --text");
  auto options = at.writing({}, {});
  options.output.save_parameters = hard;
  at.refused(options, "is also the file of --text");
  const auto one = at.folder.write("one", "");
  std::filesystem::create_hard_link(one, at.folder / "two");
  at.refused(at.writing({}, {"csv:" + one, "json:" + at.folder / "two"}),
             "is also the file of --sink");
}

TEST_CASE("a monitor that would replace what the run reads is refused") {
  const watched_files at;
  at.refused(at.writing({"timeline:trace=" + at.text}, {}),
             "is also the file of --text");
  at.refused(at.writing({"timeline:svg=" + at.text}, {}),
             "is also the file of --text");
  at.refused(at.writing({"retro:folder=" + at.own_output}, {}),
             "holds the file of --text");
  auto dumped = at.writing({"gradient_dump:folder=" + at.own_output}, {});
  std::filesystem::create_directory(at.folder / "gradients");
  dumped.monitoring.trace = at.folder / "gradients/t.json";
  at.refused(dumped, "holds the file of --trace");
  at.refused(at.writing({"nope"}, {}), "unknown monitor 'nope'");
}

TEST_CASE("a folder in place of a file, or beneath one, is refused") {
  const watched_files at;
  auto options = at.writing({}, {});
  options.output.save_parameters = at.folder / "a";
  options.checkpoints.folder = at.folder / "a";
  at.refused(options, "is also the folder of --checkpoints");
  options.checkpoints.folder = at.folder / "a/b";
  at.refused(options, "holds the folder of --checkpoints");
  at.refused(at.writing({"retro:folder=" + at.folder / "a"},
                        {"json:" + at.folder / "a"}),
             "holds the folder of --monitor");
  options.checkpoints.folder = at.folder / "";
  cli::require_outputs(options);
}

TEST_CASE("an output in place of a file of the model is refused") {
  const watched_files at;
  std::filesystem::create_directory(at.folder / "model");
  at.folder.write("model/config.json", "{}");
  auto options = at.writing({}, {});
  options.model.name = at.folder / "model";
  options.output.save_parameters =
    at.folder.write("model/model.safetensors", "");
  at.refused(options, "is also the file of --model");
  options.output.save_parameters = at.folder / "model/trained.safetensors";
  cli::require_outputs(options);
}

TEST_CASE("a folder that is to be new takes nothing else") {
  const watched_files at;
  const auto folder = at.folder / "new";
  auto options = at.writing({}, {});
  options.output.save_model = folder;
  auto both = options;
  both.output.save_adapter = folder + "/";
  at.refused(
    both, "--save-adapter " + folder + "/ is also the folder of --save-model");
  both.output.save_adapter = folder + "/adapter";
  at.refused(both, "is in the folder of --save-model");
  both.output.save_adapter = {};
  both.checkpoints.folder = at.folder / "./new";
  at.refused(both, "is also the folder of --checkpoints");
  both.checkpoints.folder = folder + "/checkpoints";
  at.refused(both, "holds the folder of --checkpoints");
  both.checkpoints.folder = at.folder / "";
  cli::require_outputs(both);
  both.model.initial = folder + "/initial.safetensors";
  at.refused(both, "holds the file of --initial");
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE(
  "a new folder in place of a link, or of the current one, is refused") {
  const watched_files at;
  auto options = at.writing({}, {});
  options.output.save_model = at.folder / "link";
  std::filesystem::create_symlink(at.folder / "none", at.folder / "link");
  at.refused(options, "link: exists already");
  std::filesystem::create_directory(at.folder / "none");
  at.refused(options, "it is a link; give the folder that it leads to");
  options.output.save_model = at.folder / "none/.";
  at.refused(options, "give the folder's name");
  const std::filesystem::path read_only(at.folder / "none");
  std::filesystem::permissions(read_only, std::filesystem::perms::owner_all);
  options.output.save_model = read_only;
  cli::require_outputs(options);
  CHECK(std::filesystem::is_empty(read_only));
  CHECK(status(read_only).permissions() == std::filesystem::perms::owner_all);
}

TEST_CASE("files of their own, and folders that are shared, are fine") {
  const watched_files at;
  const auto other = at.folder / "other";
  cli::require_outputs(
    at.writing({"timeline:svg=" + at.folder / "a" + ",trace=" + at.folder / "b",
                "retro:folder=" + other, "retro:folder=" + other,
                "gradient_dump:folder=" + at.own_output, "gap"},
               {"csv:" + at.folder / "c", "terminal", "csv:/dev/stdout",
                "json:/dev/stdout", "tensorboard:" + at.own_output}));
}

TEST_CASE("what a killed run left of the parameters it saved is removed") {
  const watched_files at;
  auto options = at.writing({}, {});
  options.output.save_parameters = at.folder / "saved.safetensors";
  const auto dead =
    at.folder.write("saved.safetensors.troupe-0123abcd", "half");
  cli::require_outputs(options);
  CHECK_FALSE(std::filesystem::exists(dead));
  CHECK_FALSE(std::filesystem::exists(options.output.save_parameters));
}
