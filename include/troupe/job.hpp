#pragma once

// Several processes that train together.
#include "troupe/engine/launch/job.hpp"
#include "troupe/engine/launch/job_membership.hpp"
#include "troupe_headers.hpp"
