// In place of fetch.cpp, where there was no libcurl to build with.
#include "checkpoint/error.hpp"
#include "serve/fetch.hpp"

namespace lapidary::serve {

std::unique_ptr<Fetcher> make_fetcher(FetchRules) {
  fail(ErrorKind::unsupported, "--allow-media-from", "expected a program built with libcurl4-openssl-dev, got one without");
}

}  // namespace lapidary::serve
