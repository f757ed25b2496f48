#include "troupe/engine/stage/plain/plain_loop.hpp"

#include <utility>

#include "troupe/engine/stage/plain/plain_run.hpp"

namespace troupe {

plain_loop::plain_loop(const model& layers, plain_options options)
  : run_(std::make_unique<plain_run>(layers, std::move(options))) {}
plain_loop::~plain_loop() = default;
plain_loop::plain_loop(plain_loop&&) noexcept = default;

plain_loop::result plain_loop::step(const data_function& load,
                                    bool counts_equally) {
  return run_->step(load, counts_equally);
}
void plain_loop::set_position(std::int64_t microbatches) {
  run_->set_position(microbatches);
}
named_value plain_loop::evaluate(const data_function& load,
                                 std::int64_t count) {
  return run_->evaluate(load, count);
}
parameter_list plain_loop::parameters() const {
  return run_->parameters();
}
parameter_list plain_loop::holders() const {
  return run_->holders();
}
parameter_list plain_loop::state_dict() const {
  return run_->state_dict();
}
optimizer_state plain_loop::state() const {
  return run_->state();
}
void plain_loop::load_state(const optimizer_state& state) {
  run_->load_state(state);
}
const std::map<std::string, std::string>& plain_loop::aliases() const {
  return run_->aliases();
}
std::int64_t plain_loop::steps() const {
  return run_->steps();
}
const loss_scale& plain_loop::scale() const {
  return run_->scale();
}
void plain_loop::go_on_from(std::int64_t step,
                            const loss_scale_progress& scale) {
  run_->go_on_from(step, scale);
}
tensor_list plain_loop::infer(const tensor_list& inputs) {
  return run_->infer(inputs);
}

}  // namespace troupe
