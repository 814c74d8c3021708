// gordian completion: scripts that complete gordian's command line in bash, zsh and fish, made from
// its definitions. Each script holds all verbs and options; a shell starts no gordian to complete.
#include <memory>
#include <string>

#include "cli/output.h"
#include "cli/reference/command_tree.h"
#include "cli/reference/reference_verbs.h"

namespace gordian::cli {
namespace {

std::string Join(const std::vector<std::string>& words, const char* separator) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : separator) + word;
  return out;
}

// Puts a backslash before each of `special`.
std::string Escape(const std::string& text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// In single quotes of bash and zsh.
std::string Quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// What a list of candidates says of an option or verb: its first clause.
std::string Short(const std::string& text) {
  constexpr size_t kMost = 78;
  const std::string first = text.substr(0, text.find(';'));
  if (first.size() <= kMost) return first;
  return first.substr(0, first.rfind(' ', kMost - 4)) + " ...";
}

std::string ChildNames(const CommandEntry& command) {
  std::string out;
  for (const CommandEntry& child : command.children) {
    out += (out.empty() ? "" : " ") + child.path.back();
  }
  return out;
}

// The bash command that completes an option's value, or a positional.
std::string BashAction(const OptionEntry& option) {
  if (!option.choices.empty()) {
    return "COMPREPLY=($(compgen -W '" + Join(option.choices, " ") + "' -- \"$cur\"))";
  }
  switch (KindOf(option)) {
    case ValueKind::kFile:
      return "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\"))";
    case ValueKind::kFolder:
      return "compopt -o filenames; COMPREPLY=($(compgen -d -- \"$cur\"))";
    case ValueKind::kOther:
      break;
  }
  return ":";
}

std::string BashScript(const CommandEntry& root) {
  std::string paths, values, words, rest;
  for (const CommandEntry* command : AllCommands(root)) {
    const std::string at = Join(command->path, " ");
    std::vector<std::string> names;
    std::string positional;
    for (const OptionEntry& option : command->options) {
      if (option.positional) {
        if (positional.empty()) positional = BashAction(option);
        continue;
      }
      names.insert(names.end(), option.names.begin(), option.names.end());
      if (option.value.empty()) continue;
      std::string patterns;
      for (const std::string& name : option.names) {
        patterns += (patterns.empty() ? "'" : "|'") + at + ":" + name + "'";
      }
      values += "    " + patterns + ") " + BashAction(option) + "; return 0 ;;\n";
    }
    for (const CommandEntry& child : command->children) {
      paths +=
          "        '" + at + ":" + child.path.back() + "') at='" + Join(child.path, " ") + "' ;;\n";
    }
    words += "    '" + at + "') options='" + Join(names, " ") + "' ;;\n";
    if (!command->children.empty()) {
      positional = "COMPREPLY=($(compgen -W '" + ChildNames(*command) + "' -- \"$cur\"))";
    } else if (command->takes_command) {
      positional = "COMPREPLY=($(compgen -c -- \"$cur\"))";
    }
    if (!positional.empty()) rest += "    '" + at + "') " + positional + " ;;\n";
  }
  return "# bash completion of gordian, made by `gordian completion bash`.\n"
         "# source <(gordian completion bash), or put it where bash-completion looks for it.\n"
         "\n"
         "# Whether the option $2 of the verb $1 takes a value; if so, completes \"$cur\" as one.\n"
         "_gordian_value() {\n"
         "  case \"$1:$2\" in\n" +
         values +
         "  esac\n"
         "  return 1\n"
         "}\n"
         "\n"
         "_gordian() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} prev= at= options= i word skip=0\n"
         "  COMPREPLY=()\n"
         "  ((COMP_CWORD > 0)) && prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
         "  # bash cuts words at '=' and gives that as a word.\n"
         "  if [[ $cur == '=' ]]; then\n"
         "    cur=\n"
         "  elif [[ $prev == '=' ]] && ((COMP_CWORD > 1)); then\n"
         "    prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
         "  fi\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    word=${COMP_WORDS[i]}\n"
         "    if ((skip)); then skip=0; continue; fi\n"
         "    case $word in\n"
         "      --)  # the command of a job\n"
         "        if declare -F _command_offset >/dev/null; then\n"
         "          _command_offset $((i + 1))\n"
         "        elif ((COMP_CWORD == i + 1)); then\n"
         "          COMPREPLY=($(compgen -c -- \"$cur\"))\n"
         "        else\n"
         "          compopt -o filenames\n"
         "          COMPREPLY=($(compgen -f -- \"$cur\"))\n"
         "        fi\n"
         "        return\n"
         "        ;;\n"
         "      -*)\n"
         "        local reply=(\"${COMPREPLY[@]}\")\n"
         "        if [[ ${COMP_WORDS[i + 1]} != '=' ]] && _gordian_value \"$at\" \"$word\" "
         "2>/dev/null; then skip=1; fi\n"
         "        COMPREPLY=(\"${reply[@]}\")\n"
         "        ;;\n"
         "      *)\n"
         "        case \"$at:$word\" in\n" +
         paths +
         "        esac\n"
         "        ;;\n"
         "    esac\n"
         "  done\n"
         "  [[ $prev == -* ]] && _gordian_value \"$at\" \"$prev\" && return\n"
         "  COMPREPLY=()\n"
         "  case $at in\n" +
         words +
         "  esac\n"
         "  if [[ $cur == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
         "    return\n"
         "  fi\n"
         "  case $at in\n" +
         rest +
         "  esac\n"
         "}\n"
         "complete -F _gordian gordian\n";
}

std::string ZshAction(const OptionEntry& option) {
  if (!option.choices.empty()) return "(" + Join(option.choices, " ") + ")";
  switch (KindOf(option)) {
    case ValueKind::kFile:
      return "_files";
    case ValueKind::kFolder:
      return "_files -/";
    case ValueKind::kOther:
      break;
  }
  return " ";
}

// Words for _arguments, each on a line of its own.
std::string ZshArguments(const CommandEntry& command, const std::string& indent) {
  std::string out;
  int place = 1;
  for (const OptionEntry& option : command.options) {
    const std::string message =
        option.value.empty() ? "" : ":" + Escape(option.value, ":\\") + ":" + ZshAction(option);
    if (option.positional) {
      const std::string where = option.repeated ? "*" : std::to_string(place++);
      out += " \\\n" + indent +
             Quoted(where + ":" + Escape(option.names.front(), ":\\") + ":" + ZshAction(option));
      continue;
    }
    const std::string exclude = option.repeated ? "*" : "(" + Join(option.names, " ") + ")";
    for (const std::string& name : option.names) {
      const std::string equals = !option.value.empty() && name.starts_with("--") ? "=" : "";
      out += " \\\n" + indent +
             Quoted(exclude + name + equals + "[" + Escape(Short(option.description), "[]\\") +
                    "]" + message);
    }
  }
  return out;
}

// The body of the function of a command that has children, or the call of _arguments of one that
// has none.
std::string ZshCommand(const CommandEntry& command, const std::string& indent) {
  std::string out = indent + "_arguments -C" + ZshArguments(command, indent + "  ");
  if (command.children.empty()) {
    if (command.takes_command) out += " \\\n" + indent + "  '*::command:_normal'";
    return out + "\n";
  }
  out += " \\\n" + indent + "  '1:verb:->verb' \\\n" + indent + "  '*::rest:->rest'\n";
  out += indent + "case $state in\n" + indent + "  verb)\n" + indent + "    verbs=(\n";
  for (const CommandEntry& child : command.children) {
    out += indent + "      " +
           Quoted(Escape(child.path.back(), ":\\") + ":" + Short(child.description)) + "\n";
  }
  out += indent + "    )\n" + indent + "    _describe -t verbs verb verbs\n" + indent + "    ;;\n" +
         indent + "  rest)\n" + indent + "    case $line[1] in\n";
  for (const CommandEntry& child : command.children) {
    out += indent + "      " + child.path.back() + ")\n" + ZshCommand(child, indent + "        ") +
           indent + "        ;;\n";
  }
  return out + indent + "    esac\n" + indent + "    ;;\n" + indent + "esac\n";
}

std::string ZshScript(const CommandEntry& root) {
  return "#compdef gordian\n"
         "# zsh completion of gordian, made by `gordian completion zsh`. Put it as _gordian into "
         "a\n"
         "# folder of $fpath, or after compinit: source <(gordian completion zsh)\n"
         "_gordian() {\n"
         "  local curcontext=$curcontext state state_descr line\n"
         "  local -a verbs\n"
         "  typeset -A opt_args\n" +
         ZshCommand(root, "  ") +
         "}\n"
         "if [[ ${funcstack[1]} == _gordian ]]; then\n"
         "  _gordian \"$@\"\n"
         "else\n"
         "  compdef _gordian gordian\n"
         "fi\n";
}

std::string FishQuoted(const std::string& text) { return "'" + Escape(text, "'\\") + "'"; }

std::string FishScript(const CommandEntry& root) {
  std::string out =
      "# fish completion of gordian, made by `gordian completion fish`. Put it into\n"
      "# ~/.config/fish/completions/gordian.fish, or: gordian completion fish | source\n"
      "\n"
      "# Whether the words before the cursor are of the verb $argv, and none is \"--\".\n"
      "function __gordian_in\n"
      "    set -l words (commandline -opc)\n"
      "    set -e words[1]\n"
      "    contains -- -- $words; and return 1\n"
      "    set -l at\n"
      "    for word in $words\n"
      "        if not string match -q -- '-*' $word; and test (count $at) -lt (count $argv)\n"
      "            set -a at $word\n"
      "        end\n"
      "    end\n"
      "    test \"$at\" = \"$argv\"\n"
      "end\n"
      "\n"
      "# Whether no verb was given yet.\n"
      "function __gordian_no_verb\n"
      "    set -l words (commandline -opc)\n"
      "    set -e words[1]\n"
      "    not string match -qv -- '-*' $words\n"
      "end\n"
      "\n"
      "# The command of a job, behind \"--\".\n"
      "function __gordian_command\n"
      "    contains -- -- (commandline -opc)\n"
      "end\n"
      "\n"
      "complete -c gordian -f\n"
      "complete -c gordian -n __gordian_command -a '(__fish_complete_command)' -F\n";
  for (const CommandEntry* command : AllCommands(root)) {
    const std::string at = command->path.empty()
                               ? "__gordian_no_verb"
                               : "'__gordian_in " + Join(command->path, " ") + "'";
    const std::string line = "complete -c gordian -n " + at;
    for (const CommandEntry& child : command->children) {
      out += line + " -a " + FishQuoted(child.path.back()) + " -d " +
             FishQuoted(Short(child.description)) + "\n";
    }
    for (const OptionEntry& option : command->options) {
      std::string value;
      if (!option.choices.empty()) {
        value = " -a " + FishQuoted(Join(option.choices, " "));
      } else if (KindOf(option) == ValueKind::kFile) {
        value = " -F";
      } else if (KindOf(option) == ValueKind::kFolder) {
        value = " -a '(__fish_complete_directories)'";
      }
      if (option.positional) {
        if (!value.empty()) out += line + value + "\n";
        continue;
      }
      std::string names;
      for (const std::string& name : option.names) {
        names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      out += line + names + (option.value.empty() ? "" : " -r" + value) + " -d " +
             FishQuoted(Short(option.description)) + "\n";
    }
  }
  return out;
}

}  // namespace

void AddCompletionVerb(CLI::App& app, VerbContext* context) {
  auto shell = std::make_shared<std::string>();
  CLI::App* verb =
      app.add_subcommand("completion", "Print a script that completes gordian's command line");
  verb->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->type_name("SHELL")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  verb->footer("Example: source <(gordian completion bash)");
  verb->callback([=] {
    context->chosen = [=] {
      const CommandEntry root = DescribeCommands(*verb->get_parent());
      const std::string script = *shell == "bash"  ? BashScript(root)
                                 : *shell == "zsh" ? ZshScript(root)
                                                   : FishScript(root);
      return PrintOut(script) ? kExitOk : kExitUsage;
    };
  });
}

}  // namespace gordian::cli
