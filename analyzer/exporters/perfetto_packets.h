// Packets of a Perfetto trace: tracks, slices, instants, flows and interned texts, as
// ui.perfetto.dev and trace_processor read them.
//
// Facts (numbers of fields, meaning): protos/perfetto/trace/ of github.com/google/perfetto:
// trace_packet, interned_data/interned_data, track_event/{track_event,track_descriptor,
// debug_annotation,process_descriptor}, clock_snapshot.
#ifndef GORDIAN_ANALYZER_EXPORTERS_PERFETTO_PACKETS_H_
#define GORDIAN_ANALYZER_EXPORTERS_PERFETTO_PACKETS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "analyzer/exporters/proto_bytes.h"

namespace gordian::exporters {

// Numbers of texts that many events share; the texts themselves may be written before the events
// and known after them. 0 is no number.
enum class InternedKind : uint8_t { kCategory, kName, kAnnotationName, kAnnotationText };

// One event: begin with Slice, End or Instant; then what it says; then Done. Not thread-safe.
class PerfettoPackets {
 public:
  explicit PerfettoPackets(ProtoBytes* out) : out_(*out) {}

  // Times are nanoseconds of the trace's own clock.
  void Slice(uint64_t time_ns, uint64_t track) { Event(kSliceBegin, time_ns, track); }
  void End(uint64_t time_ns, uint64_t track) { Event(kSliceEnd, time_ns, track); }
  void Instant(uint64_t time_ns, uint64_t track) { Event(kInstant, time_ns, track); }
  void Name(std::string_view name);
  void Name(uint64_t number);
  void Category(std::string_view name);
  void Category(uint64_t number);
  void Flow(uint64_t id);         // leads to the next event with that id, and from the one before
  void FlowEnd(uint64_t id);      // the last of them
  void Correlation(uint64_t id);  // events of one operation, at whatever rank
  void Annotate(std::string_view name, std::string_view text);
  void Annotate(std::string_view name, int64_t value);
  void Annotate(uint64_t name, uint64_t value);
  void AnnotateSigned(uint64_t name, int64_t value);
  void AnnotateText(uint64_t name, uint64_t text);
  void Done();

  // Declares a track. pid 0: it is no process's. parent 0: none.
  void Track(uint64_t track, uint64_t parent, std::string_view name, int32_t pid = 0);
  // What a moment of the trace's clock is on the wall clock.
  void Clock(uint64_t time_ns, uint64_t real_ns);
  // The packet before all events that use numbers.
  void Texts(const std::map<std::pair<InternedKind, uint64_t>, std::string>& texts);

 private:
  enum Type : uint64_t { kSliceBegin = 1, kSliceEnd = 2, kInstant = 3 };
  void Event(Type type, uint64_t time_ns, uint64_t track);

  ProtoBytes& out_;
  size_t packet_ = 0, event_ = 0;  // where the present ones began
};

}  // namespace gordian::exporters

#endif  // GORDIAN_ANALYZER_EXPORTERS_PERFETTO_PACKETS_H_
