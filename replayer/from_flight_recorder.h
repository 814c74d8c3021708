// From PyTorch's Flight Recorder dumps to a schedule: what each rank has called and not ended, on
// the process groups that the dumps name. They hold no streams, events, host waits, roots or
// operators: what is put in their place is a guess, and each guess a line of Origin::notes. Nothing
// in it is more than suspected.
//
// Where PyTorch puts operations (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp): collectives,
// and sends and receives of a batch, go to the communicator of their process group and to its one
// stream; a send or receive outside of a batch to a communicator and a stream of its pair. A
// synchronous call makes the stream of the program wait for its end, and any later call waits for
// that stream.
//
// Pure. Not thread-safe.
#ifndef GORDIAN_REPLAYER_FROM_FLIGHT_RECORDER_H_
#define GORDIAN_REPLAYER_FROM_FLIGHT_RECORDER_H_

#include <string>
#include <vector>

#include "analyzer/importers/flight_recorder.h"
#include "replayer/extract.h"
#include "replayer/schedule.h"

namespace gordian::replayer {

// `source` is the name of the folder or file, for people. Refuses dumps in which nothing hangs for
// a reason that they hold.
Extracted ScheduleFlightDumps(const std::vector<importers::FlightDump>& dumps,
                              const std::string& source);

// Whether a run of the replay is told as the hang that the dumps show. They know less than a run:
// not the kinds of edges of a cycle, and not whether a rank that others wait for is in code of its
// own.
bool IsHangOfDumps(const Signature& told, const Signature& of_dumps);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_FROM_FLIGHT_RECORDER_H_
