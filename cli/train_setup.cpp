#include "troupe/cli/train_setup.hpp"

#include <ATen/ops/zeros.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "troupe/base/error.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/cli/plan/schedule_options.hpp"
#include "troupe/cli/train_devices.hpp"
#include "troupe/cli/train_output.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/engine/launch/environment.hpp"
#include "troupe/engine/plan/part.hpp"
#include "troupe/engine/plan/plan_text.hpp"
#include "troupe/engine/stage/split.hpp"
#include "troupe/schedules/find_schedule.hpp"

namespace troupe::cli {

namespace {

std::shared_ptr<const token_source> open_text(const train_options& o) {
  static const std::map<std::string, token_format> formats = {
    {"bytes", token_format::bytes},
    {"llm_c", token_format::llm_c},
    {"nano_gpt", token_format::nano_gpt},
    {"npy", token_format::npy}};
  if (o.text.empty())
    fail(error_code::invalid_argument,
         "no text to train on; give --text FILE (any file will do)");
  std::vector<std::shared_ptr<const token_source>> parts;
  for (const auto& path : o.text)
    parts.push_back(o.text_format == "auto"
                      ? open_tokens(path)
                      : open_tokens(path, formats.at(o.text_format)));
  return join_tokens(std::move(parts));
}

void require_in_vocabulary(const token_source& tokens,
                           std::int64_t vocabulary) {
  const auto at = first_outside(tokens, vocabulary);
  if (at < 0)
    return;
  std::int64_t id = 0;
  tokens.read(at, 1, &id);
  if (id < 0)
    fail(error_code::invalid_data,
         "{}: token {} has the id {}; ids are numbers from 0 up", tokens.name(),
         at, id);
  fail(error_code::invalid_data,
       "{}: token {} has the id {}, which is beyond the vocabulary of {}; "
       "give --vocabulary {} or more",
       tokens.name(), at, id, vocabulary, id + 1);
}

std::vector<std::int32_t> parse_counts(const std::string& text) {
  std::vector<std::int32_t> counts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    const auto count = parse_number<std::int32_t>(part);
    if (!count)
      fail(error_code::invalid_argument,
           "--split '{}': '{}' is no number of layers; give even, parameters, "
           "measured, or a list such as 5,5 (the layers are the embeddings, "
           "the blocks and the head)",
           text, part);
    counts.push_back(*count);
  }
  return counts;
}

stage_split split_for(const train_options& o, const gpt_options& sizes,
                      std::int32_t stages) {
  if (o.split == "even")
    return split_gpt(sizes, stages);
  const auto layers = gpt(sizes);
  if (o.split == "parameters")
    return split(layers, stages);
  if (o.split == "measured")
    return split_by_cost(
      measured_costs(layers,
                     {at::zeros({o.microbatch_size, o.seq}, at::kLong)}),
      stages);
  auto made = split_by_hand(static_cast<std::int32_t>(layers.size()),
                            parse_counts(o.split));
  if (static_cast<std::int32_t>(made.size()) != stages)
    fail(error_code::invalid_argument,
         "--split gives {} stages, the schedule has {}", made.size(), stages);
  return made;
}

optimizer_options optimizer_for(const train_options& o) {
  if (o.optimizer == "sgd") {
    sgd made;
    made.learning_rate = o.lr < 0 ? made.learning_rate : o.lr;
    made.momentum = o.momentum;
    made.weight_decay = std::max(o.weight_decay, 0.0);
    return made;
  }
  adamw made;
  if (o.momentum > 0)
    spdlog::warn("--momentum {} has no effect with --optimizer adamw",
                 o.momentum);
  made.learning_rate = o.lr < 0 ? made.learning_rate : o.lr;
  made.weight_decay = o.weight_decay < 0 ? made.weight_decay : o.weight_decay;
  return made;
}

learning_rate_schedule learning_rate_for(const train_options& o) {
  using shape = learning_rate_schedule::shape;
  learning_rate_schedule made;
  made.decay = o.decay == "cosine"   ? shape::cosine
               : o.decay == "linear" ? shape::linear
                                     : shape::constant;
  made.warmup_steps = o.warmup;
  made.total_steps = o.steps;
  made.final_fraction = o.final_lr;
  return made;
}

/// Warns of given flags that have no effect.
void warn_of_idle_flags(const train_options& o) {
  const train_options unchanged;
  const auto warn = [](const char* flag, const char* without) {
    spdlog::warn("{} has no effect without {}", flag, without);
  };
  if (o.final_lr != unchanged.final_lr && o.decay == "constant")
    warn("--final-lr", "--decay cosine or linear");
  if (o.temperature != unchanged.temperature && o.sample == 0)
    warn("--temperature", "--sample");
  if (o.prompt != unchanged.prompt && o.sample == 0)
    warn("--prompt", "--sample");
}

/// Called before a schedule of that size is made.
void require_enough_layers(const train_options& o) {
  const auto stages = std::int64_t{o.ranks} * o.stages_per_rank;
  const bool even = o.split == "even";
  const auto most = o.layers + (even ? 0 : 2);
  if (sizes_file(o).empty() && stages > most)
    fail(error_code::invalid_argument,
         "{} blocks{} can't be cut into {} stages ({} ranks x {} stages a "
         "rank); use at most {} stages or more blocks (--layers)",
         o.layers, even ? "" : ", the embeddings and the head", stages, o.ranks,
         o.stages_per_rank, most);
}

/// Counts values and gradients only: updates and activations need more. This
/// machine holds its processes' share of the job's.
void require_memory(const train_options& o, const gpt_options& sizes) {
  constexpr double gib = 1 << 30;
  const auto place = read_environment();
  const auto parameters = parameter_count(sizes);
  const auto bytes = 8.0 * parameters * o.data_parallel * place.local_processes
                     / place.processes;
  const auto there = static_cast<double>(physical_bytes());
  if (there > 0 && bytes > there)
    fail(error_code::invalid_argument,
         "the model has {:.3g} parameters; with their gradients {} of {} "
         "processes with {} replicas need {:.3g} GiB, and this machine has "
         "{:.3g}; use a smaller --d-model, --layers, --vocabulary, --seq or "
         "--data-parallel, or more machines",
         parameters, place.local_processes, place.processes, o.data_parallel,
         bytes / gib, there / gib);
}

/// Each rank of this process is a thread.
void require_threads(const train_options& o, std::int32_t ranks) {
  constexpr std::int64_t most = 1024;
  const auto processes = read_environment().processes;
  if (std::int64_t{ranks} * o.data_parallel > most * processes)
    fail(error_code::invalid_argument,
         "{} ranks x {} replicas in {} processes are more than {} threads "
         "each; use fewer --ranks or a smaller --data-parallel, or more "
         "processes",
         ranks, o.data_parallel, processes, most);
}

void require_known_prompt(const train_options& o) {
  if (o.sample > 0 && !tokens_are_text(o)) {
    prompt_ids(o);
    return;
  }
  for (const auto c : o.prompt)
    if (o.sample > 0 && static_cast<unsigned char>(c) >= o.vocabulary)
      fail(error_code::invalid_argument,
           "--prompt '{}' has a byte beyond the vocabulary of {}", o.prompt,
           o.vocabulary);
}

void add_data(train_setup& setup, const train_options& o) {
  const auto tokens = open_text(o);
  require_in_vocabulary(*tokens, o.vocabulary);
  text_batch_options batches;
  batches.rows = o.microbatch_size;
  batches.length = o.seq;
  batches.seed = o.seed;
  batches.vocabulary = o.vocabulary;
  const auto held_out = static_cast<std::int64_t>(
    static_cast<double>(tokens->size()) * o.validation_fraction);
  const auto kept = tokens->size() - held_out;
  setup.training = text_batches(part_of(tokens, 0, kept), batches);
  const auto needed = o.microbatch_size * o.seq + 1;
  if (held_out < needed)
    return;  // too little for one microbatch: no validation
  batches.shuffle = false;
  setup.validation = text_batches(part_of(tokens, kept, held_out), batches);
  const auto there = std::max<std::int64_t>(1, (held_out - 1) / (needed - 1));
  const auto wanted = std::min(o.validation_microbatches, there);
  // Rounded for the plain loop, too, so that both give the same result.
  const auto at_once =
    std::int64_t{setup.trainer.schedule.microbatches} * o.data_parallel;
  setup.validation_microbatches = (wanted + at_once - 1) / at_once * at_once;
}

}  // namespace

