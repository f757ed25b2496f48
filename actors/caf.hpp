#pragma once

// All of CAF that troupe uses; the one place that knows its version.

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/init_global_meta_objects.hpp>
#include <caf/response_promise.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/sec.hpp>
#include <caf/send.hpp>
#include <caf/thread_hook.hpp>
#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_behavior.hpp>
#include <caf/typed_response_promise.hpp>

#include "troupe/actors/messages.hpp"

CAF_BEGIN_TYPE_ID_BLOCK(troupe, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(troupe, (troupe::begin_step))
CAF_ADD_TYPE_ID(troupe, (troupe::run_op))
CAF_ADD_TYPE_ID(troupe, (troupe::op_launched))
CAF_ADD_TYPE_ID(troupe, (troupe::end_step))
CAF_ADD_TYPE_ID(troupe, (troupe::stage_tensors))
CAF_ADD_TYPE_ID(troupe, (troupe::want_data))
CAF_ADD_TYPE_ID(troupe, (troupe::loaded_data))
CAF_ADD_TYPE_ID(troupe, (troupe::reduce_gradients))
CAF_ADD_TYPE_ID(troupe, (troupe::gradients_reduced))
CAF_ADD_TYPE_ID(troupe, (troupe::stage_squares))
CAF_ADD_TYPE_ID(troupe, (troupe::norm_known))
CAF_ADD_TYPE_ID(troupe, (troupe::stage_done))
CAF_ADD_TYPE_ID(troupe, (troupe::rank_done))
CAF_ADD_TYPE_ID(troupe, (troupe::op_failure))
CAF_ADD_TYPE_ID(troupe, (troupe::interrupt_run))
CAF_ADD_TYPE_ID(troupe, (troupe::stop_run))
CAF_ADD_TYPE_ID(troupe, (troupe::finish_run))
CAF_ADD_TYPE_ID(troupe, (troupe::run_step))
CAF_ADD_TYPE_ID(troupe, (troupe::watchdog_tick))
CAF_ADD_TYPE_ID(troupe, (troupe::prefetch_data))
CAF_ADD_TYPE_ID(troupe, (troupe::publish_event))
CAF_ADD_TYPE_ID(troupe, (troupe::step_outcome))
CAF_ADD_TYPE_ID(troupe, (troupe::reduce_part))
CAF_ADD_TYPE_ID(troupe, (troupe::peer_lost))
CAF_ADD_TYPE_ID(troupe, (troupe::remote_begin))
CAF_ADD_TYPE_ID(troupe, (troupe::remote_outcome))
CAF_ADD_TYPE_ID(troupe, (troupe::monitor_event))
CAF_END_TYPE_ID_BLOCK(troupe)

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::begin_step)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::run_op)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::op_launched)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::end_step)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::stage_tensors)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::want_data)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::loaded_data)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::reduce_gradients)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::gradients_reduced)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::stage_squares)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::norm_known)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::stage_done)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::rank_done)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::op_failure)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::interrupt_run)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::stop_run)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::finish_run)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::run_step)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::watchdog_tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::prefetch_data)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::publish_event)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::reduce_part)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::peer_lost)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::remote_begin)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::remote_outcome)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::step_outcome)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::monitor_event)
