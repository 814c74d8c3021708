#include "collector/rings/record_check.h"

#include "proto/ring/calls.h"

namespace gordian::collector {

using ring::RecordKind;

TickClock::TickClock(const ring::ClockCalibration& calibration)
    : ticks_base_(calibration.ticks_base),
      mono_base_ns_(calibration.mono_base_ns),
      ns_per_tick_q32_(calibration.ns_per_tick_q32) {}

uint64_t TickClock::ToMonoNs(uint64_t ticks) const {
  if (ticks == 0) {
    return 0;
  }
  using Wide = unsigned __int128;
  // Ticks before the base happen: other cores' counters, a thread that began before calibration.
  if (ticks < ticks_base_) {
    const Wide back = (static_cast<Wide>(ticks_base_ - ticks) * ns_per_tick_q32_) >> 32;
    return back >= mono_base_ns_ ? 1 : mono_base_ns_ - static_cast<uint64_t>(back);
  }
  const Wide ahead = (static_cast<Wide>(ticks - ticks_base_) * ns_per_tick_q32_) >> 32;
  const Wide sum = ahead + mono_base_ns_;
  return sum > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(sum);
}

Checked CheckRecord(ThreadNumber thread, const TickClock& clock, ring::Record* record) {
  // kText belongs to a communicator rather than to a call, so it may come without one.
  if (record->call >= ring::kEveryCallCount ||
      (record->call == ring::kCallNone && record->kind != RecordKind::kText)) {
    return Checked::kUnknownCall;
  }
  switch (record->kind) {
    case RecordKind::kBegin:
    case RecordKind::kPoint:
    case RecordKind::kEnd:
    case RecordKind::kText:
      break;
    case RecordKind::kLongText:
      if (ring::RowOf(record->call).payload != ring::PayloadKind::kPiece) {
        return Checked::kMisplaced;
      }
      break;
    case RecordKind::kEnqueue:
      if (ring::RowOf(record->call).payload != ring::PayloadKind::kGroup) {
        return Checked::kMisplaced;
      }
      break;
    case RecordKind::kNone:
    default:
      return Checked::kUnknownKind;
  }
  record->thread = thread.number();
  record->ticks = clock.ToMonoNs(record->ticks);
  return Checked::kFine;
}

}  // namespace gordian::collector
