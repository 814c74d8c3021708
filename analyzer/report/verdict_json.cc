#include "analyzer/report/verdict_json.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "analyzer/stacks/stack_merge.h"
#include "common/clock.h"
#include "common/json_text.h"
#include "common/read_file.h"

namespace gordian::analyzer {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr model::VerdictKind kKinds[] = {
    model::VerdictKind::kInconclusive, model::VerdictKind::kHealthy,
    model::VerdictKind::kFinished,     model::VerdictKind::kDeadlock,
    model::VerdictKind::kMismatch,     model::VerdictKind::kRankNotJoined,
    model::VerdictKind::kRankExited,   model::VerdictKind::kRankStopped,
    model::VerdictKind::kRankAborted,  model::VerdictKind::kStuckKernel,
    model::VerdictKind::kHostBlocked,  model::VerdictKind::kInitHang,
};
constexpr model::Confidence kConfidences[] = {
    model::Confidence::kPossible, model::Confidence::kSuspected, model::Confidence::kConfirmed};
constexpr model::PartState kPartStates[] = {
    model::PartState::kNotCalled, model::PartState::kCalled, model::PartState::kInOpenGroup,
    model::PartState::kEnqueued,  model::PartState::kAtHead, model::PartState::kDone};

ordered_json EdgeToJson(const model::WaitEdge& edge, const SiteResolver& sites) {
  return {{"rank", edge.rank},
          {"waits_for_rank", edge.waits_for_rank},
          {"reason", model::Name(edge.reason)},
          {"op", edge.op},
          {"comm", fmt::format("{:016x}", edge.comm)},
          {"comm_name", edge.comm_name},
          {"seq", edge.sequence},
          {"stream", fmt::format("{:#x}", edge.stream)},
          {"bytes", edge.bytes},
          {"site", sites(edge.site)},
          {"detail", edge.detail}};
}

ordered_json OperationToJson(const model::StuckOperation& operation, const SiteResolver& sites) {
  ordered_json members = ordered_json::array();
  for (const model::OperationMember& member : operation.members) {
    members.push_back({{"rank", member.rank},
                       {"state", PartStateName(member.state)},
                       {"instead", member.instead},
                       {"site", sites(member.site)}});
  }
  return {{"op", operation.op},
          {"comm", fmt::format("{:016x}", operation.comm)},
          {"comm_name", operation.comm_name},
          {"seq", operation.sequence},
          {"bytes", operation.bytes},
          {"members", std::move(members)}};
}

ordered_json EvidenceToJson(const model::Evidence& evidence) {
  return {{"ranks_seen", evidence.ranks_seen}, {"ranks_expected", evidence.ranks_expected},
          {"records", evidence.records},       {"records_lost", evidence.records_lost},
          {"nccl_calls", evidence.nccl_calls}, {"not_visible", evidence.not_visible},
          {"assumes", evidence.assumes}};
}

ordered_json RecoveryToJson(const model::Recovery& recovery, const SiteResolver& sites) {
  return {{"recovered", recovery.recovered},
          {"refused", model::Name(recovery.refused)},
          {"why", recovery.why},
          {"rank", recovery.rank},
          {"site", sites(recovery.site)},
          {"operations", recovery.operations},
          {"lend", recovery.lend},
          {"ms", std::round(recovery.ms * 1e3) / 1e3}};
}

void FindingToJson(const model::Finding& finding, const SiteResolver& sites, ordered_json* out) {
  ordered_json& to = *out;
  to["verdict"] = model::Name(finding.verdict);
  to["check"] = finding.check;
  to["confidence"] = model::Name(finding.confidence);
  to["summary"] = finding.summary;
  to["advice"] = finding.advice;
  to["culprit_ranks"] = finding.culprit_ranks;
  to["culprit_processes"] = ordered_json::array();
  for (const model::CulpritProcess& culprit : finding.culprit_processes) {
    to["culprit_processes"].push_back(
        {{"rank", culprit.rank}, {"pid", culprit.pid}, {"node", culprit.node}});
  }
  to["victim_ranks"] = finding.victim_ranks;
  to["cycle"] = ordered_json::array();
  for (const model::WaitEdge& edge : finding.cycle) to["cycle"].push_back(EdgeToJson(edge, sites));
  to["operations"] = ordered_json::array();
  for (const model::StuckOperation& operation : finding.operations) {
    to["operations"].push_back(OperationToJson(operation, sites));
  }
  to["communicators"] = ordered_json::array();
  for (const model::FoundCommunicator& comm : finding.communicators) {
    to["communicators"].push_back({{"comm", fmt::format("{:016x}", comm.comm)},
                                   {"name", comm.name},
                                   {"ranks", comm.ranks},
                                   {"size", comm.size},
                                   {"made_by_rank", comm.made_by},
                                   {"site", sites(comm.made_at)}});
  }
  to["stalled_at_ns"] = finding.stalled_at_ns;
  // JSON has no infinity, and less than a microsecond helps no person and no test.
  const double after = finding.detected_after_s;
  to["detected_after_s"] = std::isfinite(after) ? std::round(after * 1e6) / 1e6 : 0.0;
  if (finding.recovery.checked) to["recovery"] = RecoveryToJson(finding.recovery, sites);
  to["evidence"] = EvidenceToJson(finding.evidence);
}

ordered_json StackToJson(const model::FoldedStack& stack) {
  ordered_json threads = ordered_json::array();
  for (const model::FoldedStack::Thread& thread : stack.threads) {
    threads.push_back(
        {{"rank", thread.rank}, {"pid", thread.pid}, {"tid", thread.tid}, {"name", thread.name}});
  }
  ordered_json frames = ordered_json::array();
  for (const model::StackFrame& frame : stack.frames) {
    frames.push_back({{"function", frame.function},
                      {"file", frame.file},
                      {"line", frame.line},
                      {"module", frame.module},
                      {"python", frame.python}});
  }
  return {{"ranks", stack.ranks},
          {"folded_ranks", FoldedRanks(stack.ranks)},
          {"threads", std::move(threads)},
          {"frames", std::move(frames)}};
}

// Reads fields by name and type; keeps the first error with its path.
class Reader {
 public:
  explicit Reader(VerdictDocument* document) : document_(document) {}

