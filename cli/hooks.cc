// gordian hooks: the table of intercepted symbols.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

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
    case ring::PayloadKind::kHostWait:
      return "host-wait";
  }
  return "";
}

std::string Table() {
  std::string text = fmt::format("{:<8}{:<44}{:<11}{:<19}{}\n", "LIBRARY", "SYMBOL", "RECORDED",
                                 "CARRIES", "USED BY RULES");
  for (uint16_t id = 1; id < ring::kCallCount; ++id) {
    const ring::CallInfo& call = ring::kCalls[id];
    text += fmt::format("{:<8}{:<44}{:<11}{:<19}{}\n", call.library, call.name,
                        StyleName(call.style), PayloadName(call.payload), call.rules);
  }
  return text;
}

std::string Json() {
  nlohmann::ordered_json json;
  json["schema"] = "gordian.hooks.v1";
  json["hooks"] = nlohmann::ordered_json::array();
  for (uint16_t id = 1; id < ring::kCallCount; ++id) {
    const ring::CallInfo& call = ring::kCalls[id];
    json["hooks"].push_back({{"call", id},
                             {"library", call.library},
                             {"symbol", call.name},
                             {"recorded", StyleName(call.style)},
                             {"payload", PayloadName(call.payload)},
                             {"rules", call.rules}});
  }
  return json.dump(2) + "\n";
}

}  // namespace

void AddHooksVerb(CLI::App& app, VerbContext* context) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand("hooks", "List the intercepted calls and what each is for");
  verb->add_flag("--json", *as_json, "As JSON");
  verb->footer(
      "Rules (W1 ...) are those of docs/wait-model.md.\nExample: gordian hooks | grep Free");
  verb->callback([=] {
    context->chosen = [=] { return PrintOut(*as_json ? Json() : Table()) ? kExitOk : kExitUsage; };
  });
}

}  // namespace gordian::cli
