#pragma once

// All of CAF that troupe uses; the one place that knows its version.

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
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

#include "troupe/actors/step/messages.hpp"

/// Gives a message a type id in a block, and lets it be sent though CAF can't
/// serialize it: messages of actors stay within the process.
#define TROUPE_ADD_MESSAGE(block, name)  \
  CAF_ADD_TYPE_ID(block, (troupe::name)) \
  CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::name)

// Above those that programs usually take, from caf::first_custom_type_id on.
CAF_BEGIN_TYPE_ID_BLOCK(troupe, 2000)
TROUPE_ADD_MESSAGE(troupe, begin_step)
TROUPE_ADD_MESSAGE(troupe, run_op)
TROUPE_ADD_MESSAGE(troupe, stage_tensors)
TROUPE_ADD_MESSAGE(troupe, want_data)
TROUPE_ADD_MESSAGE(troupe, loaded_data)
TROUPE_ADD_MESSAGE(troupe, chosen_tokens)
TROUPE_ADD_MESSAGE(troupe, collective_request)
TROUPE_ADD_MESSAGE(troupe, collective_result)
TROUPE_ADD_MESSAGE(troupe, stage_powers)
TROUPE_ADD_MESSAGE(troupe, norm_verdict)
TROUPE_ADD_MESSAGE(troupe, rank_done)
TROUPE_ADD_MESSAGE(troupe, op_failure)
TROUPE_ADD_MESSAGE(troupe, interrupt_run)
TROUPE_ADD_MESSAGE(troupe, stop_run)
TROUPE_ADD_MESSAGE(troupe, finish_run)
TROUPE_ADD_MESSAGE(troupe, save_run)
TROUPE_ADD_MESSAGE(troupe, run_step)
TROUPE_ADD_MESSAGE(troupe, hand_over)
TROUPE_ADD_MESSAGE(troupe, run_record)
TROUPE_ADD_MESSAGE(troupe, watchdog_tick)
TROUPE_ADD_MESSAGE(troupe, prefetch_data)
TROUPE_ADD_MESSAGE(troupe, publish_event)
TROUPE_ADD_MESSAGE(troupe, step_outcome)
TROUPE_ADD_MESSAGE(troupe, collective_part)
TROUPE_ADD_MESSAGE(troupe, peer_lost)
TROUPE_ADD_MESSAGE(troupe, remote_begin)
TROUPE_ADD_MESSAGE(troupe, remote_outcome)
CAF_END_TYPE_ID_BLOCK(troupe)
