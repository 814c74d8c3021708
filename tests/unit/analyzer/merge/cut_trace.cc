// Copies a trace without the processes of the ranks that are not named, as if gordian had never seen
// them: cut_trace TRACE COPY RANK...
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "common/trace_file.h"

namespace v1 = gordian::v1;

namespace {

class Cut {
 public:
  explicit Cut(std::set<int> ranks) : ranks_(std::move(ranks)) {}

  // Returns false for an event about processes that are left out.
  bool Keep(v1::Event* event) {
    if (event->has_process_started()) {
      const v1::ProcessStarted& started = event->process_started();
      if (ranks_.count(started.env_rank()) > 0) kept_.insert(started.process());
      return Has(started.process());
    }
    if (event->has_process_ended()) return Has(event->process_ended().process());
    if (event->has_module()) return Has(event->module().process());
    if (event->has_records()) return Has(event->records().process());
    if (event->has_stacks_taken()) return Has(event->stacks_taken().process());
    if (event->has_round()) {
      v1::Round copy;
      for (const v1::ProcessState& state : event->round().processes()) {
        if (Has(state.process())) *copy.add_processes() = state;
      }
      *event->mutable_round()->mutable_processes() = copy.processes();
    }
    return true;
  }
  size_t kept() const { return kept_.size(); }

 private:
  bool Has(uint32_t process) const { return kept_.count(process) > 0; }

  const std::set<int> ranks_;
  std::set<uint32_t> kept_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s TRACE COPY RANK...\n", argv[0]);
    return 2;
  }
  std::set<int> ranks;
  for (int i = 3; i < argc; ++i) ranks.insert(std::atoi(argv[i]));
  auto reader = gordian::TraceReader::Open(argv[1]);
  if (!reader.ok()) {
    std::fprintf(stderr, "%s\n", reader.status().message().c_str());
    return 1;
  }
  auto writer = gordian::TraceWriter::Create(argv[2], (*reader)->header());
  if (!writer.ok()) {
    std::fprintf(stderr, "%s\n", writer.status().message().c_str());
    return 1;
  }
  Cut cut(ranks);
  while (const v1::TraceChunk* const chunk = (*reader)->Next()) {
    for (v1::Event event : chunk->events()) {
      if (cut.Keep(&event) && !(*writer)->Append(event).ok()) return 1;
    }
  }
  if (!(*writer)->Close().ok()) return 1;
  if (cut.kept() != ranks.size()) {
    std::fprintf(stderr, "%s: %zu of %zu ranks are in it\n", argv[1], cut.kept(), ranks.size());
    return 1;
  }
  return 0;
}
