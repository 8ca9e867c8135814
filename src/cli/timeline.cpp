#include "cli/timeline.hpp"

#include "checkpoint/whole_file.hpp"

namespace lapidary::cli {
namespace {

using text::Value;

constexpr int kProcess = 1, kTrack = 1;

Value name_event(const char* what, const std::string& name) {
  return Value::Object{{"ph", "M"}, {"pid", kProcess}, {"tid", kTrack}, {"name", what},
                       {"args", Value::Object{{"name", name}}}};
}

}  // namespace

std::string kernel_of(const link::Program& program, const graph::Step& step) {
  std::string name = link::variant_of(program, step);
  if (!graph::info_of(step.op).multiplies) return name;
  int outputs = 0;
  for (const std::int32_t n : step.dims->n) outputs += n;
  return name + " " + std::to_string(step.dims->k) + " x " + std::to_string(outputs);
}

Timeline::Timeline(const link::Program& program) : program_(program) {
  events_.push_back(name_event("process_name", "lapidary " + program.target.folder));
  events_.push_back(name_event("thread_name", std::string(program.backend->name)));
}

void Timeline::add(const std::string& name, std::span<const link::StepTime> times) {
  if (times.empty()) return;
  if (begin_s_ == 0) begin_s_ = times.front().begin_s;
  events_.push_back(Value::Object{{"ph", "X"}, {"pid", kProcess}, {"tid", kTrack}, {"cat", "run"}, {"name", name},
                                  {"ts", microseconds(times.front().begin_s)},
                                  {"dur", (times.back().end_s - times.front().begin_s) * 1e6}});
  for (const link::StepTime& time : times) events_.push_back(event_of(time));
}

Value Timeline::event_of(const link::StepTime& time) const {
  const std::int64_t bytes = link::weight_bytes(program_, *time.step, time.rows);
  const double s = time.end_s - time.begin_s;
  Value::Object args{{"rows", static_cast<std::int64_t>(time.rows)}, {"weight_bytes", bytes}};
  if (time.step->layer != graph::kOutsideLayers) args.emplace(args.begin(), "layer", time.step->layer);
  if (bytes && s > 0) args.emplace_back("gb_s", static_cast<double>(bytes) / s / 1e9);
  return Value::Object{{"ph", "X"}, {"pid", kProcess}, {"tid", kTrack}, {"cat", name_of(time.segment)},
                       {"name", kernel_of(program_, *time.step)}, {"ts", microseconds(time.begin_s)}, {"dur", s * 1e6},
                       {"args", std::move(args)}};
}

void Timeline::write(const std::string& path) const {
  const Value trace = Value::Object{{"displayTimeUnit", "ms"}, {"traceEvents", events_}};
  write_whole_file(path, [&](std::ostream& file) { file << text::to_json(trace) << "\n"; });
}

}  // namespace lapidary::cli
