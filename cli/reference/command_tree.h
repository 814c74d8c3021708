// The command line as data: what completion scripts, man pages and gordian.toml are made from.
#ifndef GORDIAN_CLI_REFERENCE_COMMAND_TREE_H_
#define GORDIAN_CLI_REFERENCE_COMMAND_TREE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace gordian::cli {

struct OptionEntry {
  std::vector<std::string> names;    // "-o", "--output"; of a positional its one name
  std::string value;                 // "FILE"; empty: a flag
  std::vector<std::string> choices;  // all values that it takes; empty: not listed
  std::string description;
  bool positional = false;
  bool repeated = false;
  bool setting = false;  // may stand in gordian.toml, by its long name
};

struct CommandEntry {
  std::vector<std::string> path;  // {"bench", "collectives"}; of gordian itself empty
  std::string description;
  std::string usage;  // "gordian run [OPTIONS] -- COMMAND..."
  std::string footer;
  bool takes_command = false;  // the words of a command follow "--"
  std::vector<OptionEntry> options;
  std::vector<CommandEntry> children;
};

// `app` is the root. Options and verbs of no group are not for users, and left out.
CommandEntry DescribeCommands(const CLI::App& app);

// A command and all below it, each before its children.
std::vector<const CommandEntry*> AllCommands(const CommandEntry& root);

// "gordian bench collectives", with another separator "gordian-bench-collectives".
std::string FullName(const CommandEntry& command, char separator);

// Its name in gordian.toml: the long one, without dashes. Empty: no setting.
std::string SettingName(const OptionEntry& option);

// What the values of an option name.
enum class ValueKind { kFile, kFolder, kOther };
ValueKind KindOf(const OptionEntry& option);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_REFERENCE_COMMAND_TREE_H_
