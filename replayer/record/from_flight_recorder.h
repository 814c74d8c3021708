// Turns PyTorch's Flight Recorder dumps into a schedule: what each rank has called and not
// completed, on the process groups that the dumps name. Dumps hold no streams, events, host waits,
// roots or operators; their replacements are guesses, and each guess is a line of Origin::notes.
// Nothing in the result is more than suspected.
//
// PyTorch (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp) puts collectives, and sends and
// receives of a batch, on the communicator and the one stream of their process group; a send or
// receive outside of a batch on a communicator and a stream of its pair. A synchronous call makes
// the program's stream wait for its end, and any later call waits for that stream.
//
// Pure. Not thread-safe.
#ifndef GORDIAN_REPLAYER_RECORD_FROM_FLIGHT_RECORDER_H_
#define GORDIAN_REPLAYER_RECORD_FROM_FLIGHT_RECORDER_H_

#include <string>
#include <vector>

#include "analyzer/importers/flight_recorder.h"
#include "replayer/record/extract.h"
#include "replayer/record/schedule.h"

namespace gordian::replayer {

// `source` names the folder or file, for people. Refuses dumps that show no hang with a cause in
// them.
Extracted ScheduleFlightDumps(const std::vector<importers::FlightDump>& dumps,
                              const std::string& source);

// Whether gordian's verdict on a run of the replay is the hang that the dumps show. The dumps know
// less than a run: not the kinds of edges in a cycle, and not whether an awaited rank is in its own
// code.
bool IsHangOfDumps(const Signature& told, const Signature& of_dumps);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_RECORD_FROM_FLIGHT_RECORDER_H_
