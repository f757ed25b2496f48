#include "troupe/engine/stage/parameters/sharded_parameters.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/stage/update/gradient_lists.hpp"
#include "troupe/engine/stage/update/gradient_norm.hpp"
#include "troupe/engine/stage/update/optimizer_rule.hpp"

namespace troupe {

namespace {

/// Frees the memory of a tensor's storage. All tensors that share it keep their
/// shapes and must not be read until `allocate_storage`. PyTorch's FSDP does
/// the same to parameters that a graph still refers to.
void free_storage(const at::Tensor& tensor) {
  const auto& storage = tensor.storage();
  storage.set_data_ptr(c10::DataPtr(nullptr, tensor.device()));
  storage.set_nbytes(0);
}

/// Gives such a storage memory again, whose contents are undefined; on an
/// accelerator within the entered stream. `tensor` must span the storage.
void allocate_storage(const at::Tensor& tensor) {
  const auto& storage = tensor.storage();
  const auto fresh = at::empty_like(tensor);
  storage.set_data_ptr(
    fresh.storage().set_data_ptr(c10::DataPtr(nullptr, tensor.device())));
  storage.set_nbytes(tensor.nbytes());
  fresh.storage().set_nbytes(0);
}

void require_shardable(const parameter_list& parameters) {
  for (const auto& [name, value] : parameters)
    if (!value.is_floating_point()
        || value.scalar_type() != parameters[0].second.scalar_type())
      fail(error_code::invalid_argument,
           "parameter '{}' is {} and '{}' {}: the parameters of a stage that "
           "is sharded need one floating-point dtype",
           printable(name), describe(value), printable(parameters[0].first),
           describe(parameters[0].second));
}

/// The part for a piece of an optimizer's tensor for the whole parameter;
/// tensors of other shapes (a number of steps) are the same for all pieces.
at::Tensor part_of(const at::Tensor& tensor, const shard_layout::piece& piece,
                   const at::Tensor& parameter, std::string_view name) {
  if (piece.keeps_shape || name == step_state_name
      || tensor.sizes() != parameter.sizes())
    return tensor;
  return tensor.reshape(-1).narrow(0, piece.begin, piece.count);
}

/// The parameters of each row: those that may be cut, those that are read
/// whole, and each tied one.
std::vector<parameter_list> in_rows(const parameter_list& trained,
                                    const std::vector<tied_gradient>& tied,
                                    const optimizer_options& optimizer) {
  std::vector<parameter_list> rows(2 + tied.size());
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const auto& [name, value] = trained[i];
    if (std::ranges::count(tied, i, &tied_gradient::position) == 0)
      rows[work_of_whole(optimizer, name, value) > 0 ? 1 : 0].push_back(
        trained[i]);
  }
  for (std::size_t t = 0; t < tied.size(); ++t)
    rows[2 + t] = {trained[tied[t].position]};
  return rows;
}

/// `optimizer`: null, or the parameters' own, which must read either all or
/// none of them whole.
shard_layout layout_of(const parameter_list& parameters,
                       const shard_place& place,
                       const optimizer_options* optimizer,
                       std::int32_t preferred) {
  std::vector<std::int64_t> sizes;
  std::vector<double> work;
  for (const auto& [name, value] : parameters) {
    sizes.push_back(value.numel());
    work.push_back(optimizer ? work_of_whole(*optimizer, name, value) : 0);
  }
  return work.empty() || work.front() == 0
           ? shard_layout(std::move(sizes), place.shards, place.multiple)
           : shard_layout::of_whole(std::move(sizes), work, place.shards,
                                    place.multiple, preferred);
}

}  // namespace

sharded_parameters::row sharded_parameters::make_row(
  const parameter_list& parameters, const shard_place& place,
  const at::TensorOptions& kind, const optimizer_options* optimizer,
  std::int32_t preferred) {
  const auto layout = std::make_shared<const shard_layout>(
    layout_of(parameters, place, optimizer, preferred));
  row result{
    layout, values_of(parameters), at::zeros({layout->padded()}, kind), {}};
  for (std::size_t i = 0; i < result.parameters.size(); ++i) {
    auto& value = result.parameters[i];
    const auto view = result.whole.narrow(0, layout->begins()[i], value.numel())
                        .view(value.sizes());
    view.copy_(value);
    value.set_data(view);
  }
  const auto shard = own_part(result, place);
  result.shard = place.releases ? shard.clone() : shard;
  return result;
}

