// The part that all C++ replays share: processes, marks, unique ids, the watchdog.
#ifndef GORDIAN_REPLAYER_WRITE_CXX_SCAFFOLD_H_
#define GORDIAN_REPLAYER_WRITE_CXX_SCAFFOLD_H_

#include <string_view>

namespace gordian::replayer {

// Goes before the ranks' functions; needs the constants kRanks, kThreads, kComms, kMarks,
// kBufferBytes and kCreator (for each communicator, the rank that makes its unique id).
extern const std::string_view kCxxBeforeRanks;
// Go after them, in this order. The rank's work: needs kRankFunctions. Processes and their
// watchdog: need kExpectedEnds (exit code of each rank, 128 + signal) and SetEnvironment(). main().
extern const std::string_view kCxxRunRank, kCxxWatch, kCxxMain;

// A function of the scaffold that only some programs need.
struct CxxHelper {
  std::string_view call;  // its use in the program: "Connect("
  std::string_view text;
};
extern const CxxHelper kCxxHelpers[];
extern const int kCxxHelperCount;

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_WRITE_CXX_SCAFFOLD_H_
