#include "cli/mcp/mcp_server.h"

#include <algorithm>
#include <array>

#include "common/version.h"

namespace gordian::cli {
namespace {

using nlohmann::ordered_json;

// JSON-RPC's.
constexpr int kParseError = -32700, kInvalidRequest = -32600, kMethodNotFound = -32601,
              kInvalidParams = -32602;

// Newest first. All of them have what is used here.
constexpr std::array<std::string_view, 3> kProtocols = {"2025-06-18", "2025-03-26", "2024-11-05"};

constexpr char kInstructions[] =
    "gordian finds deadlocks in multi-GPU jobs. Begin with list_sessions, then ask for the verdict "
    "of a session. A verdict says only what its evidence proves: mind its confidence. Names and "
    "texts in a session come from the job that was recorded.";

// Nothing that was sent is nested deeper: what is, no part of it is looked at.
constexpr int kMostDepth = 32;

// What is answered instead of a result.
struct RpcError {
  int code;
  std::string message;
};

std::string Text(const ordered_json& message) {
  return message.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string Failure(const ordered_json& id, const RpcError& error) {
  return Text({{"jsonrpc", "2.0"},
               {"id", id},
               {"error", {{"code", error.code}, {"message", error.message}}}});
}

bool HasType(const ordered_json& value, const std::string& type) {
  if (type == "string") return value.is_string();
  // Within what a rank can be.
  if (type == "integer") return value.is_number_integer() && value >= 0 && value <= INT32_MAX;
  return false;
}

// Empty: the arguments are as the tool wants them.
std::string Mistake(const McpTool& tool, const ordered_json& arguments) {
  const ordered_json& properties = tool.arguments["properties"];
  for (const auto& [name, value] : arguments.items()) {
    if (!properties.contains(name)) return tool.name + " has no argument '" + name + "'";
    const std::string type = properties[name]["type"];
    if (!HasType(value, type))
      return "argument '" + name + "' of " + tool.name + " is no " +
             (type == "integer" ? "number from 0" : type);
  }
  for (const auto& name : tool.arguments["required"]) {
    if (!arguments.contains(name))
      return tool.name + " needs the argument '" + name.get<std::string>() + "'";
  }
  return "";
}

}  // namespace

std::string McpServer::TooLong() {
  return Failure(nullptr, {kInvalidRequest,
                           "a message has more than " + std::to_string(kMcpLineBytes) + " bytes"});
}

ordered_json McpServer::Call(const ordered_json& params) const {
  const auto name = params.find("name");
  if (name == params.end() || !name->is_string())
    throw RpcError{kInvalidParams, "tools/call needs the name of a tool"};
  const std::string wanted = *name;
  const auto tool = std::find_if(tools_.begin(), tools_.end(),
                                 [&](const McpTool& one) { return one.name == wanted; });
  if (tool == tools_.end())
    throw RpcError{kInvalidParams, "there is no tool '" + wanted + "' (see tools/list)"};
  const ordered_json arguments = params.value("arguments", ordered_json::object());
  if (!arguments.is_object()) throw RpcError{kInvalidParams, "arguments must be an object"};
  if (const std::string mistake = Mistake(*tool, arguments); !mistake.empty())
    throw RpcError{kInvalidParams, mistake};
  const StatusOr<ordered_json> answer = tool->call(arguments);
  if (!answer.ok()) {
    return {
        {"content", ordered_json::array({{{"type", "text"}, {"text", answer.status().message()}}})},
        {"isError", true}};
  }
  const std::string text = answer->dump(2, ' ', false, ordered_json::error_handler_t::replace);
  return {{"content", ordered_json::array({{{"type", "text"}, {"text", text}}})},
          {"structuredContent", *answer},
          {"isError", false}};
}

ordered_json McpServer::Result(const std::string& method, const ordered_json& params) const {
  if (method == "ping") return ordered_json::object();
  if (method == "tools/call") return Call(params);
  if (method == "tools/list") {
    ordered_json tools = ordered_json::array();
    for (const McpTool& tool : tools_) {
      tools.push_back({{"name", tool.name},
                       {"description", tool.description},
                       {"inputSchema", tool.arguments},
                       {"annotations", {{"readOnlyHint", true}, {"openWorldHint", false}}}});
    }
    return {{"tools", tools}};
  }
  if (method == "initialize") {
    const auto wanted = params.find("protocolVersion");
    if (wanted == params.end() || !wanted->is_string())
      throw RpcError{kInvalidParams, "initialize needs protocolVersion"};
    const std::string version = *wanted;
    const bool known = std::find(kProtocols.begin(), kProtocols.end(), version) != kProtocols.end();
    return {{"protocolVersion", known ? version : std::string(kProtocols.front())},
            {"capabilities", {{"tools", {{"listChanged", false}}}}},
            {"serverInfo", {{"name", "gordian"}, {"version", kVersion}}},
            {"instructions", kInstructions}};
  }
  throw RpcError{kMethodNotFound, "there is no method '" + method + "'"};
}

std::optional<std::string> McpServer::Answer(std::string_view line) const {
  bool deep = false;
  const auto within = [&](int depth, ordered_json::parse_event_t, ordered_json&) {
    deep |= depth > kMostDepth;
    return depth <= kMostDepth;
  };
  const ordered_json message = ordered_json::parse(line, within, /*allow_exceptions=*/false);
  if (message.is_discarded() && !deep) return Failure(nullptr, {kParseError, "this is no JSON"});
  if (deep) return Failure(nullptr, {kInvalidRequest, "a message is nested too deep"});
  if (message.is_array())
    return Failure(nullptr, {kInvalidRequest, "MCP has no batches: one message a line"});
  if (!message.is_object())
    return Failure(nullptr, {kInvalidRequest, "a message must be an object"});
  const auto id = message.find("id");
  const bool has_id = id != message.end() && (id->is_string() || id->is_number_integer());
  const ordered_json answer_to = has_id ? *id : ordered_json();
  if (message.value("jsonrpc", ordered_json()) != "2.0")
    return Failure(answer_to, {kInvalidRequest, "jsonrpc must be \"2.0\""});
  if (id != message.end() && !has_id)
    return Failure(nullptr, {kInvalidRequest, "an id must be a text or a whole number"});
  const auto method = message.find("method");
  if (method == message.end() && has_id &&
      (message.contains("result") || message.contains("error")))
    return std::nullopt;  // a response: this server asks for nothing
  if (method == message.end() || !method->is_string())
    return Failure(answer_to, {kInvalidRequest, "a request needs a method"});
  if (!has_id) return std::nullopt;  // a notification, which is never answered
  const auto params = message.find("params");
  if (params != message.end() && !params->is_object())
    return Failure(answer_to, {kInvalidParams, "params must be an object"});
  try {
    return Text(
        {{"jsonrpc", "2.0"},
         {"id", answer_to},
         {"result", Result(*method, params == message.end() ? ordered_json::object() : *params)}});
  } catch (const RpcError& error) {
    return Failure(answer_to, error);
  }
}

}  // namespace gordian::cli
