// The software Metal device notices what it must, and does the rest as Metal does.
#include <boost/ut.hpp>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "metal/softmetal_cases.hpp"
#include "softmetal/softmetal.h"

namespace lapidary::test::softmetal_test {
namespace {

using namespace boost::ut;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// What is known of a kernel's mistake: what a plain run shows, what a checked one says, and whether seeds change the
// result.
struct PlantedBug {
  const char* kernel;
  const char* plain;    // "bits" = nothing is noticed
  const char* checked;
  bool differs = false;
};

const std::vector<PlantedBug> kBugs = {
    {"good", "bits", "bits"},
    {"missing_barrier", "not a number", "race, a thread reads what another writes"},
    {"wrong_flag", "bits", "race, a thread reads what another writes"},
    {"reused_too_early", "bits", "race, a thread writes what another reads", true},
    {"simdgroup_race", "not a number", "race, a thread reads what another writes"},
    {"race_of_groups", "bits", "race, two threads write", true},
    {"read_past_end", "past the end of [[buffer(0)]]", "read out of bounds"},
    {"read_before_begin", "bits", "read out of bounds"},
    {"threadgroup_overflow", "bits", "out of bounds: 4 bytes of threadgroup memory"},
    {"not_initialised", "not a number", "not a number"},
    {"divergent_barrier", "different threadgroup_barriers", "different threadgroup_barriers"},
    {"return_before_barrier", "threadgroup_barrier after some threads returned",
     "threadgroup_barrier after some threads returned"},
    {"divergent_simd", "different simd functions", "different simd functions"},
    {"simd_and_barrier", "at a simd function and at threadgroup_barrier", "at a simd function and at threadgroup_barrier"},
    {"too_much_stack", "its stack is used up", "its stack is used up"},
    {"too_much_threadgroup_memory", "bytes of threadgroup memory, more than 32768", "more than 32768"},
    {"atomic_race", "bits", "by an atomic"},
    {"atomic_past_end", "past the end of [[buffer(1)]]", "write out of bounds"},
};

struct PlantedMistake {
  const char* name;
  const char* message;
};

const std::vector<PlantedMistake> kMistakes = {
    {"none at all", "nothing noticed"},
    {"no pool", "autoreleased with no pool in place"},
    {"pools in the wrong order", "drained in the reverse of their order"},
    {"text that does not compile", "use of undeclared identifier 'y'"},
    {"a second try to compile", "a text that did not compile before"},
    {"memory that is not whole pages", "whole pages"},
    {"released too often", "-[(freed object) length]: message to a freed object"},
    {"a method that is not there", "-[MTLCommandBuffer blitCommandEncoder]: the software device lacks this method"},
    {"a class that is not there", "-[MTLTextureDescriptor alloc]: the software device lacks this class"},
    {"a pipeline that is not for indirect commands", "lacks supportIndirectCommandBuffers"},
    {"too few bindings", "maxKernelBufferBindCount is 1"},
    {"nothing bound", "[[buffer(1)]] has nothing bound to it"},
    {"another type of command", "is not among the command types"},
    {"an empty grid", "an empty grid"},
    {"too many threads", "2048 threads in a threadgroup"},
    {"a barrier too late", "setBarrier after the dispatch is encoded"},
    {"bytes too many", "setBytes of 8192 bytes"},
    {"no pipeline", "without a compute pipeline state"},
    {"an offset behind the end", "offset 4096 lies behind the end"},
    {"an odd offset", "offset 2, which is not a multiple of 4"},
    {"an odd offset in an indirect command", "offset 2, which is not a multiple of 4"},
    {"threadgroup memory of 20 bytes", "not a multiple of 16"},
    {"an index too high", "buffer index 31"},
    {"a sample between dispatches", "where an encoder begins and ends"},
    {"a debug group left open", "a debug group still open"},
    {"not resident", "which is not resident"},
    {"a range too long", "indirect commands 0 to 3 of 1"},
    {"an encoder left open", "while an encoder is open"},
    {"a second encoder", "while an encoder is open"},
    {"used after its end", "after endEncoding"},
    {"changed while it runs", "while a committed command buffer replays the command"},
    {"an event that goes back", "signalled with 1, it had 2"},
    {"committed twice", "on a command buffer that is committed"},
};

// How the program ended and what it said.
std::string said(const Outcome& outcome) { return outcome.out + outcome.err; }

suite<"softmetal"> softmetal_suite = [] {
  if (const char* name = std::getenv("SOFTMETAL_PLANTED")) {
    "a planted mistake"_test = [=] {
      run_planted(name);
      std::_Exit(0);
    };
    return;
  }

  "the software device notices mistakes of kernels"_test = [] {
    for (const PlantedBug& bug : kBugs) {
      const std::string name = std::string("kernel: ") + bug.kernel;
      const std::string plain = said(outcome_of_planted(name, "SOFTMETAL_THREADS=1"));
      expect(contains(plain, bug.plain)) << bug.kernel << "plain:" << plain;
      const std::string checked = said(outcome_of_planted(name, "SOFTMETAL_CHECK=1"));
      expect(contains(checked, bug.checked)) << bug.kernel << "checked:" << checked;
    }
  };

  "seeds change the result of kernels that depend on an order, and of no others"_test = [] {
    for (const PlantedBug& bug : kBugs) {
      if (std::string(bug.kernel) != "good" && !bug.differs) continue;
      std::set<std::string> results;
      for (const char* seed : {"0", "1", "2", "3"})
        results.insert(outcome_of_planted(std::string("kernel: ") + bug.kernel,
                                          std::string("SOFTMETAL_THREADS=1 SOFTMETAL_SEED=") + seed)
                           .out);
      expect((results.size() > 1) == bug.differs) << bug.kernel << results.size();
    }
  };

  "the checker names the line"_test = [] {
    const std::string checked = said(outcome_of_planted("kernel: wrong_flag", "SOFTMETAL_CHECK=1"));
    expect(contains(checked, "wrong_flag, threadgroup (0, 0, 0)")) << checked;
    const std::string text = read_all(kSoftmetal + "/cases/bugs.metal");
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(
        text.find("y[i] = shared[63 - t]", text.find("kernel void wrong_flag"))), '\n');
    expect(contains(checked, "program_source:" + std::to_string(line))) << checked;
  };

