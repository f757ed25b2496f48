#include "troupe/actors/trainer_state.hpp"

#include <algorithm>
#include <utility>

#include "troupe/actors/job/hosting.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/engine/stage/update/gradient_mean.hpp"
#include "troupe/engine/stage/update/parameter_groups.hpp"
#include "troupe/engine/transport/wire.hpp"

namespace troupe {

namespace {

bool computes_losses(const model& layers, layer_range stage) {
  return stage.last == std::ssize(layers)
         || std::any_of(layers.begin() + stage.first,
                        layers.begin() + stage.last,
                        [](const layer& each) { return !!each.loss; });
}

/// Null: tensors between processes go by way of the host, or there are none.
std::shared_ptr<device_links> links_of(const trainer_setup& setup,
                                       const job_layout& layout,
                                       const plan& training,
                                       const run_devices& devices) {
  const auto& options = setup.options;
  if (!setup.job() || options.devices.empty() || !options.device_links)
    return nullptr;
  return std::make_shared<device_links>(
    layout, setup.places(), edges_between_ranks(training),
    holding_stages(setup.ties, setup.ranges), setup.shards(), devices,
    gradient_mean(options.data_parallel, options.numerics.division),
    options.execution.limits.stall);
}

/// What the leading process announces to all before a step.
struct step_changes {
  bool regroups = false;
  std::vector<std::int32_t> hosting;  // empty: as it is
};
TROUPE_FIELDS(step_changes, regroups, hosting)

pipeline_options running(const trainer_setup& setup, const model& layers,
                         const run_plans& plans, const held_stages& stages,
                         std::shared_ptr<device_links> links,
                         std::shared_ptr<state_copies> kept) {
  const auto& options = setup.options;
  pipeline_options of_run;
  of_run.places = setup.places();
  of_run.job = options.job;
  of_run.hosting = setup.layout.hosting;
  of_run.plans = plans.of_job();
  of_run.stages = stages.stages();
  of_run.ties = holding_stages(setup.ties, setup.ranges);
  of_run.devices = stages.devices();
  of_run.links = std::move(links);
  for (std::int32_t s = 0; s < setup.places().stages(); ++s)
    of_run.needs_data.push_back(reads_microbatch(layers, setup.ranges, s)
                                || stages.reads_data(s));
  for (const auto& range : setup.ranges)
    of_run.has_losses.push_back(computes_losses(layers, range));
  of_run.counter = item_counter_of(layers, options.numerics);
  of_run.arithmetic = options.numerics;
  of_run.sharding = options.sharding;
  of_run.execution = options.execution;
  if (options.healing.rejoin)
    of_run.kept = std::move(kept);
  of_run.heals_ops = options.healing.heals_ops;
  return of_run;
}

}  // namespace

trainer::impl::impl(const model& all_layers, trainer_options options)
  : layers(all_layers),
    setup(layers, std::move(options)),
    plans(setup),
    stages(setup, layers, *plans.training()),
    links(links_of(setup, setup.layout, *plans.training(), stages.devices())),
    actors(running(setup, layers, plans, stages, links, kept)),
    generator(setup, plans, stages, actors),
    scale(setup.options.numerics.loss_scale),
    epoch(setup.options.healing.epoch) {
  stages.publish_to(actors.tensor_outlet());
  const auto met_at = now_ns();
  if (!meets())
    rejoin({});
  else if (epoch > 1)
    note_epoch(epoch, static_cast<double>(now_ns() - met_at) * 1e-9);
  if (setup.options.cuda_graphs)
    graphs = std::make_unique<graph_steps>(
      graph_steps_setup{&actors, plans.training(), stages.devices(),
                        stages.stages(), setup.options.execution.loading,
                        item_counter_of(layers, setup.options.numerics),
                        setup.options.numerics.seed});
}

void trainer::impl::meet() {
  auto* const job = setup.job();
  if (links)
    links->connect(*job);
  require_same_split(job, setup.ranges);
  require_matching(job, stages.parameters_here(), setup.groups);
  names = names_of_all(job, stages.names());
  parameter_count = count_parameters(job, stages.parameters_here());
  announce_pending();
  last_copied.reset();
  copied = -1;
  const auto from = find_recovery();
  recovered = from.has_value();
  moved_bytes = from ? from->moved_bytes : 0;
  if (!from)
    return;
  stages.recover(*from, *kept);
  set_progress(from->progress);
  kept->forget_after(step);
  std::erase_if(outcomes, [this](const step_event& each) {
    return each.source.step > step;
  });
}

run_progress trainer::impl::progress() const {
  const auto& now = scale.progress();
  return {.step = step,
          .microbatches = position,
          .loss_scale = now.value,
          .good_steps = now.good_steps,
          .skipped = now.skipped};
}

void trainer::impl::set_progress(const run_progress& now) {
  step = now.step;
  position = now.microbatches;
  scale.restore({now.loss_scale, now.good_steps, now.skipped});
}

step_settings trainer::impl::next_settings() const {
  const auto& numerics = setup.options.numerics;
  step_settings settings;
  settings.step = step + 1;
  settings.learning_rate = numerics.learning_rate.at(
    scale.next_update(settings.step), base_learning_rate(numerics.optimizer));
  settings.loss_scale = scale.value();
  settings.first_microbatch = position;
  return settings;
}

void trainer::impl::require_movable(const job_layout& next) const {
  if (const auto wanted = links_of(setup, next, *plans.training(), {}))
    wanted->require_one_member_each();
}

void trainer::impl::take_up_changes() {
  auto* const job = setup.job();
  if (!plans.take_up(step + 1) || !job)
    return;
  std::unique_lock lock(hosting_mutex);
  const auto wanted =
    to_wire(step_changes{regroups(), std::exchange(next_hosting, {})});
  lock.unlock();
  const auto changes =
    from_wire<step_changes>(job->share({frame_type::mail, wanted, {}}).head);
  if (!changes.hosting.empty() && changes.hosting != setup.layout.hosting)
    rehost(changes.hosting);
  if (changes.regroups)
    meet_again();
}

/// The states here are those of one step in all processes.
void trainer::impl::meet_again() {
  ending_epoch = epoch.load();
  keep_states();
  fail(error_code::transport, "the processes of the job meet again");
}

pipeline_options trainer::impl::relinked() {
  links = links_of(setup, setup.layout, *plans.training(), stages.devices());
  return running(setup, layers, plans, stages, links, kept);
}

/// The stages that stay keep their modules; all actors and links are to be new.
void trainer::impl::change_layout(std::vector<std::int32_t> hosting) {
  auto next = setup.layout_with(std::move(hosting));
  const auto before = setup.layout;
  {
    const std::scoped_lock lock(hosting_mutex);
    setup.layout = std::move(next);
  }
  stages.take_up(before, layers, *plans.training());
}

void trainer::impl::take_hosting(std::vector<std::int32_t> hosting) {
  change_layout(std::move(hosting));
  actors.rehost(relinked());
  stages.publish_to(actors.tensor_outlet());
  if (links)
    links->connect(*setup.job());
}

void trainer::impl::rehost(std::vector<std::int32_t> hosting) {
  const auto began = now_ns();
  auto next = setup.layout_with(std::move(hosting));
  const auto moved = moves_between(setup.layout, next);
  const auto before = setup.layout;
  stages.send_leaving(next);
  take_hosting(std::move(next.hosting));
  stages.receive_arrived(before);
  ++rehosted;
  if (setup.layout.process == 0)
    log()->info("step {}: {} in {:.3g} s", step + 1, moved,
                static_cast<double>(now_ns() - began) * 1e-9);
}

/// Recorded steps are launched from this thread.
step_report trainer::impl::run(const step_settings& settings,
                               const source_pointer& source) {
  const compute_scope computes(setup.options.execution.intra_op_threads);
  auto report = graphs ? graphs->run(settings, source)
                       : actors.run(settings, plans.training(), source);
  note(report);
  remember(report.summary);
  return report;
}

void trainer::impl::publish(event what) {
  if (setup.layout.process == 0)
    actors.publish(std::move(what));
}

void trainer::impl::note(const step_report& report) {
  plans.note_announced(report.changes);
  saves |= report.saves;
  requests = {};
}

}  // namespace troupe