  const std::string& error() const { return error_; }

  void Finding(const json& from, const std::string& path, model::Finding* out) {
    const std::string kind = Text(from, path, "verdict");
    if (error_.empty() && !ParseVerdictKind(kind, &out->verdict)) {
      Fail(path + "verdict", "is no verdict: \"" + kind + "\"");
    }
    out->check = Text(from, path, "check");
    const std::string confidence = Text(from, path, "confidence");
    if (error_.empty() && !ParseConfidence(confidence, &out->confidence)) {
      Fail(path + "confidence", "is no confidence: \"" + confidence + "\"");
    }
    out->summary = Text(from, path, "summary");
    out->advice = Text(from, path, "advice");
    out->culprit_ranks = Ranks(from, path, "culprit_ranks");
    if (from.contains("culprit_processes")) {  // files of earlier versions do not have it
      Each(from, path, "culprit_processes", [&](const json& culprit, const std::string& at) {
        model::CulpritProcess& to = out->culprit_processes.emplace_back();
        to.rank = Int(culprit, at, "rank");
        to.pid = static_cast<uint32_t>(Unsigned(culprit, at, "pid"));
        to.node = Text(culprit, at, "node");
      });
    }
    out->victim_ranks = Ranks(from, path, "victim_ranks");
    Each(from, path, "cycle",
         [&](const json& edge, const std::string& at) { out->cycle.push_back(Edge(edge, at)); });
    Each(from, path, "operations", [&](const json& operation, const std::string& at) {
      out->operations.push_back(Operation(operation, at));
    });
    if (from.contains("communicators")) {  // files of earlier versions do not have it
      Each(from, path, "communicators", [&](const json& comm, const std::string& at) {
        model::FoundCommunicator& to = out->communicators.emplace_back();
        to.comm = Hex(comm, at, "comm");
        to.name = Text(comm, at, "name");
        to.ranks = Ranks(comm, at, "ranks");
        to.size = Int(comm, at, "size");
        to.made_by = Int(comm, at, "made_by_rank");
        to.made_at = Site(comm, at);
      });
    }
    out->stalled_at_ns = Unsigned(from, path, "stalled_at_ns");
    out->detected_after_s = Real(from, path, "detected_after_s");
    if (from.contains("recovery")) {  // only confirmed cycles have it
      if (const json* recovery = Member(from, path, "recovery", json::value_t::object))
        out->recovery = Recovery(*recovery, path + "recovery.");
    }
    if (const json* evidence = Member(from, path, "evidence", json::value_t::object)) {
      out->evidence = Evidence(*evidence, path + "evidence.");
    }
  }

