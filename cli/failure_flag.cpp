#include "troupe/cli/failure_flag.hpp"

#include <CLI/CLI.hpp>

#include <string>

#include "troupe/base/error.hpp"
#include "troupe/engine/membership/failure_text.hpp"

namespace troupe::cli {

void add_failure_flag(CLI::App& app, membership::failure_policy& policy) {
  const CLI::Validator legal{[](const std::string& text) {
                               try {
                                 membership::parse_failure_policy(text);
                                 return std::string{};
                               } catch (const error& reason) {
                                 return std::string(reason.what());
                               }
                             },
                             ""};
  app
    .add_option_function<std::string>(
      "--on-failure",
      [&policy](const std::string& text) {
        policy = membership::parse_failure_policy(text);
      },
      "what a job that heals does when a process is lost or an op fails: "
      "process=rehost (others take its ranks), restart (they wait until its "
      "launcher has started it again; restart:10/10min:30s: for at most 30 s) "
      "or stop; op=stop, retry (the step runs again) or rehost (elsewhere). "
      "rehost:10/10min: at most 10 times within 10 min (s, min or h); one "
      "more, "
      "and the job stops. Without a limit it is 10/10min for processes, "
      "3/10min for ops")
    ->check(legal)
    ->type_name("WHAT=HOW,...")
    ->default_str(membership::to_text(policy));
}

}  // namespace troupe::cli
