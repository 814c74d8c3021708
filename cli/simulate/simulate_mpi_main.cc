// gordian-simulate-mpi: does the work of `gordian simulate --mpi` under mpirun, so that gordian
// itself needs no MPI.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <string>

#include "cli/output.h"
#include "cli/simulate/simulate_sweep.h"
#include "cli/verbs.h"

namespace gordian::cli {
namespace {

int Main(int argc, char** argv) {
  CLI::App app("Sweeps of gordian simulate on many processes.", "gordian");
  app.require_subcommand(1);
  VerbContext context;
  AddSimulateVerb(app, &context);
  MPI_Init(&argc, &argv);
  // This process must outlive a lost peer long enough to report it.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  SweepRanks& ranks = OwnRanks();
  MPI_Comm_size(MPI_COMM_WORLD, &ranks.ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &ranks.rank);
  ranks.exchange = [](std::vector<int64_t>* sums) {
    return MPI_Allreduce(MPI_IN_PLACE, sums->data(), static_cast<int>(sums->size()), MPI_INT64_T,
                         MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS;
  };
  int code = kExitUsage;
  try {
    app.parse(argc, argv);
    code = context.chosen();
  } catch (const CLI::ParseError& error) {
    code = ranks.rank == 0 ? app.exit(error) : kExitUsage;
  }
  MPI_Finalize();
  return code;
}

}  // namespace
}  // namespace gordian::cli

int main(int argc, char** argv) {
  try {
    return gordian::cli::Main(argc, argv);
  } catch (const std::exception& error) {
    gordian::cli::PrintError(std::string("internal error: ") + error.what());
    return gordian::cli::kExitOwnFailure;
  }
}
