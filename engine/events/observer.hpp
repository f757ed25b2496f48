#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "troupe/base/current_scope.hpp"
#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/events/device_statistics.hpp"
#include "troupe/engine/events/interest.hpp"
#include "troupe/engine/events/observe.hpp"
#include "troupe/engine/events/row_sample.hpp"

namespace troupe {

class measured_memory;
enum class depth : std::uint8_t;

/// A module of a stage, under its dotted name in the unsplit model.
struct module_entry {
  const torch::nn::Module* module = nullptr;
  std::string name;
};

/// The part of a parameter that a shard holds, flattened; its gradient is that
/// of the part.
struct parameter_part {
  std::string name;
  at::Tensor value;
  std::vector<std::int64_t> shape;  // of the whole parameter
};

/// Observes a stage's modules while its ops run, and publishes what monitors
/// asked for, one event per op. A tensor that several modules share (an output
/// that is the next one's input) is measured once. Belongs to a stage; one
/// thread at a time.
class observer {
 public:
  using publisher = std::function<void(tensors_event)>;

  /// `device` holds the tensors, if given: then make all calls within its
  /// compute stream; statistics are known when the step is over, and `flush`
  /// publishes them.
  observer(const std::vector<module_entry>& modules, parameter_list parameters,
           publisher publish, rank_device* device = nullptr);
  ~observer();
  observer(const observer&) = delete;
  observer& operator=(const observer&) = delete;

  /// Marks the parameters as sharded: from the next step on `parameters`
  /// publishes these parts, as those of `shard` of `shards`.
  void observe_shard(const std::vector<parameter_part>& parts,
                     std::int32_t shard, std::int32_t shards);

  /// Sets the interest for the ops of a step; null: nobody wants tensors.
  /// Gradients of activations are multiplied by `unscale`.
  void begin_step(std::shared_ptr<const tensor_interest> interest,
                  double unscale = 1,
                  step_reading reading = step_reading::once);

  enum class pass : std::uint8_t { forward, forward_again, backward, update };
  /// Until `end_op`, modules publish for this op. `forward_again` (recompute)
  /// publishes only the gradients to come.
  void begin_op(const event_source& source, pass pass, std::int64_t samples);
  void end_op();
  /// Publishes events that await a device; waits for it.
  void flush();

  /// In a watched step, notes whether a tensor that leaves an op is finite.
  void left(const at::Tensor& tensor);
  /// Whether one of this step's was not; waits for the device.
  bool has_hit();

  /// Whether modules publish anything now.
  bool watches() const { return watches_; }
  void called(const torch::nn::Module& module, const observed_values& inputs,
              const observed_values& outputs);
  /// Whether a monitor wants what the module returns in this op, and gradients
  /// of what it returns in a forward.
  bool reads_output(const torch::nn::Module& module) const;
  bool reads_gradient(const torch::nn::Module& module) const;
  /// Publishes the gradient of a module's only output, in a backward, for a
  /// call whose outputs were not in the graph.
  void gradient(const torch::nn::Module& module, const at::Tensor& value);
  void loss(const std::string& name, const at::Tensor& value);
  /// Publishes all parameters, and their gradients times `unscale`.
  void parameters(double unscale);

  void metric(const std::string& name, double value, double count);
  std::vector<named_value> take_metrics();
  /// Nanoseconds spent here since the last call.
  std::int64_t take_cost();

 private:
  struct watched {
    std::shared_ptr<const tensor_owner> owner;
    std::vector<std::pair<std::string, at::Tensor>> weights;
    tensor_needs activation, input, weight, activation_gradient;
  };
  struct watched_parameter {
    std::shared_ptr<const tensor_owner> owner;
    at::Tensor value;
    tensor_needs parameter, gradient;
  };
  void record_values(const watched& module, tensor_kind kind,
                     tensor_needs needs, const observed_values& values);
  void record_weights(const watched& module);
  void resolve_watched(const std::vector<tensor_statistics>& rows);
  void record(tensor_record entry, const at::Tensor& tensor, tensor_needs needs,
              measured_memory& measured);
  bool is_on_device(const at::Tensor& tensor) const;
  void measure_last(const at::Tensor& tensor, tensor_needs needs,
                    measured_memory& measured);
  void measure_to(depth wanted, const at::Tensor& tensor, const row_plan& plan,
                  measured_memory& measured);
  philox_key key_of(const tensor_record& record) const;
  void unscale_last(double factor);
  void follow_gradients(const watched& module, const observed_values& outputs);
  void follow_leaf(const watched& module, const observed_value& output);
  struct followed_leaf;
  void leaf_arrived(followed_leaf& leaf, const at::Tensor& gradient);
  void forget_leaves();
  void gradient_arrived(const watched& module, const observed_value& subject,
                        const at::Tensor& gradient);

  /// Outputs that are leaves of the graph, such as parameters: they outlive the
  /// op and even the step, so each has one hook, and the calls whose gradients
  /// are yet to come are kept here.
  std::unordered_map<const c10::TensorImpl*, std::shared_ptr<followed_leaf>>
    leaves_;
  std::unordered_map<const torch::nn::Module*, watched> modules_;
  std::vector<watched_parameter> parameters_;
  std::int32_t shard_ = 0, shards_ = 1;  // of the parameters
  std::unordered_map<std::string, std::shared_ptr<const tensor_owner>> losses_;
  publisher publish_;
  std::shared_ptr<const tensor_interest> interest_;
  /// The last interest, from which the needs below and of modules derive.
  std::shared_ptr<const tensor_interest> applied_interest_;
  double unscale_ = 1;  // for activations' gradients
  step_reading reading_ = step_reading::once;
  bool hit_ = false;
  std::vector<std::size_t> watched_rows_;  // on the device
  tensor_needs loss_needs_ = tensor_needs::none;
  bool module_kinds_ = false;  // anybody wants what modules publish
  bool watches_ = false;
  pass pass_ = pass::forward;
  tensors_event event_;
  std::int32_t calls_ = 0;
  std::unique_ptr<measured_memory> op_memory_, step_memory_;
  /// A record's future statistics: a row from the device, times a factor.
  struct expected_row {
    std::size_t record, row;
    bool is_sample = false;
    double factor = 1;
  };
  rank_device* device_;  // null: the CPU
  std::optional<device_statistics> on_device_;
  std::vector<expected_row> expected_;
  std::vector<std::pair<tensors_event, std::vector<expected_row>>> held_;
  std::vector<named_value> metrics_;
  std::int64_t cost_ = 0;
};

/// The observer of the calling thread; null: nothing is published.
observer*& current_observer();

/// That observer, if it watches now; else null.
observer* watching_observer();

/// Sets the calling thread's observer for a scope.
using observer_scope = current_scope<observer*, current_observer>;

}  // namespace troupe
