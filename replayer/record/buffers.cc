#include "replayer/record/buffers.h"

#include <map>
#include <string>

#include "analyzer/model/collective.h"

namespace gordian::replayer {

uint64_t Bytes(const Op& op) { return op.count * model::DatatypeBytes(op.datatype); }

void ShrinkBuffers(Schedule* schedule, uint64_t most_bytes) {
  if (schedule->origin.signature.verdict == "mismatch") return;
  // Keyed by bytes, since a send of one type may be a receive of another.
  std::map<uint64_t, uint64_t> shrunk;  // bytes before, and how many smaller sizes there are
  const auto each = [&](auto visit) {
    ForEachOp(*schedule, [&](size_t, size_t, Op& op) {
      const uint64_t element = model::DatatypeBytes(op.datatype);
      if (IsOperation(op.kind) && element > 0 && op.count > most_bytes / element)
        visit(&op, element);
    });
  };
  each([&](Op* op, uint64_t element) { shrunk[op->count * element]; });
  if (shrunk.empty()) return;
  constexpr uint64_t kStep = 64;  // a multiple of every element
  uint64_t smaller = 0;
  for (auto& [bytes, place] : shrunk) place = smaller++;
  each([&](Op* op, uint64_t element) {
    op->count = (most_bytes + kStep * shrunk.at(op->count * element)) / element;
  });
  schedule->origin.notes.push_back("operations of more than " + std::to_string(most_bytes >> 20) +
                                   " MiB have about that size here, and use the same protocol");
}

}  // namespace gordian::replayer
