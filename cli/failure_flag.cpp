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
      "what a job that heals does when a process is lost: rehost (others take "
      "its ranks), restart (they wait for it to be started again, in "
      "restart:10/10min:30s for at most 30 s), stop; and when an op fails: "
      "stop, "
      "retry (the step runs again), rehost (elsewhere). :10/10min: at most 10 "
      "times within 10 min; one more, and the job stops. For an op the default "
      "limit is 3/10min")
    ->check(legal)
    ->type_name("WHAT=HOW,...")
    ->default_str(membership::to_text(policy));
}

}  // namespace troupe::cli
