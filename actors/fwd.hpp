#pragma once

namespace troupe {

class coordinator_core;
class device_core;
class event_board;
class loader_core;
class pipeline;
class progress_board;
class reducer_core;
class stage_runner;
class trainer;
struct monitor;
struct pipeline_options;
struct trainer_options;

}  // namespace troupe
