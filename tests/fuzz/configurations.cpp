// --config: TOML whose keys are flags.
#include "troupe/cli/config_file.hpp"

#include <CLI/CLI.hpp>

#include "file_of_bytes.hpp"
#include "parse.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view bytes) {
    CLI::App command;
    std::int64_t whole = 3;
    double number = 0.5;
    bool flag = false;
    std::string text;
    std::vector<std::string> texts;
    command.add_option("--ranks", whole)->check(CLI::Range(1, 64));
    command.add_option("--lr", number);
    command.add_flag("--plain", flag);
    command.add_option("--schedule", text);
    command.add_option("--text", texts);
    const testing::file_of_bytes file(bytes);
    cli::expand_config({"--config=" + file.path()}, command);
  });
}
