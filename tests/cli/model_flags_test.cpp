#include "troupe/cli/model_flags.hpp"

#include <CLI/CLI.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../files.hpp"
#include "tiny_training.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Registers a model for one test, as a user's program would.
struct own_model {
  own_model() {
    registered_models().push_back(
      {"own",
       "no layers at all",
       {{"noise", "added to weights", 0.5, 0., 2.},
        {"layers", "unused", 8, 1, 9}},
       [](const auto&, const auto&) { return built_model{}; }});
  }
  ~own_model() { registered_models().pop_back(); }
};

}  // namespace

TEST_CASE("the options of a model that is added become flags") {
  const own_model added;
  CLI::App app;
  app.option_defaults()->always_capture_default();
  cli::model_flags flags;
  cli::add_model_flags(app, flags);
  CHECK_THAT(app.help(), ContainsSubstring("no layers at all")
                           && ContainsSubstring("Model: own:\n  --noise FLOAT")
                           && ContainsSubstring("Model: gpt, u_net, own:"));
  CHECK(cli::flags_of_other_models(flags) == std::vector<std::string>{"noise"});
  app.parse("--model own --noise 1.5 --layers 3");
  CHECK(flags.name == "own");
  CHECK(std::get<double>(flags.values.at("noise")) == 1.5);
  CHECK(whole(flags.values, "layers") == 3);
  CHECK(cli::flags_of_other_models(flags)
        == std::vector<std::string>{"d-model", "dropout", "heads",
                                    "tie-embeddings"});
  CHECK_THROWS_AS(app.parse("--noise 3"), CLI::ValidationError);
}

TEST_CASE("a U-Net trains to the same bytes in a pipeline and plainly") {
  const tiny_training at;
  const auto a = at.folder / "a", b = at.folder / "b";
  CHECK(at.train("--model u_net --plain --save-parameters " + a).exit_code
        == 0);
  CHECK(at.train("--model u_net --ranks 3 --save-parameters " + b).exit_code
        == 0);
  CHECK(content(a) == content(b));
  const auto unknown = at.train("--model v_net");
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.output,
             ContainsSubstring("called v_net; did you mean u_net?"));
}
