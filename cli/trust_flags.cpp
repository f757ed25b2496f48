#include "troupe/cli/trust_flags.hpp"

#include <CLI/CLI.hpp>

#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/transport/trust/secret_file.hpp"
#include "troupe/engine/transport/trust/tls_context.hpp"

namespace troupe::cli {

void add_trust_flags(CLI::App& app, trust_flags& flags) {
  app.add_option(
    "--job-token-file", flags.token_file,
    "file with the job's secret; TCP requires this or --certificates");
  app.add_option(
    "--certificates", flags.shown.certificates,
    "folder made by `troupe certificates`, for TLS between machines");
  app.add_flag(
    "--insecure", flags.shown.insecure,
    "no encryption and no authentication: only for private networks");
}

void require_trust(const trust_flags& flags) {
  std::vector<const char*> ways;
  if (!flags.token_file.empty())
    ways.push_back("--job-token-file");
  if (!flags.shown.certificates.empty())
    ways.push_back("--certificates");
  if (flags.shown.insecure)
    ways.push_back("--insecure");
  if (ways.size() > 1)
    fail(error_code::invalid_argument,
         "{} and {} contradict each other: processes trust each other in one "
         "way; give one of the two",
         ways[0], ways[1]);
  credentials_of(flags);
  if (!flags.shown.certificates.empty())
    tls_context::of_certificates(flags.shown.certificates);
}

credentials credentials_of(const trust_flags& flags) {
  auto shown = flags.shown;
  if (!flags.token_file.empty())
    shown.token = read_secret(flags.token_file);
  return shown;
}

}  // namespace troupe::cli
