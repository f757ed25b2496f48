#pragma once

// Training: models, data, the trainer, checkpoints.
#include "troupe/actors/trainer.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/models/gpt.hpp"
#include "troupe/engine/models/model_folder.hpp"
#include "troupe/engine/models/model_texts.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/engine/stage/as_layer.hpp"
#include "troupe/engine/stage/random.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/lane_builder.hpp"
#include "troupe/training/checkpoints.hpp"
#include "troupe/training/step_profile.hpp"
#include "troupe/training/stop_on_signals.hpp"
#include "troupe_headers.hpp"
