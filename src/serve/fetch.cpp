#include "serve/fetch.hpp"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "checkpoint/error.hpp"
#include "checkpoint/open_library.hpp"
#include "serve/http_head.hpp"

namespace lapidary::serve {
namespace {

constexpr const char* kFlag = "--allow-media-from";

#define LAPIDARY_CURL_FUNCTIONS(of) \
  of(curl_easy_cleanup) of(curl_easy_getinfo) of(curl_easy_init) of(curl_easy_perform) of(curl_easy_setopt) of(curl_free) \
  of(curl_global_init) of(curl_slist_append) of(curl_slist_free_all) of(curl_url) of(curl_url_cleanup) of(curl_url_get) of(curl_url_set)

// Opened when a server is told of hosts: thirty libraries come with it, and every start would take 6 ms longer.
struct Curl {
#define LAPIDARY_MEMBER(name) decltype(&::name) name = nullptr;
  LAPIDARY_CURL_FUNCTIONS(LAPIDARY_MEMBER)
#undef LAPIDARY_MEMBER

  Curl() {
    constexpr int kVersion = 4;
    void* const library = open_library("curl", kVersion, LAPIDARY_CURL_FOLDER);
    if (!library) fail(ErrorKind::io, kFlag, "libcurl, expected it where this program is, got " + library_fault());
#define LAPIDARY_FIND(name)                                                \
  this->name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  if (!this->name) fail(ErrorKind::io, kFlag, "libcurl, expected " #name ", got a library without");
    LAPIDARY_CURL_FUNCTIONS(LAPIDARY_FIND)
#undef LAPIDARY_FIND
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) fail(ErrorKind::io, kFlag, "libcurl, expected it to begin, got an error");
  }
};

const Curl& curl() {
  static const Curl functions;
  return functions;
}

struct Cleanup {
  void operator()(CURL* transfer) const { curl().curl_easy_cleanup(transfer); }
  void operator()(CURLU* url) const { curl().curl_url_cleanup(url); }
  void operator()(curl_slist* list) const { curl().curl_slist_free_all(list); }
};

// An address as the one who fetches reads it.
struct Address {
  std::unique_ptr<CURLU, Cleanup> parts{curl().curl_url()};
  std::string host{};  // in lower case
};

std::string part_of(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl().curl_url_get(url, part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return {};
  std::string copy = text;
  curl().curl_free(text);
  return copy;
}

// Nothing for one that is not https at its usual port, or that names a user.
std::optional<Address> read_address(const std::string& url) {
  Address address;
  CURLU* const parts = address.parts.get();
  if (curl().curl_url_set(parts, CURLUPART_URL, url.c_str(), CURLU_DISALLOW_USER) != CURLUE_OK) return std::nullopt;
  if (part_of(parts, CURLUPART_SCHEME) != "https" || part_of(parts, CURLUPART_PORT) != "443") return std::nullopt;
  address.host = in_lower_case(part_of(parts, CURLUPART_HOST));
  return address;
}

// Of IPv6, where IPv4 is ::ffff:0:0/96. The first that an address is in decides; one that is in none is not public: that is the
// unspecified ::, loopback ::1, unique local fc00::/7, link-local fe80::/10, site-local fec0::/10, multicast ff00::/8 and more.
struct Range {
  const char* first;
  int bits;
  bool is_public;
};
constexpr Range kRanges[] = {
    {"::ffff:0.0.0.0", 96 + 8, false},       // this network, unspecified
    {"::ffff:10.0.0.0", 96 + 8, false},      // private
    {"::ffff:100.64.0.0", 96 + 10, false},   // shared by the customers of a provider
    {"::ffff:127.0.0.0", 96 + 8, false},     // loopback
    {"::ffff:169.254.0.0", 96 + 16, false},  // link-local, and what clouds tell their machines
    {"::ffff:172.16.0.0", 96 + 12, false},   // private
    {"::ffff:192.0.0.0", 96 + 24, false},    // of protocols
    {"::ffff:192.0.2.0", 96 + 24, false},    // for documents
    {"::ffff:192.88.99.0", 96 + 24, false},  // relays of 6to4
    {"::ffff:192.168.0.0", 96 + 16, false},  // private
    {"::ffff:198.18.0.0", 96 + 15, false},   // for measurements
    {"::ffff:198.51.100.0", 96 + 24, false}, // for documents
    {"::ffff:203.0.113.0", 96 + 24, false},  // for documents
    {"::ffff:224.0.0.0", 96 + 4, false},     // multicast
    {"::ffff:240.0.0.0", 96 + 4, false},     // reserved, broadcast
    {"::ffff:0.0.0.0", 96, true},            // the rest of IPv4
    {"2001::", 23, false},                   // of protocols, Teredo
    {"2001:db8::", 32, false},               // for documents
    {"2002::", 16, false},                   // 6to4: IPv4 behind a relay
    {"3fff::", 20, false},                   // for documents
    {"2000::", 3, true},                     // the rest of what is global
};
constexpr Range kNat64 = {"64:ff9b::", 96, true};  // IPv4 behind a gateway: as public as that

bool is_in(const in6_addr& address, const Range& range) {
  in6_addr first;
  inet_pton(AF_INET6, range.first, &first);
  const auto whole = static_cast<std::size_t>(range.bits / 8);
  const int shift = 8 - range.bits % 8;
  return std::memcmp(&address, &first, whole) == 0 && (shift == 8 || address.s6_addr[whole] >> shift == first.s6_addr[whole] >> shift);
}

struct Body {
  CURL* transfer;
  std::size_t most_bytes;
  std::string bytes;
};

long status_of(CURL* transfer) {
  long status = 0;
  curl().curl_easy_getinfo(transfer, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

// These are called by libcurl. What they refuse ends the transfer.
curl_socket_t open_socket(void* rules, curlsocktype, curl_sockaddr* address) {
  if (!static_cast<const FetchRules*>(rules)->may_connect(address->addr)) return CURL_SOCKET_BAD;
  return ::socket(address->family, address->socktype, address->protocol);
}

std::size_t take(char* bytes, std::size_t, std::size_t count, void* to) {
  Body& body = *static_cast<Body*>(to);
  if (count > body.most_bytes - body.bytes.size() || status_of(body.transfer) != 200) return CURL_WRITEFUNC_ERROR;
  body.bytes.append(bytes, count);
  return count;
}

int look_up(void* limits, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const std::atomic<bool>* cancelled = static_cast<const FetchLimits*>(limits)->cancelled;
  return cancelled && *cancelled ? 1 : 0;
}

class CurlFetcher final : public Fetcher {
 public:
  explicit CurlFetcher(FetchRules rules) : rules_(std::move(rules)) {
    for (std::string& host : rules_.hosts) {
      host = in_lower_case(host);
      const auto address = read_address("https://" + host + "/");
      if (!address || address->host != host) fail(ErrorKind::usage, kFlag, "expected the name of a host alone, got " + host);
    }
  }

  bool allows(const std::string& url) const override {
    const auto address = read_address(url);
    return address && std::ranges::find(rules_.hosts, address->host) != rules_.hosts.end();
  }

  std::string fetch(const std::string& url, const std::string& where, const FetchLimits& limits) const override;

 private:
  FetchRules rules_;
};

std::string CurlFetcher::fetch(const std::string& url, const std::string& where, const FetchLimits& limits) const {
  const auto address = read_address(url);
  const std::unique_ptr<CURL, Cleanup> transfer(curl().curl_easy_init());
  const std::unique_ptr<curl_slist, Cleanup> connect_to(
      rules_.connect_to.empty() ? nullptr : curl().curl_slist_append(nullptr, rules_.connect_to.c_str()));
  Body body{.transfer = transfer.get(), .most_bytes = limits.bytes, .bytes = {}};
  const auto set = [&](CURLoption option, auto value) {
    if (curl().curl_easy_setopt(transfer.get(), option, value) != CURLE_OK)
      fail(ErrorKind::io, where, "libcurl, expected one with all options, got another");
  };
  // Redirects, .netrc, cookies and compression are off as long as nobody asks for them.
  set(CURLOPT_CURLU, address->parts.get());
  set(CURLOPT_PROTOCOLS_STR, "https");
  set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  set(CURLOPT_USERAGENT, "lapidary/" LAPIDARY_VERSION);
  set(CURLOPT_PROXY, "");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_TIMEOUT_MS, std::max(1L, static_cast<long>(1000 * limits.seconds)));
  set(CURLOPT_QUICK_EXIT, 1L);  // or the end would wait for a name that is being looked up
  set(CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(limits.bytes));
  set(CURLOPT_OPENSOCKETFUNCTION, &open_socket);
  set(CURLOPT_OPENSOCKETDATA, &rules_);
  set(CURLOPT_WRITEFUNCTION, &take);
  set(CURLOPT_WRITEDATA, &body);
  set(CURLOPT_XFERINFOFUNCTION, &look_up);
  set(CURLOPT_XFERINFODATA, &limits);
  set(CURLOPT_NOPROGRESS, 0L);
  if (!rules_.authorities.empty()) set(CURLOPT_CAINFO, rules_.authorities.c_str());
  if (connect_to) set(CURLOPT_CONNECT_TO, connect_to.get());

  const CURLcode result = curl().curl_easy_perform(transfer.get());
  const long status = status_of(transfer.get());
  const auto stop = [&](const std::string& got) { fail(ErrorKind::io, where, "picture, expected it from " + address->host + ", got " + got); };
  if (result == CURLE_OPERATION_TIMEDOUT) stop("no end in time");
  if (status != 0 && status != 200) stop("status " + std::to_string(status));
  if (result == CURLE_FILESIZE_EXCEEDED || result == CURLE_WRITE_ERROR)
    fail(ErrorKind::too_large, where, "file, expected at most " + std::to_string(limits.bytes) + " bytes, got more");
  if (result == CURLE_PEER_FAILED_VERIFICATION) stop("a certificate that does not hold");
  if (result != CURLE_OK) stop("no connection that lasts");
  return std::move(body.bytes);
}

}  // namespace

bool is_public(const sockaddr& address) {
  in6_addr whole{};
  constexpr std::size_t kBefore = 12;  // bytes in front of IPv4
  const auto set_mapped = [&] {
    std::memset(&whole, 0, kBefore - 2);
    std::memset(whole.s6_addr + kBefore - 2, 0xff, 2);
  };
  if (address.sa_family == AF_INET) {
    set_mapped();
    std::memcpy(whole.s6_addr + kBefore, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, sizeof(in_addr));
  } else if (address.sa_family == AF_INET6) {
    whole = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    if (is_in(whole, kNat64)) set_mapped();
  } else {
    return false;
  }
  const auto range = std::ranges::find_if(kRanges, [&](const Range& range) { return is_in(whole, range); });
  return range != std::end(kRanges) && range->is_public;
}

std::unique_ptr<Fetcher> make_fetcher(FetchRules rules) { return std::make_unique<CurlFetcher>(std::move(rules)); }

}  // namespace lapidary::serve
