// gordian settings: a gordian.toml with every setting and its meaning, made from the definitions of
// the command line.
#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>

#include "cli/output.h"
#include "cli/reference/command_tree.h"
#include "cli/reference/reference_verbs.h"
#include "common/config.h"

namespace gordian::cli {
namespace {

constexpr size_t kWidth = 100;

// `text` in comment lines of at most kWidth columns.
std::string Comment(const std::string& text) {
  std::string out, line;
  const auto flush = [&] {
    if (!line.empty()) out += "#" + line + "\n";
    line.clear();
  };
  for (const std::string& word : CLI::detail::split(text, ' ')) {
    if (1 + line.size() + 1 + word.size() > kWidth) flush();
    line += " " + word;
  }
  flush();
  return out;
}

// A value to begin with.
std::string Sample(const OptionEntry& option) {
  static const std::map<std::string_view, const char*> kByName = {
      {"--on-verdict", "\"kill\""},
      {"--loss", "[2.0, 1.5, 1.2, 1.0, 0.9, 0.85]"},
      {"--since", "\"7d\""},
      {"--otlp", "\"http://127.0.0.1:4318\""},
      {"--alert", "[\"exec:notify-send gordian\"]"},
  };
  static const std::map<std::string_view, const char*> kByType = {
      {"HOST:PORT", "\"127.0.0.1:7411\""},
      {"DIR", "\"/path/to/folder\""},
      {"FILE", "\"/path/to/file\""},
      {"SECONDS", "5"},
      {"N", "2"},
      {"INT", "2"},
      {"K", "2"},
      {"T", "2"},
      {"R", "2"},
      {"S", "1"},
      {"RUNS", "2"},
      {"BYTES", "65536"},
      {"FLOAT", "0.5"},
      {"P", "0.1"},
      {"Q", "0.1"},
      {"E", "0.1"},
      {"PATH", "\"/path/to/file\""},
      {"FOLDER", "\"/path/to/folder\""},
      {"[A..B]", "\"1..3\""},
      {"GLOB", "[\"*gate*\"]"},
  };
  for (const std::string& name : option.names) {
    if (const auto found = kByName.find(name); found != kByName.end()) return found->second;
  }
  if (option.value.empty()) return "true";
  if (!option.choices.empty()) return "\"" + option.choices.front() + "\"";
  const auto found = kByType.find(option.value);
  return found != kByType.end() ? found->second : "\"" + option.value + "\"";
}

std::string Table(const CommandEntry& command) {
  std::string out;
  for (const OptionEntry& option : command.options) {
    const std::string name = SettingName(option);
    if (name.empty()) continue;
    std::string choices;
    for (const std::string& choice : option.choices)
      choices += (choices.empty() ? " One of: " : ", ") + choice;
    out +=
        "\n" + Comment(option.description + choices) + "#" + name + " = " + Sample(option) + "\n";
  }
  if (out.empty()) return "";
  std::string name;
  for (const std::string& part : command.path) name += (name.empty() ? "" : ".") + part;
  return "\n" + Comment(FullName(command, ' ') + ": " + command.description) + "[" + name + "]\n" +
         out;
}

std::string Variables() {
  std::string out =
      "\n# Variables of the environment, which gordian and what it loads into jobs read. An "
      "option,\n"
      "# or a setting above, takes precedence over the variable of the same meaning.\n#\n";
  for (const Setting& setting : Settings()) {
    if (setting.program == "command") continue;
    out += fmt::format("# {}={}\n", setting.name, setting.default_value) +
           Comment("    " + std::string(setting.meaning));
  }
  return out;
}

int PrintSettings(const CLI::App& app) {
  std::string out =
      "# gordian.toml: options of gordian's verbs, in a table for each verb. gordian reads the "
      "file\n"
      "# that `gordian --config FILE VERB` or GORDIAN_CONFIG names, and none otherwise. The "
      "command\n"
      "# line takes precedence over it. All is commented out here: take what you need.\n";
  const CommandEntry root = DescribeCommands(app);
  for (const CommandEntry* command : AllCommands(root)) out += Table(*command);
  return PrintOut(out + Variables()) ? kExitOk : kExitUsage;
}

}  // namespace

void AddSettingsVerb(CLI::App& app, VerbContext* context) {
  CLI::App* verb =
      app.add_subcommand("settings", "Print a gordian.toml with every setting and what it means");
  verb->footer(
      "Example: gordian settings > gordian.toml && gordian --config gordian.toml run -- ./train");
  verb->callback([=] { context->chosen = [=] { return PrintSettings(*verb->get_parent()); }; });
}

}  // namespace gordian::cli