  // Only a job whose ranks were restarted has this object.
  void Restarts(const json& from, model::Restarts* out) {
    if (!error_.empty() || !from.contains("restarts")) return;
    const json* restarts = Member(from, "", "restarts", json::value_t::object);
    if (restarts == nullptr) return;
    out->times = Int(*restarts, "restarts.", "times");
    out->ranks = Ranks(*restarts, "restarts.", "ranks");
    out->because = Text(*restarts, "restarts.", "because");
  }

  model::FoldedStack Stack(const json& from, const std::string& path) {
    model::FoldedStack stack;
    stack.ranks = Ranks(from, path, "ranks");
    Each(from, path, "threads", [&](const json& thread, const std::string& at) {
      stack.threads.push_back({.rank = Int(thread, at, "rank"),
                               .pid = static_cast<uint32_t>(Unsigned(thread, at, "pid")),
                               .tid = static_cast<uint32_t>(Unsigned(thread, at, "tid")),
                               .name = Text(thread, at, "name")});
    });
    Each(from, path, "frames", [&](const json& frame, const std::string& at) {
      const json* python = Member(frame, at, "python", json::value_t::boolean);
      stack.frames.push_back({.function = Text(frame, at, "function"),
                              .file = Text(frame, at, "file"),
                              .line = Int(frame, at, "line"),
                              .module = Text(frame, at, "module"),
                              .python = python != nullptr && python->get<bool>()});
    });
    return stack;
  }

  template <typename Function>
  void Each(const json& from, const std::string& path, const char* key, Function function) {
    const json* list = Member(from, path, key, json::value_t::array);
    if (list == nullptr) return;
    for (size_t i = 0; i < list->size() && error_.empty(); ++i) {
      const std::string at = fmt::format("{}{}[{}]", path, key, i);
      if (!(*list)[i].is_object()) return Fail(at, "is not an object");
      function((*list)[i], at + ".");
    }
  }

  std::vector<int> Ranks(const json& from, const std::string& path, const char* key) {
    return List<int>(from, path, key, &json::is_number_integer, "rank");
  }

  std::string Text(const json& from, const std::string& path, const char* key) {
    const json* value = Member(from, path, key, json::value_t::string);
    return value == nullptr ? "" : value->get<std::string>();
  }

  const json* Member(const json& from, const std::string& path, const char* key,
                     json::value_t type) {
    if (!error_.empty()) return nullptr;
    auto found = from.find(key);
    if (found == from.end()) {
      Fail(path + key, "is missing");
      return nullptr;
    }
    const bool fits = type == json::value_t::number_float     ? found->is_number()
                      : type == json::value_t::number_integer ? found->is_number_integer()
                                                              : found->type() == type;
    if (!fits) {
      Fail(path + key, fmt::format("has the wrong type, {}", found->type_name()));
      return nullptr;
    }
    return &*found;
  }

