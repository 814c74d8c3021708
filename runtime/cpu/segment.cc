#include "runtime/cpu/segment.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "runtime/cpu/process_life.h"

namespace gordian::runtime {

grtResult_t Segment::Open(const std::string& name, const PortGeometry& geometry,
                          std::shared_ptr<Segment>* out) {
  const size_t records_at = sizeof(SegmentHeader);
  const size_t port_at = records_at + geometry.members * sizeof(MemberRecord);
  std::shared_ptr<Segment> s(new Segment);
  s->memory_ = SharedMemory::Open(name, port_at + PortBytes(geometry));
  if (s->memory_ == nullptr) return errno == EINVAL ? grtInvalidUsage : grtSystemError;
  if (!s->memory_->Reserve(0, port_at + BoardsBytes(geometry))) return grtSystemError;
  auto* base = static_cast<unsigned char*>(s->memory_->base());
  s->header_ = reinterpret_cast<SegmentHeader*>(base);
  s->records_ = reinterpret_cast<MemberRecord*>(base + records_at);
  s->view_ = PortView(base + port_at, geometry);
  s->reserved_.resize(uint64_t{geometry.window} * geometry.members);
  *out = std::move(s);
  return grtSuccess;
}

grtResult_t Segment::Join(const std::string& name, const PortGeometry& geometry, uint32_t me,
                          uint64_t agreement, int bell_fd, uint32_t near,
                          std::shared_ptr<Segment>* out) {
  std::shared_ptr<Segment> s;
  const grtResult_t opened = Open(name, geometry, &s);
  if (opened != grtSuccess) return opened;
  uint64_t expected = 0;
  std::atomic_ref<uint64_t> agreed(s->header_->agreement);
  if (!agreed.compare_exchange_strong(expected, agreement) && expected != agreement) {
    s->Abort(grtInvalidUsage);  // the others would wait for this member
    return grtInvalidUsage;
  }
  MemberRecord& record = s->records_[me];
  if (Acquire(record.here) != 0) return grtInvalidUsage;  // two of the same rank
  record.pid = getpid();
  record.bell_fd = bell_fd;
  record.start_time = StartTime(record.pid);
  record.pid_namespace = PidNamespace();
  Release(record.here, 1);
  s->memory_->local_users.fetch_add(1, std::memory_order_acq_rel);
  const uint64_t arrived = std::atomic_ref<uint64_t>(s->header_->arrived).fetch_add(1) + 1;
  if (arrived == near) s->memory_->Unlink();
  *out = std::move(s);
  return grtSuccess;
}

void Segment::Refuse(const std::string& name, grtResult_t code) {
  SharedMemory::LeaveWord(name, offsetof(SegmentHeader, abort_code), static_cast<uint64_t>(code));
}

void Segment::UnlinkOnceHere(uint32_t near) {
  if (std::atomic_ref<uint64_t>(header_->arrived).load() >= near) memory_->Unlink();
}

std::string Segment::Why() const {
  if (Acquire(header_->why_state) != 2) return std::string();
  return std::string(header_->why, strnlen(header_->why, sizeof header_->why));
}

bool Segment::ReserveLanes(uint32_t slot, uint32_t member) {
  const PortGeometry& g = view_.geometry();
  uint8_t& reserved = reserved_[uint64_t{slot} * g.members + member];
  if (reserved != 0) return true;
  const auto* base = static_cast<unsigned char*>(memory_->base());
  const auto port_at =
      static_cast<size_t>(reinterpret_cast<unsigned char*>(records_ + g.members) - base);
  if (!memory_->Reserve(port_at + view_.LanesOffset(slot, member), g.channels * LaneBytes(g))) {
    return false;
  }
  reserved = 1;
  return true;
}

void Segment::Abort(grtResult_t code, const std::string& why) {
  uint64_t untold = 0;
  std::atomic_ref<uint64_t> state(header_->why_state);
  if (!why.empty() && state.compare_exchange_strong(untold, 1, std::memory_order_acq_rel)) {
    const size_t kept = std::min(why.size(), sizeof header_->why - 1);
    std::memcpy(header_->why, why.data(), kept);
    header_->why[kept] = '\0';
    state.store(2, std::memory_order_release);
  }
  uint64_t fine = 0;
  // litmus: step.abort
  std::atomic_ref<uint64_t>(header_->abort_code)
      .compare_exchange_strong(fine, static_cast<uint64_t>(code), std::memory_order_acq_rel);
}

}  // namespace gordian::runtime
