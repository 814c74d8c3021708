#include "cli/predicted_programs.h"

#include <utility>

#include "cli/output_file.h"
#include "cli/verify_tools.h"
#include "replayer/record/buffers.h"
#include "replayer/verify/verifier.h"
#include "replayer/write/cxx_writer.h"

namespace gordian::cli {
namespace {

using replayer::Prediction;

std::string NameOf(const std::string& stem, size_t number) {
  return stem + "-" + std::to_string(number + 1) + ".cc";
}

}  // namespace

std::string ProgramPath(const std::string& folder, const std::string& stem, size_t number) {
  return folder + "/" + NameOf(stem, number);
}

std::string ProgramText(const std::string& path, size_t number,
                        const std::vector<ProgramRuns>& verified) {
  if (path.empty()) return "\n";
  std::string text = "  program: " + path;
  if (number < verified.size())
    text += ", hung in " + std::to_string(verified[number].same) + " of " +
            std::to_string(verified[number].runs) + " runs under the emulator";
  return text + "\n\n";
}

Status WritePrograms(const WantedPrograms& wanted, replayer::Predictions* predictions,
                     std::vector<ProgramRuns>* verified) {
  if (wanted.folder.empty()) return Status::Ok();
  const StatusOr<OwnedFolder> folder = OutputFolder(wanted.folder);
  GORDIAN_RETURN_IF_ERROR(folder.status());
  replayer::VerifyTools tools = FindVerifyTools();
  tools.stopped = wanted.stopped;
  std::vector<Prediction> held, open = std::exchange(predictions->predicted, {});
  for (Prediction& prediction : std::exchange(predictions->unconfirmed, {})) {
    const bool runs = prediction.run_decides && wanted.verify > 0;
    (runs ? open : predictions->unconfirmed).push_back(std::move(prediction));
  }
  for (Prediction& prediction : open) {
    const std::string name = NameOf(wanted.stem, held.size());
    const std::string path = ProgramPath(wanted.folder, wanted.stem, held.size());
    replayer::Schedule& witness = prediction.witness;
    replayer::ShrinkBuffers(&witness);
    replayer::CxxOptions options{.file = name};
    const auto write = [&] {
      return folder->ReplaceFile(name, replayer::WriteCxx(witness, options), kOutputMode);
    };
    GORDIAN_RETURN_IF_ERROR(write());
    if (wanted.verify > 0) {
      wanted.say("compiling " + path);
      GORDIAN_RETURN_IF_ERROR(replayer::CompileReplay(*folder, name, wanted.stem, tools));
      const StatusOr<replayer::Verified> runs = replayer::VerifyReplay(
          wanted.folder + "/" + wanted.stem, witness.origin.signature, wanted.verify,
          /*free_running=*/false, tools, [&](int done) {
            wanted.say(path + ": run " + std::to_string(done) + " of " +
                       std::to_string(wanted.verify));
          });
      folder->RemoveFile(wanted.stem);
      GORDIAN_RETURN_IF_ERROR(runs.status());
      options.verified = replayer::Describe(*runs, witness.origin.signature);
      GORDIAN_RETURN_IF_ERROR(write());
      if (runs->same < wanted.verify) {
        folder->RemoveFile(name);
        prediction.doubt = "of the program that forces it: " + options.verified;
        predictions->unconfirmed.push_back(std::move(prediction));
        continue;
      }
      prediction.doubt.clear();
      verified->push_back({wanted.verify, runs->same});
    }
    held.push_back(std::move(prediction));
  }
  predictions->predicted = std::move(held);
  predictions->complete &= predictions->unconfirmed.empty();
  return Status::Ok();
}

}  // namespace gordian::cli