 private:
  void Fail(const std::string& path, const std::string& what) {
    if (error_.empty()) error_ = path + " " + what;
  }

  int64_t Integer(const json& from, const std::string& path, const char* key) {
    const json* value = Member(from, path, key, json::value_t::number_integer);
    return value == nullptr ? 0 : value->get<int64_t>();
  }
  uint64_t Unsigned(const json& from, const std::string& path, const char* key) {
    const json* value = Member(from, path, key, json::value_t::number_integer);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned() && value->get<int64_t>() < 0) {
      Fail(path + key, "is negative");
      return 0;
    }
    return value->get<uint64_t>();
  }
  int Int(const json& from, const std::string& path, const char* key) {
    const int64_t value = Integer(from, path, key);
    if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
      Fail(path + key, "is out of range");
      return 0;
    }
    return static_cast<int>(value);
  }
  double Real(const json& from, const std::string& path, const char* key) {
    const json* value = Member(from, path, key, json::value_t::number_float);
    return value == nullptr ? 0 : value->get<double>();
  }
  uint64_t Hex(const json& from, const std::string& path, const char* key) {
    std::string text = Text(from, path, key);
    if (!error_.empty()) return 0;
    const size_t prefix = text.starts_with("0x") ? 2 : 0;
    const bool digits = text.size() > prefix && text.size() <= prefix + 16 &&
                        text.find_first_not_of("0123456789abcdef", prefix) == std::string::npos;
    if (!digits) {
      Fail(path + key, "is no hexadecimal number: \"" + text + "\"");
      return 0;
    }
    return std::stoull(text.substr(prefix), nullptr, 16);
  }
  template <typename T>
  std::vector<T> List(const json& from, const std::string& path, const char* key,
                      bool (json::*fits)() const noexcept, const char* what) {
    std::vector<T> items;
    if (const json* list = Member(from, path, key, json::value_t::array)) {
      for (const json& item : *list) {
        if (!(item.*fits)()) {
          Fail(path + key, fmt::format("holds something that is no {}", what));
          break;
        }
        items.push_back(item.get<T>());
      }
    }
    return items;
  }
  std::vector<std::string> Texts(const json& from, const std::string& path, const char* key) {
    return List<std::string>(from, path, key, &json::is_string, "text");
  }
  model::Site Site(const json& from, const std::string& path) {
    std::string text = Text(from, path, "site");
    if (text.empty()) return {};
    document_->site_texts.push_back(std::move(text));
    return {.process = 0, .address = document_->site_texts.size()};
  }

  model::WaitEdge Edge(const json& from, const std::string& path) {
    model::WaitEdge edge;
    edge.rank = Int(from, path, "rank");
    edge.waits_for_rank = Int(from, path, "waits_for_rank");
    const std::string reason = Text(from, path, "reason");
    if (const std::optional<model::Reason> known = model::ReasonByName(reason)) {
      edge.reason = *known;
    } else if (error_.empty()) {
      Fail(path + "reason", "is no reason to wait: \"" + reason + "\"");
    }
    edge.op = Text(from, path, "op");
    edge.comm = Hex(from, path, "comm");
    edge.comm_name = Text(from, path, "comm_name");
    edge.sequence = Integer(from, path, "seq");
    edge.stream = Hex(from, path, "stream");
    edge.bytes = Unsigned(from, path, "bytes");
    edge.site = Site(from, path);
    edge.detail = Text(from, path, "detail");
    return edge;
  }

  model::StuckOperation Operation(const json& from, const std::string& path) {
    model::StuckOperation operation;
    operation.op = Text(from, path, "op");
    operation.comm = Hex(from, path, "comm");
    operation.comm_name = Text(from, path, "comm_name");
    operation.sequence = Integer(from, path, "seq");
    operation.bytes = Unsigned(from, path, "bytes");
    Each(from, path, "members", [&](const json& member, const std::string& at) {
      model::OperationMember& to = operation.members.emplace_back();
      to.rank = Int(member, at, "rank");
      const std::string state = Text(member, at, "state");
      bool known = false;
      for (model::PartState candidate : kPartStates) {
        if (state == PartStateName(candidate)) {
          to.state = candidate;
          known = true;
        }
      }
      if (!known) Fail(at + "state", "is no state: \"" + state + "\"");
      to.instead = Text(member, at, "instead");
      to.site = Site(member, at);
    });
    return operation;
  }

  model::Recovery Recovery(const json& from, const std::string& path) {
    model::Recovery recovery;
    recovery.checked = true;
    const json* const recovered = Member(from, path, "recovered", json::value_t::boolean);
    recovery.recovered = recovered != nullptr && recovered->get<bool>();
    const std::string refused = Text(from, path, "refused");
    if (const auto known = model::RecoveryConditionByName(refused)) {
      recovery.refused = *known;
    } else if (error_.empty()) {
      Fail(path + "refused", "is no condition: \"" + refused + "\"");
    }
    recovery.why = Text(from, path, "why");
    recovery.rank = Int(from, path, "rank");
    recovery.site = Site(from, path);
    recovery.operations = Texts(from, path, "operations");
    if (from.contains("lend")) recovery.lend = Texts(from, path, "lend");  // older files lack it
    recovery.ms = Real(from, path, "ms");
    return recovery;
  }

  model::Evidence Evidence(const json& from, const std::string& path) {
    model::Evidence evidence;
    evidence.ranks_seen = Int(from, path, "ranks_seen");
    evidence.ranks_expected = Int(from, path, "ranks_expected");
    evidence.records = Unsigned(from, path, "records");
    evidence.records_lost = Unsigned(from, path, "records_lost");
    evidence.nccl_calls = Unsigned(from, path, "nccl_calls");
    evidence.not_visible = Texts(from, path, "not_visible");
    evidence.assumes = Texts(from, path, "assumes");
    return evidence;
  }

  VerdictDocument* document_;
  std::string error_;
};

}  // namespace