  "the software device notices misuse of Metal"_test = [] {
    for (const PlantedMistake& mistake : kMistakes) {
      const std::string text = said(outcome_of_planted(std::string("host: ") + mistake.name, "SOFTMETAL_ZOMBIES=1"));
      expect(contains(text, mistake.message)) << mistake.name << ":" << text;
    }
  };

  "command buffers in flight over memory that Metal does not track must be ordered"_test = [] {
    expect(contains(said(outcome_of_planted("passes: untracked", "SOFTMETAL_CHECK=1")), "race"));
    expect(contains(said(outcome_of_planted("passes: tracked", "SOFTMETAL_CHECK=1")), "no error"));
    expect(contains(said(outcome_of_planted("passes: after an event", "SOFTMETAL_CHECK=1")), "no error"));
  };

  "the lint takes good shader text and says what is wrong with the rest"_test = [] {
    const TemporaryFolder folder;
    const std::string path = folder.path("text.metal"), begin = "#include <metal_stdlib>\nusing namespace metal;\n";
    std::string good = begin;
    int bad = 0;
    std::istringstream cases(read_all(kSoftmetal + "/cases/lint.txt"));
    for (std::string line; std::getline(cases, line);) {
      if (line.empty() || line[0] == '#') continue;
      const std::size_t first = line.find(" | "), second = line.find("| ", first + 2);
      const std::string name = line.substr(0, first), text = line.substr(second + 2);
      const std::string message = second > first + 3 ? line.substr(first + 3, second - first - 4) : "";
      if (message.empty()) {
        good += text + "\n";
        continue;
      }
      ++bad;
      std::ofstream(path) << begin << text << "\n";
      const Outcome outcome = shell("sh " + kSoftmetal + "/lint " + path);
      expect(outcome.status != 0_i && contains(said(outcome), message)) << name << ":" << said(outcome);
    }
    expect(bad >= 31_i);
    std::ofstream(path) << good;
    const Outcome outcome = shell("sh " + kSoftmetal + "/lint " + path);
    expect(outcome.status == 0_i) << said(outcome);
    for (const char* file : {"bugs", "functions"})
      expect(shell("sh " + kSoftmetal + "/lint " + kSoftmetal + "/cases/" + file + ".metal").status == 0_i) << file;
  };
};

// The results of a kernel with 12 of them for each of 64 numbers.
template <class T>
std::vector<std::array<T, 12>> results_of(Rig& rig, const std::string& kernel, const std::vector<T>& x) {
  const auto in = rig.buffer(x), out = rig.buffer(x.size() * 12 * sizeof(T));
  const std::string problem = rig.run(kernel, in.get(), out.get(), static_cast<int>(x.size() / 64));
  expect(problem.empty()) << problem;
  std::vector<std::array<T, 12>> results(x.size());
  std::memcpy(results.data(), out->contents(), x.size() * 12 * sizeof(T));
  return results;
}

std::vector<std::uint32_t> some_integers() {
  std::vector<std::uint32_t> values(64);
  for (std::uint32_t i = 0; i < 64; ++i) values[i] = i < 3 ? i : i < 6 ? ~0u >> i : i * 2654435761u >> (i % 29);
  return values;
}

suite<"metal_stdlib"> metal_stdlib_suite = [] {
  if (std::getenv("SOFTMETAL_PLANTED")) return;

  "functions of integers are those of Metal"_test = [] {
    Rig rig("functions.metal");
    const auto x = some_integers();
    const auto y = results_of(rig, "integers", x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::uint32_t a = x[i];
      std::uint32_t reversed = 0;
      for (int bit = 0; bit < 32; ++bit) reversed |= (a >> bit & 1) << (31 - bit);
      const std::uint32_t field = a >> 5 & 127;
      const std::array<std::uint32_t, 12> expected = {
          static_cast<std::uint32_t>(std::popcount(a)), static_cast<std::uint32_t>(std::countl_zero(a)),
          static_cast<std::uint32_t>(std::countr_zero(a)), field, field & 64 ? field | ~127u : field,
          (a & ~(63u << 9)) | 0x2au << 9, reversed, static_cast<std::uint32_t>(std::uint64_t{a} * 0x9e3779b9u >> 32),
          static_cast<std::uint32_t>(std::int64_t{static_cast<std::int32_t>(a)} * -1640531527 >> 32), std::rotl(a, 11),
          std::min(a, 1000u) + std::max(a, 1000u) + std::clamp(a, 10u, 20u),
          static_cast<std::uint32_t>(std::countl_zero(static_cast<std::uint16_t>(a))) << 16 |
              static_cast<std::uint32_t>(std::popcount(static_cast<std::uint8_t>(a)))};
      for (std::size_t k = 0; k < 12; ++k) expect(y[i][k] == expected[k]) << "result" << k << "of" << a;
    }
  };

  "functions of numbers are those of Metal"_test = [] {
    Rig rig("functions.metal");
    std::vector<float> x(64);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i) - 30) * 0.25f;
    const auto y = results_of(rig, "floats", x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float a = x[i];
      const std::array<float, 12> expected = {
          a, a, std::clamp(a, -1.0f, 1.0f), a < 0 ? 5.0f : a, std::copysign(2.0f, a), std::nearbyint(a), std::round(a),
          1.0f / std::sqrt(a * a + 1.0f), -a, a, a, 2 * (a * 2.0f + 1.0f) + a + 2.0f};
      for (std::size_t k = 0; k < 12; ++k)
        expect(y[i][k] == expected[k]) << "result" << k << "of" << a << y[i][k] << expected[k];
    }
  };

  "functions of a simdgroup are those of Metal"_test = [] {
    Rig rig("functions.metal");
    std::vector<std::uint32_t> x(64);
    for (std::uint32_t i = 0; i < 64; ++i) x[i] = i * 37 % 101;
    const auto y = results_of(rig, "lanes", x);
    for (std::uint32_t i = 0; i < 64; ++i) {
      const std::uint32_t first = i / 32 * 32, lane = i % 32;
      const std::vector<std::uint32_t> all(x.begin() + first, x.begin() + first + 32);
      std::uint32_t votes = 0;
      for (std::uint32_t k = 0; k < 32; ++k) votes |= (all[k] & 1) << k;
      const auto sum = [&](std::uint32_t count) { return std::accumulate(all.begin(), all.begin() + count, 0u); };
      const bool any = std::ranges::count(all, 7u) > 0;
      const std::array<std::uint32_t, 12> expected = {
          sum(32), std::ranges::max(all), std::ranges::min(all), sum(lane), sum(lane + 1), all[lane ^ 5],
          lane + 3 < 32 ? all[lane + 3] : all[lane], lane >= 3 ? all[lane - 3] : all[lane], all[9], all[31 - lane], votes,
          static_cast<std::uint32_t>(any) | 2 | i / 32 << 8};
      for (std::size_t k = 0; k < 12; ++k) expect(y[i][k] == expected[k]) << "result" << k << "of lane" << i;
    }
  };

  "atomics count what every thread adds"_test = [] {
    Rig rig("functions.metal");
    std::vector<std::uint32_t> x(64 * 50);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint32_t>(i * i % 1009);
    const auto in = rig.buffer(x), out = rig.buffer(std::vector<std::uint32_t>(5));
    expect(rig.run("counts", in.get(), out.get(), 50).empty());
    const auto* y = static_cast<const std::uint32_t*>(out->contents());
    for (std::uint32_t k = 0; k < 4; ++k)
      expect(y[k] == std::ranges::count_if(x, [&](std::uint32_t value) { return (value & 3) == k; })) << k;
    expect(y[4] == std::ranges::max(x));
  };

  "matrices of a simdgroup are loaded transposed, multiplied and stored"_test = [] {
    Rig rig("functions.metal");
    std::vector<float> a(72);
    std::vector<_Float16> b(64);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 13) - 5;
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<_Float16>(static_cast<int>(i * 5 % 11) - 4);
    const auto left = rig.buffer(a), right = rig.buffer(b), product = rig.buffer(64 * sizeof(float));
    const auto compiled = rig.pipeline("matrices");
    const std::string problem = rig.run([&](MTL::ComputeCommandEncoder* encoder) {
      encoder->setComputePipelineState(compiled.get());
      encoder->setBuffer(left.get(), 0, 0);
      encoder->setBuffer(right.get(), 0, 1);
      encoder->setBuffer(product.get(), 0, 2);
      encoder->dispatchThreadgroups(MTL::Size(1, 1, 1), MTL::Size(32, 1, 1));
    });
    expect(problem.empty()) << problem;
    const auto* y = static_cast<const float*>(product->contents());
    for (std::size_t row = 0; row < 8; ++row)
      for (std::size_t column = 0; column < 8; ++column) {
        float expected = 1;
        for (std::size_t k = 0; k < 8; ++k) expected += a[k * 9 + row] * static_cast<float>(b[k * 8 + column]);
        expect(y[row * 8 + column] == expected) << row << column;
      }
  };
};

