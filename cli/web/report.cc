// gordian report: writes the page of a recorded job as one HTML file. gordian token: prints the
// secret of a folder's live page.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "analyzer/access/access_key.h"
#include "analyzer/web/page_document.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/verbs.h"
#include "cli/web/recorded_page.h"
#include "cli/web/session_page.h"
#include "common/utf8.h"
#include "dashboard/page_files.h"

namespace gordian::cli {
namespace {

struct ReportFlags {
  std::string path = "latest";
  std::string output;
  bool json = false;
};

int Report(ReportFlags flags) {
  std::string note;
  const StatusOr<web::PageParts> parts = RecordedPage(flags.path, &note);
  if (!parts.ok()) {
    PrintError(parts.status().message());
    return kExitUsage;
  }
  if (!note.empty()) PrintNote(note);
  if (flags.output.empty()) flags.output = kPageFile;
  const std::string page = web::ReportPage(dashboard::EmbeddedPage(), *parts);
  if (const Status written = WriteOutput(flags.output, page); !written.ok()) {
    PrintError(written.message());
    return kExitUsage;
  }
  if (flags.json) {
    const nlohmann::ordered_json json = {
        {"schema", "gordian.report.v1"}, {"file", flags.output}, {"bytes", page.size()}};
    return PrintOut(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                    "\n")
               ? kExitOk
               : kExitUsage;
  }
  return PrintText(Printable(CleanUtf8(flags.output)) + ": " + WithCommas(page.size()) +
                   " bytes; open it in a browser, it needs no network\n")
             ? kExitOk
             : kExitUsage;
}

struct TokenFlags {
  std::string folder = "gordian-sessions";
  std::string role = "viewer";
  std::string job;
};

int Token(const TokenFlags& flags) {
  const StatusOr<OwnedFolder> held = OwnedFolder::Adopt(flags.folder);
  const StatusOr<access::AccessKey> key =
      held.ok() ? access::AccessKey::Open(*held) : held.status();
  if (!key.ok()) {
    PrintError(key.status().message());
    return kExitUsage;
  }
  const std::string token = !flags.job.empty()          ? key->JobToken(flags.job)
                            : flags.role == "collector" ? key->CollectorToken()
                            : flags.role == "admin"     ? key->AdminToken()
                                                        : key->ViewerToken();
  return PrintOut(token + "\n") ? kExitOk : kExitUsage;
}

}  // namespace

void AddReportVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* verb = app.add_subcommand("report", "Write a recorded job's page as one HTML file");
  verb->add_option("path", flags->path,
                   "A session, a .gtrace file, or another tool's dumps (default: latest)")
      ->type_name("PATH");
  verb->add_option("-o,--output", flags->output, "The file to write (default: report.html)")
      ->type_name("FILE");
  verb->add_flag("--json", flags->json,
                 "What was written where, as JSON (schema gordian.report.v1)");
  verb->footer(
      "Exit code: 0 written; 2 unreadable input, or not writable.\n"
      "Example: gordian report runs/hung -o hung.html");
  verb->callback([=] {
    context->needs = Needs{};
    context->chosen = [=] { return Report(*flags); };
  });
}

void AddTokenVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<TokenFlags>();
  CLI::App* verb = app.add_subcommand(
      "token", "Print a token for a gordian serve, or a page, beyond this machine");
  verb->add_option("folder", flags->folder,
                   "Folder of gordian serve --sessions, or a session (default: gordian-sessions)")
      ->type_name("DIR");
  CLI::Option* const role =
      verb->add_option("--role", flags->role,
                       "viewer: sees all jobs (default); admin: acknowledges incidents, too; "
                       "collector: sees all jobs, and is a node of any")
          ->type_name("ROLE")
          ->check(CLI::IsMember({"viewer", "admin", "collector"}));
  verb->add_option("--job", flags->job, "Is a node of this job, and of no other")
      ->type_name("NAME")
      ->excludes(role);
  verb->footer(
      "A token is made from the folder's access.key, so it stays the same. To take all tokens "
      "back, "
      "remove that file and start the server again.\n"
      "Example: gordian token --job train /shared/gordian > train.token\n"
      "         gordian run --analyzer head:7411 --job train --token-file train.token -- ./train\n"
      "         curl -H \"Authorization: Bearer $(gordian token /shared/gordian)\" "
      "http://head:7412/metrics");
  verb->callback([=] {
    context->needs = Needs{};
    context->chosen = [=] { return Token(*flags); };
  });
}

}  // namespace gordian::cli
