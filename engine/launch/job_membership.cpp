#include "troupe/engine/launch/job_membership.hpp"

#include "troupe/engine/launch/job_membership_state.hpp"

namespace troupe {

job_membership::job_membership(membership_options options)
  : impl_(std::make_shared<impl>(std::move(options))) {
  impl_->join();
}

job_membership::~job_membership() = default;

job_membership::events_scope job_membership::on_events(
  membership_events handlers) {
  std::int64_t setting = 0;
  impl_->loop.run([&] {
    const std::scoped_lock lock(impl_->mutex);
    impl_->events = std::move(handlers);
    setting = ++impl_->event_settings;
  });
  return {impl_, setting};
}

job_membership::events_scope::~events_scope() {
  if (const auto membership = of_.lock())
    membership->loop.run([&] {
      const std::scoped_lock lock(membership->mutex);
      if (membership->event_settings == setting_)
        membership->events = {};
    });
}

void job_membership::leave() {
  const std::scoped_lock lock(impl_->mutex);
  impl_->leaves_since = membership_time();
  impl_->act(impl_->self->drain(membership_time()));
}

job_meeting job_membership::meet(const std::vector<held_rank>& held,
                                 const std::optional<failed_op>& why) {
  return impl_->meet(copies_of(held), why);
}

bool job_membership::heals_ops() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->heals_ops;
}

void job_membership::finish() {
  impl_->finish();
}

bool job_membership::has_left() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->is_out();
}

std::string job_membership::ends() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->self->current().ends;
}

bool job_membership::job_goes_on() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->is_out() && !impl_->job_stopped && !impl_->is_done;
}

const std::string& job_membership::name() const {
  return impl_->job;
}

void job_membership::request_hosting(std::vector<std::int32_t> hosting) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->link.send(hosting_request{impl_->met, std::move(hosting)});
}

}  // namespace troupe
