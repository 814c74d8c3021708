// gordian export: writes a recorded job in other tools' formats.
#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "analyzer/exporters/formats.h"
#include "cli/analyze/recorded.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/verbs.h"

namespace gordian::cli {
namespace {

struct ExportFlags {
  std::string path;
  std::string format;
  std::string output;
  size_t last = 0;
  bool last_given = false;
  bool witness = false;
  int rank = -1;
  bool json = false;
};

// Where the operations of a streamed format lie until its beginning is known: beside the file, which
// has the space.
StatusOr<exporters::ScratchFile> ScratchFor(const std::string& output) {
  if (!output.empty()) {
    const size_t slash = output.rfind('/');
    StatusOr<exporters::ScratchFile> beside = exporters::ScratchFile::In(
        slash == std::string::npos ? "." : output.substr(0, slash + (slash == 0 ? 1 : 0)));
    if (beside.ok()) return beside;
  }
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  return exporters::ScratchFile::In(error ? "/tmp" : folder.string());
}

// Writes all of a streamed file.
Status WriteTo(int fd, const exporters::Job& job, const std::string& beginning,
               exporters::StreamedFormat* streamed) {
  if (!WriteAll(fd, beginning)) return Status::FromErrno(errno, "cannot write what was exported");
  return streamed->WriteRest(job, fd);
}

// Writes what was exported into the folder, or the file, and returns the paths.
// `streamed`: null if the format is not.
StatusOr<std::vector<std::string>> Write(const ExportFlags& flags, const exporters::Format& format,
                                         const exporters::Job& job,
                                         const exporters::Exported& exported,
                                         exporters::StreamedFormat* streamed) {
  std::vector<std::string> paths;
  if (!format.folder) {
    paths.push_back(flags.output);
    const std::string& beginning = exported.files.front().second;
    if (streamed == nullptr) {
      GORDIAN_RETURN_IF_ERROR(WriteOutput(flags.output, beginning));
      return paths;
    }
    const StatusOr<OutputFile> file = OutputFile::Open(flags.output);
    GORDIAN_RETURN_IF_ERROR(file.status());
    const int fd = file->Begin();
    if (fd < 0) return Status::FromErrno(errno, "cannot write " + flags.output);
    const Status written = WriteTo(fd, job, beginning, streamed);
    if (close(fd) != 0 && written.ok())
      return Status::FromErrno(errno, "cannot write " + flags.output);
    GORDIAN_RETURN_IF_ERROR(written);
    return paths;
  }
  const StatusOr<OwnedFolder> folder = OutputFolder(flags.output);
  GORDIAN_RETURN_IF_ERROR(folder.status());
  const auto take = [&](const std::string& name, const std::string& bytes) {
    paths.push_back(flags.output + "/" + name);
    return folder->ReplaceFile(name, bytes, kOutputMode);
  };
  if (streamed != nullptr) GORDIAN_RETURN_IF_ERROR(streamed->WriteFiles(job, take));
  for (const auto& [name, bytes] : exported.files) GORDIAN_RETURN_IF_ERROR(take(name, bytes));
  return paths;
}

int Fail(const std::string& message) {
  PrintError(message);
  return kExitUsage;
}

int Export(const ExportFlags& flags) {
  const exporters::Format& format = *exporters::FindFormat(flags.format);
  if (format.folder && flags.output.empty())
    return Fail("-f " + flags.format + " writes a file for each rank: name a folder with -o DIR");
  if (flags.json && flags.output.empty())
    return Fail("--json says what was written where: name a file with -o FILE");
  if ((flags.witness || flags.rank >= 0) && format.wants != exporters::Wants::kWaitForGraph)
    return Fail("--witness and --rank choose a part of a graph: use them with -f dot or graphml");
  const size_t keep = flags.last_given ? flags.last : format.keep;
  std::optional<exporters::ScratchFile> scratch;
  std::unique_ptr<exporters::StreamedFormat> streamed;
  if (format.stream != nullptr) {
    if (format.binary && flags.output.empty() && isatty(STDOUT_FILENO) != 0)
      return Fail("-f " + flags.format + " is not for a terminal: name a file with -o FILE");
    StatusOr<exporters::ScratchFile> made = ScratchFor(flags.output);
    if (!made.ok()) return Fail(made.status().message() + " (TMPDIR names another folder)");
    scratch.emplace(std::move(made).value());
    streamed = format.stream(&*scratch, keep);
  }
  exporters::OperationLog log(keep, format.wants, streamed.get());
  std::string note;
  const StatusOr<analyzer::AnalysisResult> result = AnalyzeRecorded(flags.path, &log, &note);
  if (!result.ok()) return Fail(result.status().message());
  const exporters::Job job{
      .log = log, .result = *result, .options = {.witness = flags.witness, .rank = flags.rank}};
  StatusOr<exporters::Exported> exported = streamed ? streamed->Finish(job) : format.write(job);
  if (!exported.ok()) return Fail(exported.status().message());
  std::vector<std::string> notes = log.notes();
  if (!note.empty()) notes.insert(notes.begin(), note);
  notes.insert(notes.end(), exported->notes.begin(), exported->notes.end());
  if (flags.output.empty()) {
    for (const std::string& line : notes) PrintNote(line);
    const std::string& beginning = exported->files.front().second;
    if (!streamed) return PrintOut(beginning) ? kExitOk : kExitUsage;
    const Status written = WriteTo(STDOUT_FILENO, job, beginning, streamed.get());
    return written.ok() ? kExitOk : Fail(written.message());
  }
  const StatusOr<std::vector<std::string>> paths =
      Write(flags, format, job, *exported, streamed.get());
  if (!paths.ok()) return Fail(paths.status().message());
  if (flags.json) {
    const nlohmann::ordered_json json = {{"schema", "gordian.export.v1"},
                                         {"format", flags.format},
                                         {"files", *paths},
                                         {"notes", notes}};
    return PrintOut(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                    "\n")
               ? kExitOk
               : kExitUsage;
  }
  for (const std::string& line : notes) PrintNote(line);
  const std::string where = paths->size() == 1
                                ? paths->front()
                                : std::to_string(paths->size()) + " files in " + flags.output;
  return PrintOut(where + "\n") ? kExitOk : kExitUsage;
}

}  // namespace

void AddExportVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* verb =
      app.add_subcommand("export", "Write a recorded job in the format of another tool");
  verb->add_option("path", flags->path, "A session or a .gtrace file")
      ->required()
      ->type_name("PATH");
  std::vector<std::string> names;
  std::string what;
  for (const exporters::Format& format : exporters::Formats()) {
    names.emplace_back(format.name);
    what += (what.empty() ? "" : "; ") + std::string(format.name) + ": " + std::string(format.what);
  }
  verb->add_option("-f,--format", flags->format, what)->required()->check(CLI::IsMember(names));
  verb->add_option("-o,--output", flags->output,
                   "Folder (fr, chakra) or file; without it a file's text goes to standard output")
      ->type_name("PATH");
  CLI::Option* const last =
      verb->add_option(
              "--last", flags->last,
              "Of each rank only its last N operations, and all that are unfinished; 0: all "
              "(fr: 2000, as PyTorch's buffer; others: 0)")
          ->type_name("N");
  verb->add_flag("--witness", flags->witness, "dot, graphml: only the shortest cycle");
  verb->add_option("--rank", flags->rank,
                   "dot, graphml: only what is at most two arrows away from rank N")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  verb->add_flag("--json", flags->json,
                 "What was written where, as JSON (schema gordian.export.v1)");
  verb->footer(
      "Exit code: 0 written; 2 unreadable input, or not writable.\n"
      "Example: gordian export latest -f fr -o dumps\n"
      "         python3 -m torch.distributed.flight_recorder.fr_trace dumps\n"
      "         gordian export latest -f perfetto -o job.pftrace    # open it in ui.perfetto.dev\n"
      "         gordian export latest -f dot | dot -Tsvg >waits.svg");
  verb->callback([=] {
    flags->last_given = last->count() > 0;
    context->needs = Needs{};
    context->chosen = [=] { return Export(*flags); };
  });
}

}  // namespace gordian::cli