std::string sizes_file(const train_options& o) {
  return !o.plan.empty() ? o.plan : names_file(o.schedule) ? o.schedule : "";
}

train_setup make_setup(const train_options& o) {
  train_setup setup;
  setup.gpt = {o.d_model, o.layers, o.heads, o.seq, o.vocabulary, o.seed};
  require_enough_layers(o);
  if (sizes_file(o).empty())
    require_threads(o, o.ranks);
  require_memory(o, setup.gpt);
  require_known_prompt(o);
  auto& run = setup.trainer;
  if (!o.plan.empty()) {
    run.plan = std::make_shared<const plan>(plan_from_file(o.plan));
    run.schedule = schedule_of(*run.plan);
  } else
    run.schedule = find_schedule(
      o.schedule, {o.ranks, o.stages_per_rank, o.microbatches, o.breadth});
  require_threads(o, run.schedule.ranks());
  warn_of_breadth(o.plan.empty() ? o.schedule : o.plan, o.breadth);
  warn_of_idle_flags(o);
  run.split = split_for(o, setup.gpt, run.schedule.stages());
  run.data_parallel = o.data_parallel;
  run.optimizer = optimizer_for(o);
  run.learning_rate = learning_rate_for(o);
  run.loss_scale = {o.loss_scale, o.dynamic_loss_scale};
  run.clip = o.clip;
  if (o.autocast != "none")
    run.autocast = o.autocast == "bf16" ? at::kBFloat16 : at::kHalf;
  run.recompute = o.recompute;
  run.halt_on_nan = o.halt_on_nan;
  if (o.ready_first)
    run.order = lane_order::ready_first;
  run.intra_op_threads = o.threads;
  run.overlap = overlap_of(o);
  run.cuda_graphs = o.cuda_graphs;
  // Loading ahead is overlap, too.
  run.prefetch = run.overlap.data ? o.prefetch : 0;
  run.slow_load_seconds = o.slow_load;
  add_data(setup, o);
  return setup;
}

}  // namespace troupe::cli
