// SHA-256, against the vectors of FIPS 180-4 and what another implementation made of many sizes.
#include <boost/ut.hpp>

#include "checkpoint/sha256.hpp"
#include "support/cases.hpp"
#include "support/random.hpp"

namespace lapidary::test::sha256_test {
namespace {

using namespace boost::ut;

struct Golden {
  std::size_t bytes;
  std::string_view hash;
};

// Byte i of n is (i * i + 7 * i + n) % 251. The sizes lie around the ends of blocks, of the padding, and of what is read
// from a file at a time.
constexpr Golden kGolden[] = {
    {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {1, "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a"},
    {3, "bdbf27d3c0c2a7f9ff28282f690efcc5a62ce2939955e5e35406a5e9f683d83b"},
    {54, "1c1edf3f0b2d23adec60aa7b3b687bba93038e49876986cef2f2dfc684d25872"},
    {55, "7bf810506b49f9601e32ea0a9b582060b9e0675c56fe14cf97fd1d629a58f1ba"},
    {56, "5a8a9cdedaf91e4adbc37e2dfcf26d757df9ef972cff60dc15224eff9742eb60"},
    {57, "16124343e779afc7be90c84aaddfc42a9e187ac2b0651aafbeb478b2661a9e3e"},
    {63, "d20ed0cb0803ab30537e4641da547e4a895a1b51a0e89bd3ce98bb6a6b82d37f"},
    {64, "b36b3b9c75a7ae8c7783800178ab14349014b369c58f921fabc4059c96add023"},
    {65, "81ad31d570ea0780d4bdc154804d47f9966046859d32ec23e473f29916620b16"},
    {111, "2d350c600ae5360170b3f02b712d8a20a07753d0bbe803c9fed75071a8129e69"},
    {112, "3941a8b38b45d0c3977013232a63cd1cbeb5b50bac74d427350feb1c092fa673"},
    {119, "831eb4089636f39fcd7d0150b5feb255b5ba7132263e37965491a6dd2dbc3e0e"},
    {120, "bcc9289d8a798bf9cd7f655289c5db417fc89c8fee3dd449b6cc608d34d7553e"},
    {121, "79f9d91e7b0282e901c3356f57f66ad7ef87044b160eaa8d32b0c026c795dc00"},
    {127, "db9b5cf69376d27c091856ef381ac539272e33f9c59577ed48447248f49797de"},
    {128, "76919f71377a1835489688180f534d9378ad5df1abe0b28e1a72e7e6aded8732"},
    {129, "260850121df160e710c1ca4d9943ec77385aff50f7bb79187a1dc7197d37fab2"},
    {191, "8246e8097a16f4147318552e6a4cb09bed38b74a5f544c897f2c0f6877f56f19"},
    {192, "7ba290c2146e3ef00a3cb373569d2515bb36aa1028af9c1c48b47203203239fe"},
    {1000, "01f9ac0cdc37703d13868d5bf15c26b447edeeeefb7342ce94d913697f68f70f"},
    {65535, "ed435069abf98579fcfd29d2c304ba0d57574e88830f4a559c9b648ca5a8049a"},
    {65536, "b51b69195a4c611dd5a71af1c5326299620dc3078e57a23e6845f7751ba5eb39"},
    {1048575, "e4ffac2d49ee2fa86736645fed5303889def6cd674a0e2fb66372d9b0e777e43"},
    {1048576, "f1c05d2f450ff2736475052f069d509686bf891cdae96b82dcd8909e82b7756a"},
    {1048577, "5b828cebe562f837fa2bda2722d653332f6295ba2a4887f2915141ccb900fc03"},
    {2097152, "8334df926b6063e346df139ded343952deafa9a2a13cdb9fe0d1f67abc21eb96"},
    {2097153, "152359bd1176ba52984896f89c278a04f9355a1758e789a5956392f2501cf413"},
};

std::string message_of(std::size_t bytes) {
  std::string message;
  for (std::uint64_t i = 0; i < bytes; ++i) message += static_cast<char>((i * i + 7 * i + bytes) % 251);
  return message;
}

const suite<"sha256"> sha256_suite = [] {
  "the vectors of the standard"_test = [] {
    for (const Sha256Code code : {Sha256Code::portable, fastest_sha256()}) {
      const auto hash = [code](std::string_view text) { return sha256_hex(bytes_of(text), code); };
      expect(hash("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
      expect(hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
      expect(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
             "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
      expect(hash(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
  };

  "sizes around the ends of blocks"_test = [] {
    for (const Golden& golden : kGolden) {
      const std::string message = message_of(golden.bytes);
      expect(sha256_hex(bytes_of(message), Sha256Code::portable) == golden.hash) << golden.bytes;
      expect(sha256_hex(bytes_of(message)) == golden.hash) << golden.bytes;
    }
  };

  "both codes agree on any bytes at any address"_test = [] {
    Random random(1);
    std::string bytes(5000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.bits());
    for (int round = 0; round < 2000; ++round) {
      const auto begin = static_cast<std::size_t>(random.below(4000));
      const auto part = bytes_of(bytes).subspan(begin, static_cast<std::size_t>(random.below(1000)));
      expect(sha256_hex(part, Sha256Code::portable) == sha256_hex(part, fastest_sha256())) << "round" << round;
    }
  };

  "a file has the hash of its bytes"_test = [] {
    const TemporaryFolder folder;
    for (const Golden& golden : kGolden) {
      folder.write("file", message_of(golden.bytes));
      expect(sha256_of_file(folder.path("file")) == golden.hash) << golden.bytes;
    }
  };

  "what is no file is refused"_test = [] {
    const TemporaryFolder folder;
    for (const std::string& path : {folder.path("none"), folder.path(), std::string("/dev/null")}) {
      const auto error = error_of([&] { sha256_of_file(path); });
      expect(fatal(error.has_value())) << path;
      expect(error->kind == ErrorKind::io && error->where == path) << path;
    }
  };
};

}  // namespace
}  // namespace lapidary::test::sha256_test
