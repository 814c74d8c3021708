// Programs that force predicted orders, and whether they hang.
#ifndef GORDIAN_CLI_PREDICTED_PROGRAMS_H_
#define GORDIAN_CLI_PREDICTED_PROGRAMS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "common/status.h"
#include "replayer/predict/prediction.h"

namespace gordian::cli {

struct ProgramRuns {
  int runs = 0, same = 0;  // of one program
};

struct WantedPrograms {
  std::string folder;  // empty: none are wanted
  std::string stem;    // "predicted" for predicted-1.cc
  int verify = 0;      // runs of each under the emulator
  std::function<bool()> stopped;
  std::function<void(const std::string&)> say;  // what takes long
};

std::string ProgramPath(const std::string& folder, const std::string& stem, size_t number);

// Ends the text of a finding: the program at `path`, if not empty, and how often it hung.
std::string ProgramText(const std::string& path, size_t number,
                        const std::vector<ProgramRuns>& verified);

// Writes one program a prediction, and runs it. Those that did not hang each time, with the
// predicted verdict, become unconfirmed; those that a run decides on, and that did hang, predicted.
Status WritePrograms(const WantedPrograms& wanted, replayer::Predictions* predictions,
                     std::vector<ProgramRuns>* verified);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_PREDICTED_PROGRAMS_H_
