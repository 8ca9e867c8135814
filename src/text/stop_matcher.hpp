// Ends a stream of text at the first stop string. Holds back what may be the beginning of one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lapidary::text {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);  // none of them empty

  // The text that is certain to come before any stop string. Nothing more comes once `matched`.
  std::string push(std::string_view text);
  std::string finish();  // what was held back when the stream ends without a match
  bool matched() const { return !match_.empty(); }
  const std::string& match() const { return match_; }  // the stop string that ended it

 private:
  std::vector<std::string> stops_;
  std::string held_, match_;
};

}  // namespace lapidary::text
