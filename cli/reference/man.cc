// gordian man: man pages, made from the definitions of the command line.
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <system_error>

#include "cli/output.h"
#include "cli/reference/command_tree.h"
#include "cli/reference/reference_verbs.h"
#include "common/config.h"
#include "common/version.h"

namespace gordian::cli {
namespace {

struct ManFlags {
  std::vector<std::string> verb;
  std::optional<std::string> folder;
};

// Text as roff reads it back: no escapes, hyphens that can be copied, no line that is a request.
std::string Roff(const std::string& text) {
  std::string out;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    begins_line = c == '\n';
  }
  return out;
}

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(toupper(static_cast<unsigned char>(c)));
  return text;
}

void AddOption(const OptionEntry& option, std::ostream& out) {
  out << ".TP\n";
  for (size_t i = 0; i < option.names.size(); ++i) {
    const std::string name = Roff(option.names[i]);
    out << (i == 0 ? "" : ", ") << (option.positional ? "\\fI" : "\\fB") << name << "\\fR";
  }
  if (!option.value.empty() && !option.positional) out << " \\fI" << Roff(option.value) << "\\fR";
  out << "\n" << Roff(option.description) << "\n";
  if (!option.choices.empty()) {
    out << (option.description.empty() ? "" : ".br\n") << "One of:";
    for (size_t i = 0; i < option.choices.size(); ++i) {
      out << (i == 0 ? " " : ", ") << Roff(option.choices[i]);
    }
    out << ".\n";
  }
}

// A footer's lines, by what they begin with.
void AddFooter(const std::string& footer, std::ostream& out) {
  std::istringstream lines(footer);
  std::string line, exit_status, example, other;
  while (std::getline(lines, line)) {
    if (line.empty()) continue;
    if (line.starts_with("Exit code: ")) {
      exit_status = line.substr(11);
    } else if (line.starts_with("Example: ")) {
      example = line.substr(9);
    } else {
      other += (other.empty() ? "" : "\n") + line;
    }
  }
  if (!other.empty()) out << ".SH NOTES\n" << Roff(other) << "\n";
  if (!exit_status.empty()) out << ".SH EXIT STATUS\n" << Roff(exit_status) << "\n";
  if (!example.empty()) out << ".SH EXAMPLES\n.nf\n" << Roff(example) << "\n.fi\n";
}

void AddEnvironment(std::ostream& out) {
  out << ".SH ENVIRONMENT\nOptions take precedence, then the file of\n.BR \\-\\-config .\n";
  for (const Setting& setting : Settings()) {
    if (setting.program == "command") continue;  // what commands get that gordian starts
    out << ".TP\n\\fB" << setting.name << "\\fR\n"
        << Roff(std::string(setting.meaning)) << " (read by: " << setting.program;
    if (!setting.default_value.empty()) {
      out << "; default: " << Roff(std::string(setting.default_value));
    }
    out << ")\n";
  }
}

std::string Page(const CommandEntry& root, const CommandEntry& command) {
  std::ostringstream out;
  const std::string name = FullName(command, '-');
  out << ".\\\" Made by `gordian man` from the definitions of the command line.\n"
      << ".TH " << Upper(Roff(name)) << " 1 \"" << GORDIAN_RELEASE_DATE << "\" \"gordian "
      << kVersion << "\" \"gordian\"\n"
      << ".SH NAME\n"
      << Roff(name) << " \\- " << Roff(command.description) << "\n"
      << ".SH SYNOPSIS\n.nf\n"
      << Roff(command.usage) << "\n.fi\n";
  if (!command.children.empty()) {
    out << ".SH COMMANDS\n";
    for (const CommandEntry& child : command.children) {
      out << ".TP\n\\fB" << Roff(FullName(child, '-')) << "\\fR(1)\n"
          << Roff(child.description) << "\n";
    }
  }
  if (!command.options.empty()) {
    out << ".SH OPTIONS\n";
    for (const OptionEntry& option : command.options) AddOption(option, out);
  }
  if (command.path.empty()) AddEnvironment(out);
  AddFooter(command.footer, out);
  out << ".SH SEE ALSO\n";
  if (&command == &root) {
    out << ".BR gordian\\-demo (1),\n.BR gordian\\-run (1),\n.BR gordian\\-doctor (1)\n";
  } else {
    out << ".BR gordian (1)\n";
  }
  return out.str();
}

int WriteAllPages(const CommandEntry& root, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const CommandEntry* command : AllCommands(root)) {
    const std::string path = folder + "/" + FullName(*command, '-') + ".1";
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << Page(root, *command);
    file.close();
    if (!file) {
      PrintError("cannot write " + path + (error ? ": " + error.message() : ""));
      return kExitUsage;
    }
  }
  return kExitOk;
}

int Man(const CLI::App& app, const ManFlags& flags) {
  const CommandEntry root = DescribeCommands(app);
  if (flags.folder) {
    if (!flags.verb.empty()) {
      PrintError("--to writes the pages of all verbs: leave " + flags.verb.front() + " out");
      return kExitUsage;
    }
    return WriteAllPages(root, *flags.folder);
  }
  for (const CommandEntry* command : AllCommands(root)) {
    if (command->path == flags.verb) return PrintOut(Page(root, *command)) ? kExitOk : kExitUsage;
  }
  PrintError("there is no verb '" + CLI::detail::join(flags.verb, " ") + "' (try: gordian --help)");
  return kExitUsage;
}

}  // namespace

void AddManVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<ManFlags>();
  CLI::App* verb =
      app.add_subcommand("man", "Print the man page of gordian, or of one of its verbs");
  verb->add_option("verb", flags->verb, "The verb; none: gordian itself")->type_name("VERB");
  verb->add_option("--to", flags->folder, "Write all pages into this folder instead")
      ->type_name("DIR");
  verb->footer("Example: gordian man run | man -l -");
  verb->callback([=] { context->chosen = [=] { return Man(*verb->get_parent(), *flags); }; });
}

}  // namespace gordian::cli
