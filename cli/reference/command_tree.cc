#include "cli/reference/command_tree.h"

#include <algorithm>
#include <string_view>

namespace gordian::cli {
namespace {

// CLI11 appends what a check allows to the name of the type: "WHOSE:{nccl,preemptive}".
void SplitType(const std::string& type, OptionEntry* entry) {
  const size_t open = type.find('{');
  entry->value = type.substr(0, type.find(':'));
  if (open == 0) entry->value = "VALUE";
  if (type.starts_with("HOST:PORT")) entry->value = "HOST:PORT";
  if (open == std::string::npos || !type.ends_with('}')) return;
  std::string_view rest = std::string_view(type).substr(open + 1, type.size() - open - 2);
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    entry->choices.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
}

OptionEntry Describe(const CLI::Option& option) {
  OptionEntry entry;
  for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) entry.names.push_back("--" + name);
  entry.positional = entry.names.empty();
  if (entry.positional) entry.names.push_back(option.get_name(/*positional=*/true));
  if (option.get_items_expected_max() > 0) SplitType(option.get_type_name(), &entry);
  entry.description = option.get_description();
  entry.repeated = option.get_items_expected_max() > 1;
  entry.setting = !entry.positional && option.get_configurable() && !option.get_lnames().empty();
  return entry;
}

CommandEntry Describe(const CLI::App& app, const std::vector<std::string>& path) {
  CommandEntry entry;
  entry.path = path;
  entry.description = app.get_description();
  entry.footer = app.get_footer();
  std::string usage;
  if (const auto* formatter = dynamic_cast<const CLI::Formatter*>(app.get_formatter().get())) {
    usage = formatter->make_usage(&app, FullName(entry, ' '));
  }
  usage.erase(0, usage.find_first_not_of("\n"));
  usage.erase(usage.find_last_not_of("\n") + 1);
  entry.usage = usage.starts_with("Usage: ") ? usage.substr(7) : usage;
  entry.takes_command = entry.usage.find("-- COMMAND") != std::string::npos;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) entry.options.push_back(Describe(*option));
  }
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (child->get_name().empty() || child->get_group().empty()) continue;
    std::vector<std::string> below = path;
    below.push_back(child->get_name());
    entry.children.push_back(Describe(*child, below));
  }
  return entry;
}

void Append(const CommandEntry& command, std::vector<const CommandEntry*>* all) {
  all->push_back(&command);
  for (const CommandEntry& child : command.children) Append(child, all);
}

}  // namespace

CommandEntry DescribeCommands(const CLI::App& app) { return Describe(app, {}); }

std::vector<const CommandEntry*> AllCommands(const CommandEntry& root) {
  std::vector<const CommandEntry*> all;
  Append(root, &all);
  return all;
}

std::string FullName(const CommandEntry& command, char separator) {
  std::string name = "gordian";
  for (const std::string& part : command.path) name += separator + part;
  return name;
}

std::string SettingName(const OptionEntry& option) {
  if (!option.setting) return "";
  for (const std::string& name : option.names) {
    if (name.starts_with("--")) return name.substr(2);
  }
  return "";
}

ValueKind KindOf(const OptionEntry& option) {
  for (const char* word : {"FILE", "PATH", "SESSION", "CONFIG", "PROGRAM", "SESSIONS"}) {
    if (option.value == word) return ValueKind::kFile;
  }
  return option.value == "DIR" || option.value == "FOLDER" ? ValueKind::kFolder : ValueKind::kOther;
}

}  // namespace gordian::cli
