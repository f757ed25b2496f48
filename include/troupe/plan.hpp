#pragma once

// Schedules and plans, without LibTorch: the catalogue, schedules of one's own,
// compiling, proving, simulating and drawing.
#include "troupe/engine/plan/check/verify.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/lane_builder.hpp"
#include "troupe/schedules/rules.hpp"
#include "troupe/schedules/text_form.hpp"
#include "troupe_headers.hpp"