suite<"Metal objects"> objects_suite = [] {
  if (std::getenv("SOFTMETAL_PLANTED")) return;

  "function constants must be there and of their type, and decide which arguments there are"_test = [] {
    const MetalPool pool;
    Rig rig("functions.metal");
    const auto values = NS::TransferPtr(MTL::FunctionConstantValues::alloc()->init());
    const auto refusal = [&] {
      NS::Error* error = nullptr;
      const auto function = NS::TransferPtr(rig.library->newFunction(MTLSTR("specialised_by_100"), values.get(), &error));
      return function ? std::string() : error->localizedDescription()->utf8String();
    };
    const int first = 3;
    const bool with_second = false;
    const float third = 7;
    values->setConstantValue(&first, MTL::DataTypeInt, NS::UInteger{0});
    expect(contains(refusal(), "kWithSecond has no value"));
    values->setConstantValue(&first, MTL::DataTypeInt, NS::UInteger{1});
    expect(contains(refusal(), "kWithSecond is of type bool, its value of type int"));
    values->setConstantValue(&with_second, MTL::DataTypeBool, MTLSTR("kWithSecond"));
    values->setConstantValue(&with_second, MTL::DataTypeBool, NS::UInteger{1});
    expect(refusal().empty());
    const auto x = rig.buffer(std::vector<int>{5}), y = rig.buffer(std::vector<int>{0});
    const auto result = [&] {
      const auto compiled = rig.pipeline("specialised_by_100", false, values.get());
      expect(rig.run([&](MTL::ComputeCommandEncoder* encoder) {
        encoder->setComputePipelineState(compiled.get());
        encoder->setBuffer(x.get(), 0, 0);
        encoder->setBuffer(y.get(), 0, 1);
        encoder->dispatchThreads(MTL::Size(1, 1, 1), MTL::Size(1, 1, 1));
      }).empty());
      return *static_cast<const int*>(y->contents());
    };
    expect(result() == 121_i);
    values->setConstantValue(&third, MTL::DataTypeFloat, NS::UInteger{7});
    expect(result() == 128_i);
  };

  "a pipeline has the threads that the text allows"_test = [] {
    Rig rig("functions.metal");
    expect(rig.pipeline("aligned_arguments")->maxTotalThreadsPerThreadgroup() == 64_ul);
    expect(rig.pipeline("integers")->maxTotalThreadsPerThreadgroup() == 1024_ul);
  };

  "the messages of a replay do not depend on the number of commands"_test = [] {
    Rig rig("bugs.metal");
    const auto x = rig.buffer(numbers()), y = rig.buffer(kNumbers * sizeof(float));
    const auto compiled = rig.pipeline("add_one", true);
    const auto messages = [&](int count) {
      const auto indirect = rig.indirect(count);
      for (int i = 0; i < count; ++i) {
        MTL::IndirectComputeCommand* command = indirect->indirectComputeCommand(static_cast<NS::UInteger>(i));
        command->setComputePipelineState(compiled.get());
        command->setKernelBuffer(i % 2 ? y.get() : x.get(), 0, 0);
        command->setKernelBuffer(i % 2 ? x.get() : y.get(), 0, 1);
        command->setBarrier();
        command->concurrentDispatchThreadgroups(MTL::Size(4, 1, 1), MTL::Size(64, 1, 1));
      }
      const unsigned long before = softmetal_message_count(nullptr),
                          replays = softmetal_message_count("executeCommandsInBuffer:withRange:");
      const std::string problem = rig.run([&](MTL::ComputeCommandEncoder* encoder) {
        const MTL::Resource* used[] = {x.get(), y.get()};
        encoder->useResources(used, 2, MTL::ResourceUsageRead | MTL::ResourceUsageWrite);
        encoder->executeCommandsInBuffer(indirect.get(), NS::Range(0, static_cast<NS::UInteger>(count)));
      });
      expect(problem.empty()) << problem;
      expect(softmetal_message_count("executeCommandsInBuffer:withRange:") == replays + 1);
      return softmetal_message_count(nullptr) - before;
    };
    expect(messages(2) == messages(40));
    expect(static_cast<const float*>(x->contents())[3] == numbers()[3] + 42.0f);
  };

  "a completed command buffer has its times, its samples, its label, and tells its handlers and events"_test = [] {
    const long live = softmetal_live_objects("MTLCommandBuffer");
    Rig rig("bugs.metal");
    const auto x = rig.buffer(numbers()), y = rig.buffer(kNumbers * sizeof(float));
    const auto compiled = rig.pipeline("add_one");
    const auto event = NS::TransferPtr(rig.device->newSharedEvent());
    {
      const MetalPool pool;
      const auto descriptor = NS::TransferPtr(MTL::CounterSampleBufferDescriptor::alloc()->init());
      descriptor->setCounterSet(rig.device->counterSets()->object<MTL::CounterSet>(0));
      expect(
          rig.device->counterSets()->object<MTL::CounterSet>(0)->name()->isEqualToString(MTL::CommonCounterSetTimestamp));
      descriptor->setSampleCount(3);
      descriptor->setStorageMode(MTL::StorageModeShared);
      NS::Error* error = nullptr;
      const auto samples = NS::TransferPtr(rig.device->newCounterSampleBuffer(descriptor.get(), &error));
      MTL::ComputePassDescriptor* pass = MTL::ComputePassDescriptor::computePassDescriptor();
      pass->sampleBufferAttachments()->object(0)->setSampleBuffer(samples.get());
      pass->sampleBufferAttachments()->object(0)->setStartOfEncoderSampleIndex(0);
      pass->sampleBufferAttachments()->object(0)->setEndOfEncoderSampleIndex(2);
      MTL::CommandBuffer* commands = rig.queue->commandBuffer();
      commands->setLabel(MTLSTR("labelled"));
      MTL::ComputeCommandEncoder* encoder = commands->computeCommandEncoder(pass);
      encoder->setComputePipelineState(compiled.get());
      encoder->setBuffer(x.get(), 0, 0);
      encoder->setBuffer(y.get(), 0, 1);
      encoder->dispatchThreadgroups(MTL::Size(4, 1, 1), MTL::Size(64, 1, 1));
      encoder->endEncoding();
      commands->encodeSignalEvent(event.get(), 4);
      std::string handled;
      commands->addCompletedHandler([&handled](MTL::CommandBuffer* done) { handled = done->label()->utf8String(); });
      expect(commands->GPUEndTime() == 0.0_d);
      commands->commit();
      expect(event->waitUntilSignaledValue(4, 10'000));
      commands->waitUntilCompleted();
      expect(handled == std::string("labelled"));
      expect(commands->status() == MTL::CommandBufferStatusCompleted && commands->GPUEndTime() > commands->GPUStartTime());
      const auto* times = static_cast<const std::uint64_t*>(samples->resolveCounterRange(NS::Range(0, 3))->mutableBytes());
      expect(times[0] > 0 && times[2] >= times[0] && times[1] == MTL::CounterErrorValue);
    }
    // The queue lets go of it a moment later.
    for (int i = 0; i < 1000 && softmetal_live_objects("MTLCommandBuffer") > live; ++i) ::usleep(1000);
    expect(softmetal_live_objects("MTLCommandBuffer") <= live);
  };

  "buffers lie in heaps and over existing memory"_test = [] {
    Rig rig("bugs.metal");
    const auto descriptor = NS::TransferPtr(MTL::HeapDescriptor::alloc()->init());
    descriptor->setSize(1024);
    descriptor->setStorageMode(MTL::StorageModeShared);
    descriptor->setType(MTL::HeapTypePlacement);
    const auto placed = NS::TransferPtr(rig.device->newHeap(descriptor.get()));
    const auto low = NS::TransferPtr(placed->newBuffer(512, 0, 0)), high = NS::TransferPtr(placed->newBuffer(512, 0, 256));
    expect(static_cast<char*>(high->contents()) - static_cast<char*>(low->contents()) == 256_i &&
           high->heapOffset() == 256_ul);
    descriptor->setType(MTL::HeapTypeAutomatic);
    const auto automatic = NS::TransferPtr(rig.device->newHeap(descriptor.get()));
    const auto one = NS::TransferPtr(automatic->newBuffer(700, 0));
    expect(one && !NS::TransferPtr(automatic->newBuffer(300, 0)) && automatic->usedSize() == 768_ul);
    expect(std::isnan(*static_cast<const float*>(one->contents()))) << "memory of a heap is not cleared";
    const auto page = static_cast<std::size_t>(::getpagesize());
    void* memory = std::aligned_alloc(page, page);
    __block NS::UInteger freed = 0;
    rig.device->newBuffer(memory, page, 0, ^(void* given, NS::UInteger bytes) {
      freed = bytes;
      std::free(given);
    })->release();
    expect(freed == page);
  };

  "an archive has the pipelines that were put in, also after it was written and read"_test = [] {
    const MetalPool pool;
    const TemporaryFolder folder;
    Rig rig("bugs.metal");
    NS::Error* error = nullptr;
    const auto pipeline = NS::TransferPtr(MTL::ComputePipelineDescriptor::alloc()->init());
    const auto archive = NS::TransferPtr(MTL::BinaryArchiveDescriptor::alloc()->init());
    const auto written = NS::TransferPtr(rig.device->newBinaryArchive(archive.get(), &error));
    const auto found_in = [&](const MTL::BinaryArchive* archived, const char* kernel) {
      pipeline->setComputeFunction(NS::TransferPtr(rig.library->newFunction(metal_text(kernel))).get());
      const NS::Object* archives[] = {archived};
      pipeline->setBinaryArchives(NS::Array::array(archives, 1));
      constexpr MTL::PipelineOption kOnlyArchived = MTL::PipelineOptionFailOnBinaryArchiveMiss;
      return bool(NS::TransferPtr(rig.device->newComputePipelineState(pipeline.get(), kOnlyArchived, nullptr, &error)));
    };
    expect(!found_in(written.get(), "good"));
    expect(written->addComputePipelineFunctions(pipeline.get(), &error) && found_in(written.get(), "good"));
    NS::URL* url = NS::URL::fileURLWithPath(metal_text(folder.path("archive")));
    archive->setUrl(url);
    expect(!NS::TransferPtr(rig.device->newBinaryArchive(archive.get(), &error))) << "there is no file yet";
    expect(written->serializeToURL(url, &error));
    const auto read = NS::TransferPtr(rig.device->newBinaryArchive(archive.get(), &error));
    expect(read && found_in(read.get(), "good") && !found_in(read.get(), "add_one"));
  };

  "a capture writes its document, when the program was started for it"_test = [] {
    const MetalPool pool;
    const TemporaryFolder folder;
    Rig rig("bugs.metal");
    MTL::CaptureManager* manager = MTL::CaptureManager::sharedCaptureManager();
    const auto descriptor = NS::TransferPtr(MTL::CaptureDescriptor::alloc()->init());
    descriptor->setCaptureObject(rig.device.get());
    descriptor->setDestination(MTL::CaptureDestinationGPUTraceDocument);
    descriptor->setOutputURL(NS::URL::fileURLWithPath(metal_text(folder.path("trace.gputrace"))));
    NS::Error* error = nullptr;
    ::unsetenv("MTL_CAPTURE_ENABLED");
    expect(!manager->startCapture(descriptor.get(), &error) && error->code() == MTL::CaptureErrorNotSupported);
    ::setenv("MTL_CAPTURE_ENABLED", "1", 1);
    expect(manager->startCapture(descriptor.get(), &error) && manager->isCapturing());
    expect(!manager->startCapture(descriptor.get(), &error) && error->code() == MTL::CaptureErrorAlreadyCapturing);
    manager->stopCapture();
    expect(!manager->isCapturing() && contains(read_all(folder.path("trace.gputrace")), "capture"));
    ::unsetenv("MTL_CAPTURE_ENABLED");
  };
};

}  // namespace
}  // namespace lapidary::test::softmetal_test
