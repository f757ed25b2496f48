#pragma once

#include <c10/core/ScalarType.h>
#include <spdlog/common.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/step/execution_options.hpp"
#include "troupe/cli/model_flags.hpp"
#include "troupe/cli/optimizer_flags.hpp"
#include "troupe/cli/plan/fwd.hpp"
#include "troupe/cli/plan/schedule_options.hpp"
#include "troupe/cli/trust_flags.hpp"
#include "troupe/engine/checkpoint/checkpoint_folder.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/data/token_file.hpp"
#include "troupe/engine/generation/sampling.hpp"
#include "troupe/engine/launch/job.hpp"
#include "troupe/engine/stage/numerics.hpp"
#include "troupe/engine/stage/parameters/sharding.hpp"
#include "troupe/training/run_monitors.hpp"

namespace troupe::cli {

struct data_options {
  std::vector<std::string> text;
  std::optional<token_format> format;   // none: by each file
  std::vector<std::string> loss_mask;   // one file per text; empty: none
  std::int64_t document_end = -1;       // a token; -1: none
  bool predicts_next_document = false;  // from that token
  std::vector<double> mix;  // one weight per text; empty: one after the other
  text_batch_options batches;
  double validation_fraction = 0.05;
  std::int64_t validation_microbatches = 16;
  std::int64_t eval_every = 0;
};

/// The value of --shard.
struct shard_flag {
  shard_mode mode = shard_mode::replicate;
  bool within_groups = false;  // "hybrid"

  bool operator==(const shard_flag&) const = default;
};

/// The model's split, and the order in which its parts run.
struct partition_options {
  schedule_shape shape = usual_shape;
  std::int32_t data_parallel = 1;
  shard_flag shard{};
  sharding_options sharding{};  // without the mode
  std::string division = "mean";
  std::string schedule{};  // empty: the default
  search_inputs searching{};
  std::string plan;  // empty: compiled from the schedule
  offload_flags offload{};
  std::string split = "even";
};

struct device_options {
  std::string device = "cpu";
  std::string overlap = "all";
  bool cuda_graphs = false;
  bool deterministic = false;
};

/// The options from which `numerics` follow once the model and the schedule are
/// known.
struct optimisation_options {
  optimizer_flags optimizer;
  std::string min_lr{};  // empty: by --final-lr
};

struct output_options {
  spdlog::level::level_enum log_level = spdlog::level::info;
  std::string profile;            // empty: none
  std::int64_t profile_from = 3;  // a step of this run, from 1
  std::int64_t profile_steps = 2;
  std::string save_initial;
  std::string save_parameters;
  std::string save_model;                    // a folder
  std::optional<at::ScalarType> save_dtype;  // none: that of --model
  std::uint64_t shard_bytes = 5'000'000'000;
  std::string save_adapter;  // a folder
  std::string prompt = "And ";
  std::int64_t sample = 0;  // tokens
  sampling_options sampling{};
};

/// The order in which ranks start their ops.
struct order_options {
  std::string replay;
  std::string slow;  // entries
  std::int64_t slow_from = 1;
  std::int64_t replan_every = 0;  // steps; 0: only on request
};

/// Saving a run, and resuming it.
struct checkpoint_options {
  std::string folder;      // empty: nothing is saved
  std::int64_t every = 0;  // steps; 0: only at the end
  kept_checkpoints kept{};
  std::string resume;  // empty, "auto" or a path
  double grace = 0;    // seconds from a signal to the end of the process
};

/// Attaching during the run.
struct access_options {
  std::string endpoint;  // empty: the default one
  std::string endpoint_token_file, endpoint_control_token_file;
  std::string attach_folder;  // empty: attached monitors write no files
  std::string dashboard;      // empty: none
  std::string dashboard_token_file;
  std::string dashboard_save;  // a file for the last page
  std::string run_name;        // empty: of the checkpoints' or current folder
};

/// Processes of a job.
struct process_options {
  job_options joining;
  line_kind link = line_kind::socket;
  std::vector<std::int32_t> hosting{};  // the process of each rank
  trust_flags trust;
  double patience = 60;  // seconds
};

/// A job that goes on when a process is lost.
struct healing_flags {
  bool heals = false;
  std::int64_t snapshot_every = 1;  // steps
  bool rebalances = false;          // by itself
  std::string joins{};      // the endpoint of a job that runs; empty: none
  std::string authority{};  // its address; empty: as the launcher says
};

/// The flags of `troupe train`; a TOML file's keys are the long flags.
struct train_options {
  data_options data;
  model_flags model;
  partition_options partition;
  order_options order;
  device_options devices;
  optimisation_options optimisation;
  troupe::numerics numerics{.dtypes = {.parameters = at::kFloat}};
  execution_options execution;
  monitoring_options monitoring;  // without the progress
  output_options output;
  checkpoint_options checkpoints;
  access_options access;
  process_options processes;
  healing_flags healing;
  std::int64_t steps = 100;
  std::int64_t epochs = 0;  // replaces steps; 0: none
  std::string config;
  bool plain = false;
  bool print_config = false;
  bool dry_run = false;
  bool json = false;  // for the dry run
};

/// Declares the flags, with their help, on a subcommand.
void add_train_flags(CLI::App& app, train_options& options);

/// Declares --log-level.
void add_log_level(CLI::App& app, output_options& options);

/// Declares, in a group of their own, the flags of commands that several
/// processes run together.
void add_process_flags(CLI::App& app, process_options& options);

}  // namespace troupe::cli
