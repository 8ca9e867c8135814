// How the numbers of a tensor lie in the file.
#pragma once

#include "graph/storage.hpp"

namespace lapidary {

using graph::bytes_of;
using graph::DType;
using graph::Encoding;
using graph::Storage;

}  // namespace lapidary
