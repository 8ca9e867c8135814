// What `inspect` says of the towers of a model.
#pragma once

#include "graph/listing.hpp"
#include "link/link.hpp"
#include "text/value.hpp"

namespace lapidary::cli {

// Their shape, bytes and cost; of one whose tensors the checkpoint lacks, what is missing.
void print_towers(const link::Program& program);
text::Value json_of_towers(const link::Program& program);

// Their weights, for listings. By WeightId; empty for all others.
std::vector<link::Matrix> tower_matrices(const link::Program& program);

}  // namespace lapidary::cli
