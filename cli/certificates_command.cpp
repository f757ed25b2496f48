#include "troupe/cli/commands.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "troupe/base/printable.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/engine/transport/trust/certificates.hpp"

namespace troupe::cli {

namespace {

struct settings {
  std::string folder;
  certificate_options options;
  bool json = false;
};

void print_json(const settings& flags) {
  auto files = nlohmann::ordered_json::array(
    {"authority.pem", "member.pem", "member.key"});
  if (flags.options.keep_authority_key)
    files.push_back("authority.key");
  const nlohmann::ordered_json report{{"folder", printable(flags.folder)},
                                      {"files", files},
                                      {"days", flags.options.days}};
  fmt::print("{}\n", report.dump(2));
}

void run(const settings& flags) {
  const auto& folder = flags.folder;
  make_certificates(folder, flags.options);
  if (flags.json)
    return print_json(flags);
  fmt::print(
    "{0}: authority.pem, member.pem and member.key, valid for {1} days\nCopy "
    "the folder with these three files to every machine of the job, its mode "
    "700 and that of member.key 600 (scp -rp does so). Any process "
    "with member.key can join the job.\n",
    folder, flags.options.days);
  if (flags.options.keep_authority_key)
    fmt::print(
      "Keep {0}/authority.key on this machine only: it creates further members "
      "with `troupe certificates OTHER --authority {0}`.\n",
      folder);
}

}  // namespace

void add_certificates_command(CLI::App* command) {
  const auto flags = std::make_shared<settings>();
  add_value(
    *command, "folder DIR", flags->folder,
    "output folder; created if missing, existing files are never overwritten")
    ->required();
  add_value(*command, "--days N", flags->options.days,
            "validity of the certificates, in days", whole_number(1, 3650))
    ->capture_default_str();
  command->add_flag("--keep-authority-key", flags->options.keep_authority_key,
                    "also write authority.key, which is needed to create more "
                    "member certificates");
  add_value(*command, "--authority DIR", flags->options.authority,
            "create another member certificate, signed by the authority in "
            "this folder");
  command->add_flag("--json", flags->json,
                    "print folder, files and days as JSON");
  command->footer("Example:\n  troupe certificates job-certificates --days 30");
  command->callback([flags] {
    drop_closed_output();
    run(*flags);
  });
}

}  // namespace troupe::cli
