// Where text came from: how many of its bytes each id brought, in order. Text that stages hold back, pass on and drop is followed
// by the number of its bytes alone.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lapidary::text {

struct Origin {
  int number = 0;  // of the id among those of the output
  std::size_t bytes = 0;
};

class Origins {
 public:
  void add(Origin origin);  // behind the others
  void add(std::span<const Origin> origins);

  // Of the first so many bytes, which are not here any more.
  std::vector<Origin> take(std::size_t bytes);
  // Likewise of what a stage passes on of the text here, while it holds some back behind that: what it does neither with stood in
  // front and was dropped.
  std::vector<Origin> pass(std::size_t passed, std::size_t held);

 private:
  std::vector<Origin> origins_;
  std::size_t bytes_ = 0;
};

}  // namespace lapidary::text
