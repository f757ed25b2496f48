#pragma once

// Several processes that train together.
#include "troupe/engine/launch/job.hpp"
