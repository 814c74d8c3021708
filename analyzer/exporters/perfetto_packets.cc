#include "analyzer/exporters/perfetto_packets.h"

namespace gordian::exporters {
namespace {

namespace trace {
constexpr int kPacket = 1;
}
namespace packet {
constexpr int kClockSnapshot = 6, kTimestamp = 8, kSequence = 10, kTrackEvent = 11,
              kInternedData = 12, kSequenceFlags = 13, kTrackDescriptor = 60;
constexpr uint64_t kStateCleared = 1, kNeedsState = 2;  // of kSequenceFlags
}  // namespace packet
namespace event {
constexpr int kCategoryNumber = 3, kAnnotation = 4, kType = 9, kNameNumber = 10, kTrack = 11,
              kCategory = 22, kName = 23, kFlow = 47, kFlowEnd = 48, kCorrelation = 52;
}
namespace annotation {
constexpr int kNameNumber = 1, kUint = 3, kInt = 4, kText = 6, kName = 10, kTextNumber = 17;
}
namespace descriptor {
constexpr int kTrack = 1, kName = 2, kProcess = 3, kParent = 5;
constexpr int kPid = 1, kProcessName = 6;  // of a process
}  // namespace descriptor
namespace snapshot {
constexpr int kClock = 1, kClockId = 1, kClockTime = 2;
constexpr uint64_t kRealtime = 1, kBoottime = 6;  // kBoottime is what timestamps are of
}  // namespace snapshot

// All packets are of one sequence.
constexpr uint64_t kSequence = 1;

// In InternedData, where texts of a kind are.
int FieldOf(InternedKind kind) {
  switch (kind) {
    case InternedKind::kCategory:
      return 1;
    case InternedKind::kName:
      return 2;
    case InternedKind::kAnnotationName:
      return 3;
    case InternedKind::kAnnotationText:
      return 29;
  }
  return 0;
}

}  // namespace

void PerfettoPackets::Event(Type type, uint64_t time_ns, uint64_t track) {
  packet_ = out_.Begin(trace::kPacket);
  out_.Varint(packet::kTimestamp, time_ns);
  out_.Varint(packet::kSequence, kSequence);
  out_.Varint(packet::kSequenceFlags, packet::kNeedsState);
  event_ = out_.Begin(packet::kTrackEvent);
  out_.Varint(event::kType, type);
  out_.Varint(event::kTrack, track);
}

void PerfettoPackets::Done() {
  out_.End(event_);
  out_.End(packet_);
}

void PerfettoPackets::Name(std::string_view name) { out_.Text(event::kName, name); }
void PerfettoPackets::Name(uint64_t number) { out_.Varint(event::kNameNumber, number); }
void PerfettoPackets::Category(std::string_view name) { out_.Text(event::kCategory, name); }
void PerfettoPackets::Category(uint64_t number) { out_.Varint(event::kCategoryNumber, number); }
void PerfettoPackets::Flow(uint64_t id) { out_.Fixed64(event::kFlow, id); }
void PerfettoPackets::FlowEnd(uint64_t id) { out_.Fixed64(event::kFlowEnd, id); }
void PerfettoPackets::Correlation(uint64_t id) { out_.Varint(event::kCorrelation, id); }

void PerfettoPackets::Annotate(std::string_view name, std::string_view text) {
  const size_t begun = out_.Begin(event::kAnnotation);
  out_.Text(annotation::kName, name);
  out_.Text(annotation::kText, text);
  out_.End(begun);
}

void PerfettoPackets::Annotate(std::string_view name, int64_t value) {
  const size_t begun = out_.Begin(event::kAnnotation);
  out_.Text(annotation::kName, name);
  out_.Signed(annotation::kInt, value);
  out_.End(begun);
}

void PerfettoPackets::Annotate(uint64_t name, uint64_t value) {
  const size_t begun = out_.Begin(event::kAnnotation);
  out_.Varint(annotation::kNameNumber, name);
  out_.Varint(annotation::kUint, value);
  out_.End(begun);
}

void PerfettoPackets::AnnotateSigned(uint64_t name, int64_t value) {
  const size_t begun = out_.Begin(event::kAnnotation);
  out_.Varint(annotation::kNameNumber, name);
  out_.Signed(annotation::kInt, value);
  out_.End(begun);
}

void PerfettoPackets::AnnotateText(uint64_t name, uint64_t text) {
  const size_t begun = out_.Begin(event::kAnnotation);
  out_.Varint(annotation::kNameNumber, name);
  out_.Varint(annotation::kTextNumber, text);
  out_.End(begun);
}

void PerfettoPackets::Track(uint64_t track, uint64_t parent, std::string_view name, int32_t pid) {
  const size_t packet = out_.Begin(trace::kPacket);
  out_.Varint(packet::kSequence, kSequence);
  const size_t begun = out_.Begin(packet::kTrackDescriptor);
  out_.Varint(descriptor::kTrack, track);
  if (parent != 0) out_.Varint(descriptor::kParent, parent);
  out_.Text(descriptor::kName, name);
  if (pid != 0) {
    const size_t process = out_.Begin(descriptor::kProcess);
    out_.Signed(descriptor::kPid, pid);
    out_.Text(descriptor::kProcessName, name);
    out_.End(process);
  }
  out_.End(begun);
  out_.End(packet);
}

void PerfettoPackets::Clock(uint64_t time_ns, uint64_t real_ns) {
  const size_t packet = out_.Begin(trace::kPacket);
  out_.Varint(packet::kSequence, kSequence);
  const size_t begun = out_.Begin(packet::kClockSnapshot);
  for (const auto& [clock, time] :
       {std::pair(snapshot::kBoottime, time_ns), std::pair(snapshot::kRealtime, real_ns)}) {
    const size_t one = out_.Begin(snapshot::kClock);
    out_.Varint(snapshot::kClockId, clock);
    out_.Varint(snapshot::kClockTime, time);
    out_.End(one);
  }
  out_.End(begun);
  out_.End(packet);
}

void PerfettoPackets::Texts(const std::map<std::pair<InternedKind, uint64_t>, std::string>& texts) {
  const size_t packet = out_.Begin(trace::kPacket);
  out_.Varint(packet::kSequence, kSequence);
  out_.Varint(packet::kSequenceFlags, packet::kStateCleared);
  const size_t begun = out_.Begin(packet::kInternedData);
  for (const auto& [key, text] : texts) {
    const size_t one = out_.Begin(FieldOf(key.first));
    out_.Varint(1, key.second);  // each kind's message has number and text there
    out_.Text(2, text);
    out_.End(one);
  }
  out_.End(begun);
  out_.End(packet);
}

}  // namespace gordian::exporters
