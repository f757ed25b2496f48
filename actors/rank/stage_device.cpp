#include "troupe/actors/rank/stage_device.hpp"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "troupe/engine/stage/module/on_device.hpp"

namespace troupe {

std::unique_ptr<stream_scope> stage_device::enter() const {
  return device_ ? device_->compute().enter() : nullptr;
}

event_handle stage_device::mark() const {
  return device_ ? device_->compute().record() : nullptr;
}

void stage_device::wait_for(const event_handle& ready) {
  if (device_ && ready)
    device_->compute().wait_for(*ready);
  begin_again();
}

void stage_device::join() const {
  if (device_)
    device_->join();
}

/// The op's waiting time is no part of its duration.
void stage_device::begin_again() {
  if (begin_)
    begin_ = mark();
}

microbatch_data stage_device::bring(const microbatch_data& data,
                                    event_handle& ready) const {
  auto& stream = device_->data();
  auto copy = troupe::to_device(data, stream);
  ready = stream.record();
  return copy;
}

tensor_list stage_device::take(tensor_list tensors, const event_handle& ready) {
  if (!device_)
    return tensors;
  auto point = ready;
  for (auto& tensor : tensors) {
    if (!tensor.defined() || tensor.device() == device_->device())
      continue;
    auto& stream = device_->receives();
    const auto scope = stream.enter();
    take_over(stream, {tensor}, ready);
    tensor = tensor.is_cpu() ? to_device(tensor, stream)
                             : tensor.to(device_->device(), true);
    point = stream.record();
  }
  take_over(device_->compute(), tensors, point);
  begin_again();
  return tensors;
}

tensor_list stage_device::to_host(const tensor_list& tensors,
                                  const event_handle& ready) const {
  auto& stream = device_->sends();
  take_over(stream, tensors, ready);
  tensor_list copies;
  for (const auto& tensor : tensors)
    copies.push_back(tensor.defined() ? troupe::to_host(tensor, stream).tensor
                                      : at::Tensor{});
  stream.record()->wait();
  return copies;
}

void stage_device::begin_step(std::int64_t serial) const {
  if (device_)
    device_->begin_step(serial);
}

void stage_device::begin_op() {
  begin_ = mark();
}

void stage_device::end_op(op_launched& what) {
  if (!device_)
    return;
  what.device_begin = std::exchange(begin_, nullptr);
  what.device_end = mark();
  device_->launched(what.device_end);
}

void stage_device::note(std::size_t record, op_launched& what) {
  if (what.device_end)
    timed_.push_back(
      {record, std::move(what.device_begin), std::move(what.device_end)});
}

void stage_device::settle(std::vector<op_record>& records) {
  for (const auto& op : std::exchange(timed_, {})) {
    op.end->wait();
    auto& record = records[op.record];
    record.host_begin = record.begin;
    record.host_end = record.end;
    record.begin = device_->host_ns(*op.begin);
    record.end = device_->host_ns(*op.end);
  }
}

}  // namespace troupe
