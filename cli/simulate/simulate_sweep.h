// Runs gordian simulate on many configurations: files, checkpoints, and the processes of mpirun.
#ifndef GORDIAN_CLI_SIMULATE_SIMULATE_SWEEP_H_
#define GORDIAN_CLI_SIMULATE_SIMULATE_SWEEP_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "simulator/sweep.h"

namespace gordian::cli {

struct SweepFiles {
  std::string csv;
  std::string svg;
  std::string checkpoint;
  bool resume = false;
  bool json = false;  // on standard output; else CSV unless --csv names a file
};

// This process among those of mpirun. gordian runs alone; gordian-simulate-mpi sets it before the
// command line runs.
struct SweepRanks {
  int ranks = 1;
  int rank = 0;
  simulator::Exchange exchange;
};
SweepRanks& OwnRanks();

// Returns an exit code.
int RunSweepCommand(const std::string& name, const nlohmann::json& text,
                    const simulator::SweepOptions& options, const SweepFiles& files);

// Replaces this process by gordian-simulate-mpi with the same arguments. Returns an exit code only
// if that fails.
int BecomeMpiProgram();

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_SIMULATE_SIMULATE_SWEEP_H_
