#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/cli/plan/usual.hpp"

namespace troupe::cli {

/// The flags of `troupe train`; a TOML file's keys are the long flags.
struct train_options {
  // data
  std::vector<std::string> text;
  std::string text_format = "auto";
  std::int64_t vocabulary = 256;
  std::int64_t microbatch_size = 4;
  std::int64_t seq = 128;
  double validation_fraction = 0.05;
  std::int64_t validation_microbatches = 16;
  std::int64_t validate_every = 0;
  std::int32_t prefetch = 2;
  double slow_load = 1;
  // model
  std::int64_t d_model = 256;
  std::int64_t layers = 8;
  std::int64_t heads = 8;
  std::string initial;
  // pipeline
  std::int32_t ranks = usual_shape.ranks;
  std::int32_t stages_per_rank = usual_shape.stages_per_rank;
  std::int32_t data_parallel = 1;
  std::string schedule = usual_schedule;
  std::string plan;  // empty: compiled from the schedule
  std::int32_t microbatches = usual_shape.microbatches;
  std::int32_t breadth = 0;
  std::string split = "even";
  bool recompute = false;
  std::int32_t threads = 1;
  std::string device = "cpu";
  std::string overlap = "all";
  bool cuda_graphs = false;
  bool deterministic = false;
  bool plain = false;
  // optimisation
  std::int64_t steps = 100;
  std::string optimizer = "adamw";
  double lr = -1;  // below 0: the optimizer's default
  double momentum = 0;
  double weight_decay = -1;
  std::int64_t warmup = 0;
  std::string decay = "constant";
  double final_lr = 0.1;
  double clip = 0;
  double loss_scale = 1;
  bool dynamic_loss_scale = false;
  std::string autocast = "none";
  std::uint64_t seed = 1;
  bool halt_on_nan = false;
  bool ready_first = false;
  // output
  std::string log_level = "info";
  std::string trace;
  std::string timeline;
  std::string log_json;
  std::vector<std::string> monitor;
  std::vector<std::string> sink;
  std::string save_initial;
  std::string save_parameters;
  std::int64_t sample = 0;
  std::string prompt = "And ";
  double temperature = 0.8;
  // attaching during the run
  std::string endpoint;  // empty: the default one
  std::string endpoint_token_file;
  std::string dashboard;  // empty: none
  std::string dashboard_token_file;
  // processes of a job
  std::string rendezvous;  // empty: from the launcher
  std::string listen;      // empty: the address towards process 0
  std::string announce;    // empty: where it listens
  std::string link = "auto";
  std::string job_token_file;
  std::string certificates;
  bool insecure = false;
  double patience = 60;  // seconds
  bool print_config = false;
  bool dry_run = false;
};

/// Declares the flags, with their help, on a subcommand.
void add_train_flags(CLI::App& app, train_options& options);

}  // namespace troupe::cli
