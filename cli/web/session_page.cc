#include "cli/web/session_page.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "analyzer/model/verdict/check_catalogue.h"
#include "common/json_text.h"
#include "common/read_file.h"
#include "dashboard/page_files.h"

namespace gordian::cli {

std::string KeptStatus(const std::string& session) {
  StatusOr<std::string> text = ReadWholeFile(session + "/" + kStatusFile);
  if (!text.ok() || !ParseJson<nlohmann::json>(*text).is_object()) return "";
  return std::move(text).value();
}

// A gordian that was started again finds what the earlier one kept.
void SessionPage::Recall(const OwnedFolder& folder) {
  if (std::exchange(recalled_, true)) return;
  status_ = KeptStatus("/proc/self/fd/" + std::to_string(folder.fd()));
  const auto kept = ParseJson<nlohmann::json>(status_);
  if (!kept.is_object()) return;
  for (const char* key : {"check", "summary"}) {
    if (const auto text = kept.find(key); text != kept.end() && text->is_string()) {
      trouble_ += text->get<std::string>();
    }
  }
}

Status SessionPage::Write(const OwnedFolder& folder, const model::Finding& main,
                          web::PageParts parts) {
  Recall(folder);
  if (!model::SaysTrouble(main.verdict)) {
    trouble_.clear();
    status_.clear();
    (void)folder.RemoveFile(kStatusFile);  // of a suspicion that is withdrawn; mostly there is none
  } else if (const std::string trouble = main.check + main.summary;
             parts.live && trouble != trouble_) {
    trouble_ = trouble;
    status_ = parts.status_json;
    GORDIAN_RETURN_IF_ERROR(folder.ReplaceFile(kStatusFile, status_));
  } else if (!status_.empty()) {
    parts.status_json = status_;
  }
  parts.live = false;  // from disk it cannot ask for more, whatever the job does
  return folder.ReplaceFile(kPageFile, web::ReportPage(dashboard::EmbeddedPage(), parts));
}

}  // namespace gordian::cli
