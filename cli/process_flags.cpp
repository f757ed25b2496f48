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
                "where process 0 is met: HOST:PORT or unix:PATH; else as the "
                "launcher says, or on one machine in a folder of your own")
    ->default_str(description("the launcher's"));
  app
    .add_option("--listen", o.joining.listens,
                "where this process takes the others' tensors: HOST:PORT, over "
                "TCP; else its address towards process 0, at any port")
    ->default_str(description("its address towards process 0, any port"));
  app
    .add_option("--announce", o.joining.announced,
                "where the others reach --listen, if elsewhere: HOST:PORT of a "
                "relay, or of a container's machine")
    ->default_str(description("where it listens"));
  app
    .add_option("--link", o.link,
                "how tensors travel between processes of one machine: socket, "
                "shared (memory), or auto")
    ->check(CLI::IsMember({"auto", "socket", "shared"}));
  app.add_option(
    "--job-token-file", o.token_file,
    "a file with the job's secret; over TCP this or --certificates "
    "is required");
  app.add_option(
    "--certificates", o.joining.shown.certificates,
    "the folder of `troupe certificates`, for TLS between machines");
  app.add_flag("--insecure", o.joining.shown.insecure,
               "plain text, and whoever comes is let in: for networks of your "
               "own alone");
  app
    .add_option("--patience", o.patience,
                "seconds for all processes to come together")
    ->check(number_above(0, 1e6));
}

}  // namespace troupe::cli
