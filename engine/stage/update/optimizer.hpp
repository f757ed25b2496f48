#pragma once

#include <memory>
#include <string>
#include <vector>

#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/stage/update/parameter_groups.hpp"
#include "troupe/engine/stage/update/update_options.hpp"

namespace troupe {

/// The tensors that an optimizer keeps of a parameter, by name, as the options
/// list them; none before the parameter's first gradient.
struct parameter_state {
  std::string parameter;
  parameter_list tensors{};
};
/// The state of all parameters, in their order.
using optimizer_state = std::vector<parameter_state>;

/// Returns 0 if each element of the parameter is updated from that element's
/// gradient and state alone, so that the parameter may be held in parts.
/// Otherwise (Adafactor, Muon's matrices) the update reads the whole parameter,
/// and the result is its cost, relative to other parameters of these options.
double work_of_whole(const optimizer_options& options, const std::string& name,
                     const at::Tensor& parameter);

/// Updates a fixed list of parameters in place from their gradients. Each is
/// updated by itself, so a model gives the same bits however its parameters are
/// spread over stages. Leaves parameters without a gradient, and their state,
/// unchanged. Works on the parameters' device, within the entered stream, and
/// never waits for it. Not thread-safe.
///
/// Parameters of a 16-bit dtype have masters: copies in fp32, made at their
/// first update, which the rule updates from the gradient in fp32, and which
/// are then rounded into the parameter (mixed precision training, Micikevicius
/// et al., 2018). A master is a tensor of the state, `master_state_name`.
///
/// An optimizer that offloads from a device keeps all state, and masters of all
/// parameters, in host memory, where it updates them (ZeRO-Offload, Ren et al.,
/// 2021): a step then waits for the device's gradients. Masters of fp32
/// parameters are no part of the state.
class optimizer {
 public:
  /// `groups`: another learning rate and weight decay for some parameters.
  /// `offload_from`: the parameters' device, if the optimizer offloads from it.
  /// Throws `invalid_argument` for options that make no sense and for
  /// parameters of one name.
  optimizer(const optimizer_options& options, parameter_list parameters,
            const parameter_groups& groups = {},
            std::shared_ptr<rank_device> offload_from = nullptr);

  void step(double learning_rate);

  /// Shared handles: the next step changes them.
  optimizer_state state() const;
  /// The state as it begins with the first gradients: its names and shapes. The
  /// parameters may be on the meta device, and the state then is.
  optimizer_state initial_state() const;
  /// Copies another optimizer's state of the same parameters, in any order.
  /// With the parameters' values, further steps then give the bits that they
  /// would have given there. Before changing anything, throws
  /// `invalid_checkpoint` naming the parameter and the tensor that is missing,
  /// unknown, there twice, or of another shape or dtype. A missing master, as
  /// in the state of a run in fp32, is made from the parameter; one that is not
  /// needed is ignored.
  void load(const optimizer_state& state);
  /// Copies the values of parameters that were written to into their masters.
  void read_parameters();

 private:
  struct member {
    std::string name;
    at::Tensor parameter;
    std::size_t group;
    parameter_list state{};  // empty before its first gradient
    at::Tensor master{};     // undefined before that, and if none is needed
  };
  /// Parameters that are updated alike.
  struct group {
    optimizer_options options;
    double learning_rate;  // times the run's
    std::vector<std::size_t> members;
  };
  bool needs_master(const member& of) const;
  at::Tensor fresh_master(const member& of) const;
  /// The state before the first update; a master that is part of it is last.
  parameter_list fresh_state(const member& of, const at::Tensor& master) const;
  tensor_list gradients_of(const std::vector<member*>& members) const;
  void update(const group& alike, bool first, double learning_rate);
  parameter_list state_from(const parameter_list& tensors,
                            const member& of) const;

  std::shared_ptr<rank_device> offload_from_;
  std::vector<member> members_;
  std::vector<group> groups_;
};

}  // namespace troupe
