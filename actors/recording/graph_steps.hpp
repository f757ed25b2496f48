#pragma once

#include <memory>
#include <vector>

#include "troupe/actors/pipeline/pipeline.hpp"
#include "troupe/engine/device/accelerator.hpp"
#include "troupe/engine/stage/module/loss_items.hpp"

namespace troupe {

class loader_core;

struct graph_steps_setup {
  pipeline* actors = nullptr;
  std::shared_ptr<const plan> whole;
  run_devices devices;  // all on one accelerator, in one process
  std::vector<std::vector<stage>> stages;
  loading_options loading = {};  // ahead: while the device works
  item_counter counter = {};     // null: no loss counts its items
  std::uint64_t seed = 0;        // of the numbers that models draw
};

/// Training steps of which all up to the gradients is launched at once. The
/// first step runs as usual; then one is recorded while the actors run it, and
/// launched, as are those after it. The loss scale is part of what is
/// recorded: with another one it is recorded anew. A step runs as usual that
/// monitors look into (ops, messages, tensors; those that watch see its losses
/// and gradients, and its second run, which is no launch), whose microbatches
/// have other shapes or no item that a loss counts, or whose data can't be
/// made; all do, after one warning, once something could not be recorded. Calls
/// come from one thread at a time, between two steps of the pipeline. Errors
/// are those of `pipeline::run`.
class graph_steps {
 public:
  explicit graph_steps(graph_steps_setup setup);
  ~graph_steps();
  graph_steps(const graph_steps&) = delete;
  graph_steps& operator=(const graph_steps&) = delete;

  step_report run(const step_settings& settings, const source_pointer& source);

 private:
  step_report run_as_usual(const step_settings& settings,
                           const source_pointer& source);
  /// All microbatches of a step, those of all replicas; empty if one can't be
  /// made: the loader actors will say why.
  std::vector<microbatch_data> load(const step_settings& settings,
                                    const source_pointer& source);
  /// Loads the next step's microbatches while the device works.
  void load_ahead();
  bool prepare(const step_settings& settings,
               const std::vector<microbatch_data>& step);
  void copy_to_inputs(const std::vector<microbatch_data>& step);
  void set_draw_keys(const step_settings& settings);
  bool record(const step_settings& settings);
  void run_recorded(const step_settings& settings, bool& ended);
  void join(const std::vector<event_handle>& reduced);
  void launch();
  void give_up(const std::string& why);
  void forget();
  template <class Work>
  void each_device(const Work& work);

  graph_steps_setup setup_;
  std::shared_ptr<const plan> gradients_, update_;
  event_source now_;
  std::vector<loader_core> loaders_;  // by replica
  std::unique_ptr<device_stream> origin_;
  /// The microbatches of a step, those of all replicas, in memory of the device
  /// that stays where it is: what a recorded step reads. Empty before it.
  std::vector<microbatch_data> inputs_;
  at::Tensor draw_keys_;  // likewise
  std::unique_ptr<device_graph> graph_;
  double recorded_scale_ = 0;
  std::int64_t launches_ = 0;
  bool warm_ = false, off_ = false, has_logged_ = false;
};

}  // namespace troupe