const char* PartStateName(model::PartState state) {
  switch (state) {
    case model::PartState::kNotCalled:
      return "not_called";
    case model::PartState::kCalled:
      return "called";
    case model::PartState::kInOpenGroup:
      return "in_open_group";
    case model::PartState::kEnqueued:
      return "enqueued";
    case model::PartState::kAtHead:
      return "at_head";
    case model::PartState::kDone:
      return "done";
  }
  return "not_called";
}

bool ParseVerdictKind(std::string_view name, model::VerdictKind* kind) {
  for (model::VerdictKind candidate : kKinds) {
    if (name != model::Name(candidate)) continue;
    *kind = candidate;
    return true;
  }
  return false;
}

bool ParseConfidence(std::string_view name, model::Confidence* confidence) {
  for (model::Confidence candidate : kConfidences) {
    if (name != model::Name(candidate)) continue;
    *confidence = candidate;
    return true;
  }
  return false;
}

ordered_json VerdictToJson(const model::Verdict& verdict, const SiteResolver& sites) {
  ordered_json out;
  out["schema"] = kVerdictSchema;
  FindingToJson(verdict.main, sites, &out);
  out["findings"] = ordered_json::array();
  for (const model::Finding& finding : verdict.findings) {
    ordered_json further;
    FindingToJson(finding, sites, &further);
    out["findings"].push_back(std::move(further));
  }
  if (const model::Restarts& restarts = verdict.restarts; restarts.times > 0) {
    out["restarts"] = {
        {"times", restarts.times}, {"ranks", restarts.ranks}, {"because", restarts.because}};
  }
  if (!verdict.disproved.empty()) {
    out["disproved"] = ordered_json::array();
    for (const model::Finding& finding : verdict.disproved) {
      ordered_json wrong;
      FindingToJson(finding, sites, &wrong);
      out["disproved"].push_back(std::move(wrong));
    }
  }
  out["signs"] = ordered_json::array();
  for (const model::Sign& sign : verdict.signs) {
    out["signs"].push_back({{"check", sign.check}, {"ranks", sign.ranks}, {"text", sign.text}});
  }
  out["stacks"] = ordered_json::array();
  for (const model::FoldedStack& stack : verdict.stacks) {
    out["stacks"].push_back(StackToJson(stack));
  }
  return out;
}

