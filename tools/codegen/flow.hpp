// Who waits for whom in a list of primitives or steps, and which of them made each operand.
#pragma once

#include "stages.hpp"

namespace lapidary::codegen {

class Flow {
 public:
  explicit Flow(const std::vector<Node>& nodes);

  static constexpr int kOutside = -1;
  int producer(int node, std::size_t operand) const {  // kOutside: nobody in the list
    const auto& of_node = producers_[static_cast<std::size_t>(node)];
    return operand < of_node.size() ? of_node[operand] : kOutside;
  }
  // Those after it that must stay so: they take its results, or write what it reads or writes.
  const std::vector<int>& followers(int node) const { return followers_[static_cast<std::size_t>(node)]; }

 private:
  std::vector<std::vector<int>> producers_, followers_;
};

}  // namespace lapidary::codegen
