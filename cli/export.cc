// gordian export: writes a recorded job in other tools' formats.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
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
  bool json = false;
};

// Writes what was exported into the folder, or the file, and returns the paths.
StatusOr<std::vector<std::string>> Write(const ExportFlags& flags, const exporters::Format& format,
                                         const exporters::Exported& exported) {
  std::vector<std::string> paths;
  if (!format.folder) {
    paths.push_back(flags.output);
    GORDIAN_RETURN_IF_ERROR(WriteOutput(flags.output, exported.files.front().second));
    return paths;
  }
  const StatusOr<OwnedFolder> folder = OutputFolder(flags.output);
  GORDIAN_RETURN_IF_ERROR(folder.status());
  for (const auto& [name, bytes] : exported.files) {
    paths.push_back(flags.output + "/" + name);
    GORDIAN_RETURN_IF_ERROR(folder->ReplaceFile(name, bytes, kOutputMode));
  }
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
  exporters::OperationLog log(flags.last_given ? flags.last : format.keep, format.wait_for_graph);
  std::string note;
  const StatusOr<analyzer::AnalysisResult> result = AnalyzeRecorded(flags.path, &log, &note);
  if (!result.ok()) return Fail(result.status().message());
  const exporters::Job job{.log = log, .result = *result};
  StatusOr<exporters::Exported> exported = format.write(job);
  if (!exported.ok()) return Fail(exported.status().message());
  std::vector<std::string> notes = log.notes();
  if (!note.empty()) notes.insert(notes.begin(), note);
  notes.insert(notes.end(), exported->notes.begin(), exported->notes.end());
  if (flags.output.empty()) {
    for (const std::string& line : notes) PrintNote(line);
    return PrintOut(exported->files.front().second) ? kExitOk : kExitUsage;
  }
  const StatusOr<std::vector<std::string>> paths = Write(flags, format, *exported);
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
                   "Folder (fr) or file; without it a file's text goes to standard output")
      ->type_name("PATH");
  CLI::Option* const last =
      verb->add_option(
              "--last", flags->last,
              "Of each rank only its last N operations, and all that are unfinished; 0: all "
              "(fr: 2000, as PyTorch's buffer; others: 0)")
          ->type_name("N");
  verb->add_flag("--json", flags->json,
                 "What was written where, as JSON (schema gordian.export.v1)");
  verb->footer(
      "Exit code: 0 written; 2 unreadable input, or not writable.\n"
      "Example: gordian export latest -f fr -o dumps\n"
      "         python3 -m torch.distributed.flight_recorder.fr_trace dumps\n"
      "         gordian export latest -f dot | dot -Tsvg >waits.svg");
  verb->callback([=] {
    flags->last_given = last->count() > 0;
    context->needs = Needs{};
    context->chosen = [=] { return Export(*flags); };
  });
}

}  // namespace gordian::cli
