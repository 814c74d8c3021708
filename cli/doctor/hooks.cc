// gordian hooks: prints the table of intercepted symbols.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "cli/verbs.h"
#include "proto/ring/calls.h"

namespace gordian::cli {
namespace {

const char* StyleName(ring::CallStyle style) {
  switch (style) {
    case ring::CallStyle::kBlocks:
      return "begin-end";
    case ring::CallStyle::kPoint:
      return "point";
    case ring::CallStyle::kSilent:
      return "silent";
  }
  return "";
}

const char* PayloadName(ring::PayloadKind payload) {
  switch (payload) {
    case ring::PayloadKind::kNone:
      return "none";
    case ring::PayloadKind::kOperation:
      return "operation";
    case ring::PayloadKind::kSignal:
      return "signal";
    case ring::PayloadKind::kCommInit:
      return "communicator-init";
    case ring::PayloadKind::kCommCall:
      return "communicator-call";
    case ring::PayloadKind::kGroup:
      return "group";
    case ring::PayloadKind::kStreamCreate:
      return "stream-create";
    case ring::PayloadKind::kStreamDestroy:
      return "stream-destroy";
    case ring::PayloadKind::kStreamWork:
      return "stream-work";
    case ring::PayloadKind::kGraph:
      return "graph";
    case ring::PayloadKind::kPiece:
      return "text";
    case ring::PayloadKind::kHostWait:
      return "host-wait";
  }
  return "";
}

// What the call does, if its payload has several kinds of effects; else "".
const char* EffectName(const ring::CallInfo& call) {
  constexpr const char* kWork[] = {"",
                                   "kernels",
                                   "host-function",
                                   "event-wait",
                                   "event-record",
                                   "event-forgotten",
                                   "graph-launch",
                                   "memory-wait",
                                   "memory-write",
                                   "memory-shared"};
  constexpr const char* kWait[] = {"", "stream", "event", "device", "free", "copy"};
  constexpr const char* kGraph[] = {"",     "end-capture", "destroy",     "clone",
                                    "nest", "instantiate", "exec-destroy"};
  if (call.payload == ring::PayloadKind::kStreamWork) return kWork[static_cast<int>(call.work)];
  if (call.payload == ring::PayloadKind::kGraph) return kGraph[static_cast<int>(call.graph)];
  if (call.meaning == ring::Meaning::kPoll) return "poll";
  return kWait[static_cast<int>(call.wait)];
}

// Exported symbols are a name and what sets this form apart: "v2", "per-thread default stream".
struct Form {
  std::string base;
  std::string variant;
};
Form FormOf(const ring::CallInfo& call) {
  Form form{call.name, ""};
  if (call.Has(ring::kPerThread)) {
    form.base.resize(form.base.size() - std::string_view("_ptsz").size());  // or _ptds
    form.variant = "per-thread default stream";
  }
  const auto strip = [&](std::string_view suffix, const char* meaning) {
    if (!form.base.ends_with(suffix)) return;
    form.base.resize(form.base.size() - suffix.size());
    form.variant = form.variant.empty() ? meaning : meaning + (", " + form.variant);
  };
  strip("_v2", "v2");
  strip("_v3", "v3");
  strip("_v4", "v4");
  return form;
}

std::string Version(ring::Library library, uint32_t number) {
  if (number == 0) return "";
  if (library != ring::Library::kNccl)
    return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
  const uint32_t scale = number < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", number / scale, number % scale / 100, number % 100);
}

std::vector<std::string> Rules(std::string_view text) {
  std::vector<std::string> rules;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    if (word != "-") rules.push_back(word);
  }
  return rules;
}

// What can report the call: its symbol, and with --cupti the driver's callbacks.
std::vector<std::string> Sources(uint16_t call) {
  switch (call) {
#define GORDIAN_CUPTI(symbol, number) case ring::kCall_##symbol:
#include "proto/ring/cupti_calls.def"
#undef GORDIAN_CUPTI
    return {"symbol", "cupti"};
    default:
      return {"symbol"};
  }
}

std::string Table() {
  std::string text = fmt::format("{:<8}{:<44}{:<11}{:<19}{:<17}{:<15}{}\n", "LIBRARY", "SYMBOL",
                                 "RECORDED", "CARRIES", "EFFECT", "SOURCES", "USED BY RULES");
  for (uint16_t id = 1; id < ring::kCallCount; ++id) {
    const ring::CallInfo& call = ring::kCalls[id];
    text += fmt::format("{:<8}{:<44}{:<11}{:<19}{:<17}{:<15}{}\n", ring::LibraryName(call.library),
                        call.name, StyleName(call.style), PayloadName(call.payload),
                        EffectName(call), fmt::join(Sources(id), " "), call.rules);
  }
  return text;
}

std::string Json() {
  nlohmann::ordered_json json;
  json["schema"] = "gordian.hooks.v2";
  json["hooks"] = nlohmann::ordered_json::array();
  for (uint16_t id = 1; id < ring::kCallCount; ++id) {
    const ring::CallInfo& call = ring::kCalls[id];
    const Form form = FormOf(call);
    nlohmann::ordered_json row = {{"call", id},
                                  {"library", ring::LibraryName(call.library)},
                                  {"symbol", call.name},
                                  {"name", form.base},
                                  {"variant", form.variant},
                                  {"parameters", call.parameters},
                                  {"may_block", call.style == ring::CallStyle::kBlocks},
                                  {"recorded", StyleName(call.style)},
                                  {"payload", PayloadName(call.payload)},
                                  {"effect", EffectName(call)},
                                  {"sources", Sources(id)},
                                  {"rules", Rules(call.rules)},
                                  {"introduced_in", nullptr}};
    if (const uint32_t version = ring::IntroducedIn(id); version != 0) {
      row["introduced_in"] = Version(call.library, version);
    }
    json["hooks"].push_back(std::move(row));
  }
  return json.dump(2) + "\n";
}

}  // namespace

void AddHooksVerb(CLI::App& app, VerbContext* context) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* verb =
      app.add_subcommand("hooks", "List the intercepted calls and the rule that uses each");
  verb->add_flag("--json", *as_json, "As JSON");
  verb->footer(
      "Rules (W1 ...) are those of docs/wait-model.md.\nExample: gordian hooks | grep Free");
  verb->callback([=] {
    context->chosen = [=] { return PrintOut(*as_json ? Json() : Table()) ? kExitOk : kExitUsage; };
  });
}

}  // namespace gordian::cli
