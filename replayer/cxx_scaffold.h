// The part of a replay in C++ that is the same in all of them: processes, marks, unique ids, the
// watchdog.
#ifndef GORDIAN_REPLAYER_CXX_SCAFFOLD_H_
#define GORDIAN_REPLAYER_CXX_SCAFFOLD_H_

#include <string_view>

namespace gordian::replayer {

// In front of the ranks' functions; needs the constants kRanks, kThreads, kComms, kMarks,
// kBufferBytes and kCreator (of each communicator, the rank that makes its unique id).
extern const std::string_view kCxxBeforeRanks;
// Behind them, in this order. What a rank does: needs kRankFunctions. Processes and their watchdog:
// kExpectedEnds (exit code of each rank, 128 + signal) and SetEnvironment(). main().
extern const std::string_view kCxxRunRank, kCxxWatch, kCxxMain;

// Whether a rank's function needs it; each is a function of the scaffold.
struct CxxHelper {
  std::string_view call;  // what stands in the program where it is used: "Connect("
  std::string_view text;
};
extern const CxxHelper kCxxHelpers[];
extern const int kCxxHelperCount;

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_CXX_SCAFFOLD_H_
