#pragma once

#include <string>

#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/stage/loss.hpp"
#include "troupe/engine/stage/model.hpp"

// Models whose layers form no chain. Their parameters are seeded.

struct graph_model {
  std::string name;
  troupe::model layers;
  troupe::loss_function loss;  // of the last layer
  troupe::source_pointer data;
};

/// Every decoder layer reads the encoder's output beside the layer before.
graph_model encoder_decoder();

/// Each layer of the upward half reads its mirror image's output.
graph_model u_net();

/// A layer for each of two inputs, both read by a third; a loss of the first
/// input's layers besides that of the last layer.
graph_model two_towers();
