// The safetensors reader against broken and odd files, and the writer against the reader.
#include <boost/ut.hpp>

#include "support/cases.hpp"

namespace lapidary::test::safetensors_test {
namespace {

using namespace boost::ut;

std::string outcome(std::string_view header, std::string_view data) {
  const std::string file = safetensors_file(header, data);
  return outcome_of([&] { parse_safetensors(bytes_of(file), "test"); });
}

suite<"safetensors"> safetensors_suite = [] {
  "every safetensors case of the manifest"_test = [] {
    const auto cases = cases_about("safetensors");
    expect(cases.size() >= 34_ul);
    for (const Case& bad : cases) {
      const std::string file = read_text_file(bad.path);
      const auto error = error_of([&] { parse_safetensors(bytes_of(file), bad.path); });
      expect(is_expected(bad, error)) << bad.path << "expected" << bad.expect << (error ? error->message() : "ok") << "\n";
    }
  };

  "tensors are views into the file, sorted by name, at any alignment"_test = [] {
    const std::string file = safetensors_file(
        R"({"b":{"dtype":"F32","shape":[1,2],"data_offsets":[3,11]},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
        "xyz01234567");
    const auto tensors = parse_safetensors(bytes_of(file), "test");
    expect(fatal(tensors.size() == 2_ul));
    expect(tensors[0].name == "a" && tensors[1].name == "b");
    const auto* data = reinterpret_cast<const std::byte*>(file.data() + file.size() - 11);
    expect(tensors[0].tensor.bytes.data() == data && tensors[0].tensor.bytes.size() == 3_ul);
    expect(tensors[1].tensor.bytes.data() == data + 3 && tensors[1].tensor.bytes.size() == 8_ul);
    expect(tensors[1].tensor.type == DType::f32);
    expect(tensors[1].tensor.shape == std::vector<std::int64_t>{1, 2});
  };

  "every dtype has the name and size of the format"_test = [] {
    for (int i = 0; i <= static_cast<int>(DType::f64); ++i) {
      const auto type = static_cast<DType>(i);
      const std::size_t bytes = bytes_of(type);
      const std::string header = R"({"t":{"dtype":")" + std::string(name_of(type)) + R"(","shape":[3],"data_offsets":[0,)" +
                                 std::to_string(3 * bytes) + "]}}";
      const std::string file = safetensors_file(header, std::string(3 * bytes, 'x'));
      const auto tensors = parse_safetensors(bytes_of(file), "test");
      expect(tensors.at(0).tensor.type == type) << name_of(type) << "\n";
    }
  };

  "odd descriptions are refused"_test = [] {
    const auto described_as = [](std::string_view description) {
      return outcome(R"({"t":)" + std::string(description) + "}", "0123");
    };
    expect(described_as(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})") == "ok");
    expect(described_as(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"more":1})") == "ok");
    expect(described_as(R"({"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]})") == "header_not_json");
    expect(described_as(R"(["U8",[4],[0,4]])") == "header_not_json");
    expect(described_as(R"({"dtype":"u8","shape":[4],"data_offsets":[0,4]})") == "unknown_dtype");
    expect(described_as(R"({"dtype":"U8","shape":[1,1,1,1,1,1,1,4],"data_offsets":[0,4]})") == "ok");
    expect(described_as(R"({"dtype":"U8","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,4]})") == "bad_shape");
    expect(described_as(R"({"dtype":"U8","shape":[4.0],"data_offsets":[0,4]})") == "bad_shape");
    expect(described_as(R"({"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,4]})") == "bad_shape");
    expect(described_as(R"({"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]})") == "bad_shape");
    expect(described_as(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4,4]})") == "bad_offsets");
    expect(described_as(R"({"dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551615]})") == "bad_offsets");
    expect(described_as(R"({"dtype":"U8","shape":[3],"data_offsets":[0,3]})") == "gap");
    expect(described_as(R"({"dtype":"U8","shape":[5],"data_offsets":[0,4]})") == "size_mismatch");
  };

  "an empty tensor lies at the border of others, not inside one"_test = [] {
    const std::string four = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"e":{"dtype":"U8","shape":[0],"data_offsets":)";
    expect(outcome(four + "[0,0]}}", "0123") == "ok");
    expect(outcome(four + "[4,4]}}", "0123") == "ok");
    expect(outcome(four + "[2,2]}}", "0123") == "overlap");
  };

  "control characters of a name do not reach the message"_test = [] {
    const std::string file = safetensors_file(R"({"\u001b[2J":7})", "");
    const auto error = error_of([&] { parse_safetensors(bytes_of(file), "test"); });
    expect(fatal(error.has_value()));
    expect(error->message().find('\x1b') == std::string::npos) << error->message() << "\n";
  };
};

suite<"write_safetensors"> write_suite = [] {
  const auto tensor = [](std::string name, DType type, std::vector<std::int64_t> shape, std::string_view data) {
    return NamedTensor{std::move(name), {type, std::move(shape), bytes_of(data)}};
  };
  const std::vector<NamedTensor> written = {
      tensor("z", DType::u8, {3}, "abc"),
      tensor("quote\" backslash\\ line\n ü", DType::bf16, {2, 1}, "defg"),
      tensor("empty", DType::f32, {0, 5}, ""),
      tensor("scalar", DType::f32, {}, "hijk"),
  };

  "what is written is read back, byte for byte"_test = [written] {
    const TemporaryFolder folder;
    write_safetensors(folder.path("t.safetensors"), written);
    const std::string file = read_text_file(folder.path("t.safetensors"));
    const auto read = parse_safetensors(bytes_of(file), "test");
    expect(fatal(read.size() == written.size()));
    for (const NamedTensor& wanted : written) {
      const auto found = std::ranges::find(read, wanted.name, &NamedTensor::name);
      expect(fatal(found != read.end())) << wanted.name;
      expect(found->tensor.type == wanted.tensor.type && found->tensor.shape == wanted.tensor.shape);
      expect(std::ranges::equal(found->tensor.bytes, wanted.tensor.bytes));
    }
    // in the order given: the two-byte numbers after three bytes, unaligned
    const auto& unaligned = std::ranges::find(read, written[1].name, &NamedTensor::name)->tensor;
    expect(unaligned.bytes.data() == reinterpret_cast<const std::byte*>(file.data()) + file.size() - 11 + 3);
  };

  "no tensors make a valid file"_test = [] {
    const TemporaryFolder folder;
    write_safetensors(folder.path("t.safetensors"), {});
    const std::string file = read_text_file(folder.path("t.safetensors"));
    expect(parse_safetensors(bytes_of(file), "test").empty());
  };

  "a file is replaced as a whole and a failure leaves nothing behind"_test = [written] {
    const TemporaryFolder folder;
    folder.write("t.safetensors", "old");
    write_safetensors(folder.path("t.safetensors"), written);
    expect(read_text_file(folder.path("t.safetensors")) != "old");

    std::filesystem::create_directories(folder.path("taken/inside"));  // a rename onto it fails
    expect(outcome_of([&] { write_safetensors(folder.path("taken"), written); }) == "io");
    expect(outcome_of([&] { write_safetensors(folder.path("no/such/folder"), written); }) == "io");
    std::vector<std::string> left;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) left.push_back(entry.path().filename());
    std::ranges::sort(left);
    expect(left == std::vector<std::string>{"t.safetensors", "taken"});
  };
};

}  // namespace
}  // namespace lapidary::test::safetensors_test