at::Tensor sharded_parameters::own_part(const row& of,
                                        const shard_place& place) {
  return of.whole.narrow(0, of.layout->begin(place.shard),
                         of.layout->length(place.shard));
}

sharded_parameters::sharded_parameters(
  const parameter_list& trained, const parameter_list& frozen,
  const std::vector<tied_gradient>& tied, const numerics& options,
  shard_place place, std::shared_ptr<rank_device> device,
  std::function<void()> publish, weight_casts::pointer casts)
  : module_parameters(options, std::move(device), std::move(publish)),
    place_(place),
    frozen_(frozen),
    casts_(std::move(casts)) {
  const at::NoGradGuard no_grad;
  require_shardable(trained);
  require_shardable(frozen);
  make_rows(trained, frozen, tied, options.optimizer);
  // Frozen parameters stay whole where only gradients are sharded.
  if (!frozen.empty() && place_.releases)
    rows_.push_back(
      make_row(frozen, place_, frozen[0].second.detach().options(), nullptr));
  make_pieces(tied, options);
  if (place_.releases)
    release();
}

void sharded_parameters::make_rows(const parameter_list& trained,
                                   const parameter_list& frozen,
                                   const std::vector<tied_gradient>& tied,
                                   const optimizer_options& optimizer) {
  const auto by_row = in_rows(trained, tied, optimizer);
  first_tied_ = trained.size() - tied.size();
  // An empty row has a dtype and device, too, as rows are sent in one piece.
  const auto kind = !trained.empty()  ? trained[0].second.detach().options()
                    : !frozen.empty() ? frozen[0].second.detach().options()
                                      : at::TensorOptions();
  for (std::size_t r = 0; r < by_row.size(); ++r) {
    const auto tie = r < 2 ? 0 : tied[r - 2].tie;
    rows_.push_back(make_row(by_row[r], place_, kind, &optimizer, tie));
    layouts_.push_back(rows_.back().layout);
    for (const auto& [name, value] : by_row[r]) {
      names_.push_back(name);
      parameters_.push_back(value);
    }
  }
}

void sharded_parameters::make_pieces(const std::vector<tied_gradient>& tied,
                                     const numerics& options) {
  pieces_ = pieces_of(layouts_, place_.shard);
  parameter_list named;
  for (std::size_t r = 0; r < layouts_.size(); ++r) {
    const auto& row = rows_[r];
    for (const auto& piece : row.layout->pieces(place_.shard)) {
      const auto parameter = pieces_[named.size()].parameter;
      if (parameter >= first_tied_) {
        const auto& whole = tied[parameter - first_tied_];
        tied_.push_back({named.size(), whole.tie, whole.is_owner});
      }
      auto part = row.shard.narrow(
        0, piece.row - row.layout->begin(place_.shard), piece.count);
      if (piece.keeps_shape)
        part = part.view(row.parameters[piece.parameter].sizes());
      named.emplace_back(names_[parameter], std::move(part));
    }
  }
  make_optimizer(std::move(named), options);
}

void sharded_parameters::put_gradients(tensor_list gradients,
                                       at::Tensor present) {
  if (present.defined()) {
    // A reduction lists all parameters, a sum of tied gradients the pieces; if
    // there are as many of both, piece i is parameter i.
    const auto is_present = read_presence(present, device_.get());
    const bool by_parameter = is_present.size() == parameters_.size();
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      if (!is_present.at(by_parameter ? pieces_[i].parameter : i))
        gradients.at(i).reset();
  }
  for (std::size_t i = 0; i < pieces_.size(); ++i)
    if (gradients.at(i).defined())
      gradients[i] = gradients[i].view(values_[i].sizes());
  troupe::put_gradients(values_, std::move(gradients));
}

collective_work sharded_parameters::begin_reduction() {
  auto whole = std::get<all_reduce>(module_parameters::begin_reduction());
  return reduce_scatter{std::move(whole), layouts_};
}

/// A shard without a piece of the tied parameters takes part, too.
tied_sum sharded_parameters::begin_tied_sum() {
  if (first_tied_ == names_.size())
    return stage_parameters::begin_tied_sum();
  return {{troupe::take_gradients(values_), values_}, tied_};
}

