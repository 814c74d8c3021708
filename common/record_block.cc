#include "common/record_block.h"

#include <bit>

namespace gordian {

static_assert(std::endian::native == std::endian::little, "records travel as they lie in memory");

v1::RecordBlock* BeginBlock(uint32_t process, v1::Event* event) {
  v1::RecordBlock* const block = event->mutable_records();
  block->set_process(process);
  block->set_abi(ring::kRingAbiVersion);
  return block;
}

void AppendRecord(const ring::Record& record, v1::RecordBlock* block) {
  block->mutable_records()->append(reinterpret_cast<const char*>(&record), sizeof record);
}

size_t RecordsIn(const v1::RecordBlock& block) {
  const size_t bytes = block.records().size();
  if (block.abi() != ring::kRingAbiVersion || bytes % sizeof(ring::Record) != 0) return 0;
  return bytes / sizeof(ring::Record);
}

}  // namespace gordian
