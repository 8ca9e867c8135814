// Server-sent events read back, however they arrive.
#include <boost/ut.hpp>

#include "serve/event_reader.hpp"
#include "serve/events.hpp"
#include "support/cases.hpp"
#include "support/random.hpp"

namespace lapidary::test::event_reader_test {
namespace {

using namespace boost::ut;
using serve::EventReader;

// "type|data" of each.
using Events = std::vector<std::string>;
Events pushed(EventReader& reader, std::string_view bytes) {
  Events events;
  for (const serve::ServerEvent& event : reader.push(bytes)) events.push_back(event.type + "|" + event.data);
  return events;
}

const suite<"event reader"> event_reader = [] {
  "events are those that were written, in pieces of any size"_test = [] {
    const std::string stream = serve::event(text::Value("one")) + ": waiting\n\n" + serve::event("ping", text::Value("a\nb")) +
                               "data\n\nid: 7\nretry: 1\n\ndata:first\r\ndata:  second\r\n\r\nevent:x\rdata:y\r\r\n" + std::string(serve::kDone) +
                               "data: never ended";
    const Events expected = {"|\"one\"", "ping|\"a\\nb\"", "|", "|first\n second", "x|y", "|[DONE]"};
    Random random(1);
    for (int round = 0; round < 300; ++round) {
      EventReader reader;
      Events events;
      for (std::size_t at = 0; at < stream.size();) {
        const auto piece = static_cast<std::size_t>(round == 0 ? 1 : 1 + random.below(round));
        for (const std::string& event : pushed(reader, std::string_view(stream).substr(at, piece))) events.push_back(event);
        at += piece;
      }
      expect(events == expected) << "round" << round << events.size();
    }
  };

  "an event comes with its last byte, and a type is of one event"_test = [] {
    EventReader reader;
    expect(reader.push("event: a\n\ndata: 1\n").empty());
    expect(pushed(reader, "\n") == Events{"|1"});
    expect(pushed(reader, "data: 2\r\n\r") == Events{"|2"});
    expect(reader.push("\n").empty());
  };

  "one that never ends is refused"_test = [] {
    EventReader reader;
    const std::string line = "data: " + std::string(1 << 20, 'x') + "\n";
    const auto error = error_of([&] {
      for (std::size_t i = 0; i <= EventReader::kMaxEventBytes >> 20; ++i) reader.push(line);
    });
    expect(fatal(error.has_value()));
    expect(error->message() == "[event] bytes, expected at most 67108864, got more");
  };
};

}  // namespace
}  // namespace lapidary::test::event_reader_test