std::vector<double> sharded_parameters::norm_powers() {
  const auto of_pieces = gradient_powers(values_, norm_type_, device_.get());
  std::vector<double> powers(parameters().size());
  for (std::size_t i = 0; i < pieces_.size(); ++i)
    powers[pieces_[i].parameter] = of_pieces[i];
  for (const auto& each : tied_)
    if (!each.is_owner)
      powers[pieces_[each.position].parameter] = 0;
  return powers;
}

std::vector<parameter_part> sharded_parameters::parts() const {
  std::vector<parameter_part> all;
  const auto add = [&](const std::string& name, const at::Tensor& value,
                       const at::Tensor& whole) {
    all.push_back({name, value, whole.sizes().vec()});
  };
  for (std::size_t i = 0; i < pieces_.size(); ++i)
    add(names_[pieces_[i].parameter], values_[i],
        parameters_[pieces_[i].parameter]);
  if (frozen_.empty())
    return all;
  if (!place_.releases) {
    if (place_.shard == 0)
      for (const auto& [name, value] : frozen_)
        add(name, value, value);
    return all;
  }
  const auto& row = rows_.back();
  const auto first = row.layout->begin(place_.shard);
  for (const auto& piece : row.layout->pieces(place_.shard))
    add(frozen_[piece.parameter].first,
        row.shard.narrow(0, piece.row - first, piece.count),
        frozen_[piece.parameter].second);
  return all;
}

void sharded_parameters::load_state(const optimizer_state& whole) {
  optimizer_state shard;
  for (const auto& piece : pieces_) {
    const auto source = std::ranges::find(whole, names_[piece.parameter],
                                          &parameter_state::parameter);
    if (source == whole.end())
      continue;  // the optimizer refuses a state that lacks a parameter
    auto& part = shard.emplace_back(parameter_state{source->parameter});
    for (const auto& [name, tensor] : source->tensors)
      part.tensors.emplace_back(
        name, part_of(tensor, piece, parameters()[piece.parameter], name));
  }
  optimizer_->load(shard);
}

std::int64_t sharded_parameters::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& row : rows_)
    bytes += row.layout->elements()
             * static_cast<std::int64_t>(row.shard.element_size());
  return bytes;
}

tensor_list sharded_parameters::own_shards() const {
  tensor_list shards;
  for (const auto& row : rows_)
    shards.push_back(row.shard);
  return shards;
}

all_gather sharded_parameters::begin_gather() {
  drop_casts();
  all_gather work{.shards = own_shards()};
  for (const auto& row : rows_) {
    if (!whole_)
      allocate_storage(row.whole);
    work.rows.push_back(row.whole);
    work.layouts.push_back(row.layout);
  }
  whole_ = true;
  return work;
}

void sharded_parameters::release() {
  require_whole("a release");
  drop_casts();
  for (const auto& row : rows_)
    free_storage(row.whole);
  whole_ = false;
}

/// They are of values that are freed, or that a gather replaces.
void sharded_parameters::drop_casts() {
  if (casts_)
    casts_->clear();
}

void sharded_parameters::require_whole(const std::string& op) const {
  if (!whole_)
    fail(error_code::internal,
         "{} runs while the stage's parameters are sharded, not whole", op);
}

void sharded_parameters::take_shards() {
  require_whole("a cut into shards");
  const at::NoGradGuard no_grad;
  if (place_.releases)
    for (const auto& row : rows_)
      row.shard.copy_(own_part(row, place_));
}

optimizer_state sharded_parameters::joined(
  const std::vector<optimizer_state>& shards) const {
  optimizer_state whole;
  for (const auto& name : names_)
    whole.push_back({name});
  std::map<std::pair<std::size_t, std::string>, tensor_list> parts;
  for (std::size_t q = 0; q < shards.size(); ++q) {
    const auto pieces = pieces_of(layouts_, static_cast<std::int32_t>(q));
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto parameter = pieces[i].parameter;
      for (const auto& [name, tensor] : shards[q].at(i).tensors) {
        auto& same = parts[{parameter, name}];
        if (same.empty())
          whole[parameter].tensors.emplace_back(name, tensor);
        same.push_back(tensor.reshape(-1));
      }
    }
  }
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (auto& [name, tensor] : whole[i].tensors)
      if (const auto all = at::cat(parts[{i, name}]);
          name != step_state_name && all.numel() == parameters()[i].numel())
        tensor = all.view(parameters()[i].sizes());
  return whole;
}

}  // namespace troupe
