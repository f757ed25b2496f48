#include "troupe/cli/process_flags.hpp"

#include <CLI/CLI.hpp>

#include "troupe/cli/config_file.hpp"
#include "troupe/cli/plan/checks.hpp"

namespace troupe::cli {

void add_process_flags(CLI::App& app, process_options& o) {
  app.option_defaults()->group(
    "Several processes (RANK and WORLD_SIZE are read)");
  app
    .add_option("--rendezvous", o.joining.rendezvous,
                "address of process 0: HOST:PORT or unix:PATH; by default from "
                "the launcher, or on one machine a private folder")
    ->default_str(description("the launcher's"));
  app
    .add_option("--listen", o.joining.listens,
                "where this process receives tensors: HOST:PORT, over TCP; by "
                "default its address towards process 0, any port")
    ->default_str(description("its address towards process 0, any port"));
  app
    .add_option("--announce", o.joining.announced,
                "address under which others reach --listen, if different: "
                "HOST:PORT of a relay, or of a container's host")
    ->default_str(description("where it listens"));
  app
    .add_option("--link", o.link,
                "transport between processes of one machine: socket, shared "
                "(memory), or auto")
    ->check(CLI::IsMember({"auto", "socket", "shared"}));
  app.add_option(
    "--job-token-file", o.token_file,
    "file with the job's secret; TCP requires this or --certificates");
  app.add_option(
    "--certificates", o.joining.shown.certificates,
    "folder made by `troupe certificates`, for TLS between machines");
  app.add_flag(
    "--insecure", o.joining.shown.insecure,
    "no encryption and no authentication: only for private networks");
  app
    .add_option("--patience", o.patience,
                "seconds to wait for all processes at the start")
    ->check(number_above(0, 1e6));
}

}  // namespace troupe::cli