std::string VerdictToText(const model::Verdict& verdict, const SiteResolver& sites,
                          const VerdictStamp& stamp) {
  ordered_json out = VerdictToJson(verdict, sites);
  if (stamp.revision > 0) {
    out["revision"] = stamp.revision;
    out["written"] = FormatUtc(stamp.written_ns);
    out["closed"] = stamp.closed;
  }
  // Names come from watched processes: replaces invalid UTF-8 instead of throwing.
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

SiteResolver VerdictDocument::sites() const {
  return [texts = site_texts](const model::Site& site) {
    return site.address == 0 || site.address > texts.size() ? "" : texts[site.address - 1];
  };
}

StatusOr<VerdictDocument> ParseVerdict(std::string_view text) {
  const auto document = ParseJson<json>(text);
  if (document.is_discarded()) return Status::DataLoss("not JSON");
  if (!document.is_object()) return Status::DataLoss("not a JSON object");
  VerdictDocument out;
  Reader reader(&out);
  const std::string schema = reader.Text(document, "", "schema");
  if (reader.error().empty() && schema != kVerdictSchema) {
    if (schema.starts_with("gordian.verdict.")) {
      return Status::NewerVersion(
          fmt::format("schema is {}, this gordian reads {}", schema, kVerdictSchema));
    }
    return Status::DataLoss(fmt::format("schema is \"{}\", not {}", schema, kVerdictSchema));
  }
  reader.Finding(document, "", &out.verdict.main);
  reader.Each(document, "", "findings", [&](const json& finding, const std::string& at) {
    reader.Finding(finding, at, &out.verdict.findings.emplace_back());
  });
  reader.Restarts(document, &out.verdict.restarts);
  if (document.contains("disproved")) {
    reader.Each(document, "", "disproved", [&](const json& finding, const std::string& at) {
      reader.Finding(finding, at, &out.verdict.disproved.emplace_back());
    });
  }
  if (document.contains("signs")) {  // not in files of earlier versions
    reader.Each(document, "", "signs", [&](const json& sign, const std::string& at) {
      out.verdict.signs.push_back({.check = reader.Text(sign, at, "check"),
                                   .ranks = reader.Ranks(sign, at, "ranks"),
                                   .text = reader.Text(sign, at, "text")});
    });
  }
  if (document.contains("stacks")) {  // nor these
    reader.Each(document, "", "stacks", [&](const json& stack, const std::string& at) {
      out.verdict.stacks.push_back(reader.Stack(stack, at));
    });
  }
  if (document.contains("closed")) {  // nor these
    const json* const closed = reader.Member(document, "", "closed", json::value_t::boolean);
    if (closed != nullptr) out.closed = closed->get<bool>();
    out.written = reader.Text(document, "", "written");
  }
  if (!reader.error().empty()) return Status::DataLoss(reader.error());
  return out;
}

uint64_t RecordedRevision(const std::string& path) {
  const StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) return 0;
  const auto document = ParseJson<json>(*text);
  if (!document.is_object()) return 0;
  const auto found = document.find("revision");
  return found != document.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

StatusOr<VerdictDocument> ReadVerdictFile(const std::string& path) {
  const StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) return text.status();
  StatusOr<VerdictDocument> document = ParseVerdict(*text);
  if (document.ok()) return document;
  return Status(document.status().code(), path + ": " + document.status().message());
}

}  // namespace gordian::analyzer
