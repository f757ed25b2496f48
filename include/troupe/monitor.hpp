#pragma once

// Watching a run: monitors and their outputs, the endpoint, the dashboard.
#include "troupe/actors/step/run_health.hpp"
#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/dashboard/dashboard.hpp"
#include "troupe/monitors/live/attachment.hpp"
#include "troupe/monitors/live/endpoint_server.hpp"
#include "troupe/monitors/progress.hpp"
#include "troupe/monitors/sinks/sink_spec.hpp"
#include "troupe/monitors/spec/monitor_spec.hpp"
#include "troupe/training/run_monitors.hpp"
#include "troupe_headers.hpp"
