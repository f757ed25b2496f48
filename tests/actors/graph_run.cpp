#include "graph_run.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <cmath>
#include <sstream>

#include "captured_log.hpp"
#include "faked_accelerator.hpp"
#include "faked_graph.hpp"

namespace troupe::testing {

namespace {

/// Compares bits, so that infinities and NaN count as equal too.
bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size()
         && std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
              return x == y || (std::isnan(x) && std::isnan(y));
            });
}

}  // namespace

parameter_list copies_of(const parameter_list& parameters) {
  parameter_list copies;
  for (const auto& [name, value] : parameters)
    copies.emplace_back(name, value.detach().clone());
  return copies;
}

graph_run::graph_run(const small_case& of)
  : what(of), options(options_for(of)) {}

void graph_run::fail_recorded_forward(int n) {
  auto recorded = std::make_shared<std::atomic<int>>(0);
  options.numerics.loss = [=, inner = options.numerics.loss](
                            const tensor_list& outputs,
                            const microbatch_data& data) {
    if (recorded_with(current_stream) != 0 && (*recorded)++ == n)
      throw std::runtime_error("not while it is recorded");
    return inner(outputs, data);
  };
}

graph_run::outcome graph_run::run(
  const std::shared_ptr<faked_accelerator>& device) const {
  auto run_options = options;
  if (device)
    run_options.devices = {device};
  run_options.cuda_graphs = device != nullptr;
  trainer training(model_for(what), run_options);
  outcome done;
  if (auto watching = watcher; !watching.name.empty()) {
    watching.see = [&done](const event& event) {
      if (const auto* step = std::get_if<step_event>(&event))
        done.received.steps[step->source.step].push_back(*step);
      else
        ++done.received.others[source_of(event).step];
    };
    training.attach(std::move(watching));
  }
  for (std::int64_t step = 1; step <= steps; ++step) {
    if (before)
      done.others.push_back(before(training, step));
    const auto report = training.step(source, step == skip).summary;
    done.losses.push_back(report.losses.at(0).value);
    done.norms.push_back(report.gradient_norm);
    done.scales.push_back(report.loss_scale);
    done.tokens.push_back(report.tokens);
    done.skipped += report.updated ? 0 : 1;
  }
  training.check_replicas();
  training.finish_monitors();
  done.parameters = copies_of(training.parameters());
  return done;
}

graph_run::events graph_run::compare(const counts& expected) {
  INFO(describe(what));
  const auto usual = run(nullptr);
  const auto device = std::make_shared<faked_accelerator>();
  const captured_log log;
  launched = run(device);
  warnings = log.text();
  CHECK(first_difference(usual.parameters, launched.parameters) == "");
  CHECK(same(usual.losses, launched.losses));
  CHECK(same(usual.norms, launched.norms));
  CHECK(same(usual.scales, launched.scales));
  CHECK(same(usual.others, launched.others));
  CHECK(usual.tokens == launched.tokens);
  CHECK(usual.skipped == launched.skipped);
  CHECK(device->recordings() == expected.recordings);
  CHECK(device->launches() == expected.launches);
  if (!may_race)
    CHECK(device->races() == std::vector<std::string>{});
  CHECK(warnings.empty() == (expected.launches > 0));
  return launched.received;
}

}  // namespace troupe::testing
