// lapidary man, lapidary completions: the command line described for troff and for shells, from its own definitions.
#include <iostream>

#include "cli/commands.hpp"
#include "cli/settings.hpp"
#include "cli/flags.hpp"

namespace lapidary::cli {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_name().empty(); });
}

// "-o", "--max-tokens": as they are typed
std::vector<std::string> spellings(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() != 0; }
bool takes_file(const CLI::Option& option) { return option.get_type_name() == "FILE" || option.get_type_name() == "DIR" || option.get_type_name() == "MODEL"; }

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::vector<std::string> names_of(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  return names;
}

std::string troff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '-' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped.starts_with('\'') || escaped.starts_with('.') ? "\\&" + escaped : escaped;  // which would be a request
}

void print_man(const CLI::App& app) {
  std::cout << ".TH LAPIDARY 1\n.SH NAME\nlapidary \\- " << troff(app.get_description())
            << "\n.SH SYNOPSIS\n.B lapidary\n.I COMMAND\n[options]\n.SH COMMANDS\n";
  for (const CLI::App* command : commands_of(app)) {
    std::cout << ".SS " << command->get_name() << "\n" << troff(command->get_description()) << ".\n";
    for (const CLI::Option* option : command->get_options()) {
      std::vector<std::string> names = spellings(*option);
      if (option->get_positional()) names.insert(names.begin(), option->get_name(true));
      const bool is_named = takes_value(*option) && !option->get_lnames().empty();
      std::cout << ".TP\n.B " << troff(joined(names, ", ")) << (is_named ? " \\fI" + troff(option->get_type_name()) + "\\fR" : "")
                << "\n" << troff(option->get_description()) << "\n";
    }
  }
  std::cout << ".SH ENVIRONMENT\n";
  for (const char* setting : settings())
    std::cout << ".TP\n.B " << variable_of(setting) << "\nWhat \\-\\-" << troff(setting) << " is where that is not given.\n";
  std::cout << ".TP\n.B LAPIDARY_CONFIG\nA JSON file with an object of such settings, by the names of their flags; without it, "
               "lapidary/config.json in the user's folder for such files. Variables come before it.\n"
               ".TP\n.B LAPIDARY_MODELS\nFolders with models, separated by colons.\n"
               ".TP\n.B HF_HUB_CACHE, HF_HOME\nWhere the cache of the Hugging Face hub is.\n.TP\n.B NO_COLOR\nNo colours on the terminal.\n"
               ".SH EXAMPLES\n.nf\nlapidary generate \"Give me JSON for 3 people.\"\n"
               "lapidary generate \\-m gemma\\-4\\-e2b\\-it\\-4bit \\-\\-json\\-schema schema.json \\-\\-file question.txt\n"
               "git diff | lapidary generate \\-\\-system \"Write a commit message.\"\nlapidary chat \\-\\-think\nlapidary list\n.fi\n";
  std::cout << ".SH EXIT STATUS\n.TP\n0\nDone.\n.TP\n" << kFailure
            << "\nA file, a checkpoint or the machine is at fault; one line on standard error says which.\n.TP\n" << kUsage
            << "\nThe command line is at fault.\n.TP\n" << kUnfinished
            << "\nA limit came before the end of a tool call, or of what a schema asks for.\n.TP\n" << kCancelled << "\nStopped by Ctrl\\-C; what was generated has been printed.\n";
}

// Flags and commands below it.
std::string words_of(const CLI::App& command) {
  std::vector<std::string> words = names_of(commands_of(command));
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : spellings(*option)) words.push_back(name);
  return joined(words);
}

// After a flag its values, or, where it lists none, whatever the shell offers: files.
void print_bash_command(const CLI::App& command) {
  std::cout << "    " << command.get_name() << ")\n      words=\"" << words_of(command) << "\"\n      case \"$before\" in\n";
  for (const CLI::Option* option : command.get_options())
    if (takes_value(*option) && !spellings(*option).empty())
      std::cout << "        " << joined(spellings(*option), "|") << ") words=\"" << joined(choices_of(*option)) << "\" ;;\n";
  std::cout << "      esac ;;\n";
}

void print_bash(const CLI::App& app) {
  const std::string names = joined(names_of(commands_of(app)));
  std::cout << "_lapidary() {\n  local words=\"" << names << "\" before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
            << "  [ \"$COMP_CWORD\" = 1 ] || case \"${COMP_WORDS[1]}\" in\n";
  for (const CLI::App* command : commands_of(app)) print_bash_command(*command);
  std::cout << "    *) words= ;;\n  esac\n"
            << "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\n"
            << "complete -o default -F _lapidary lapidary\n";
}

// Within single quotes, and within a specification that colons and brackets divide.
std::string zsh_escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') escaped += '\\';
    escaped += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return escaped;
}

void print_zsh_option(const CLI::Option& option) {
  const std::string choices = joined(choices_of(option));
  const std::string values = !takes_value(option) ? "" : ":" + zsh_escaped(option.get_type_name()) + ":" +
                             (!choices.empty() ? "(" + choices + ")" : takes_file(option) ? "_files" : " ");
  for (const std::string& name : spellings(option))
    std::cout << " \\\n        '*" << name << "[" << zsh_escaped(option.get_description()) << "]" << values << "'";
}

// The file is the body of the function when the shell loads it on its own, and defines it when it is sourced.
void print_zsh(const CLI::App& app) {
  std::cout << "#compdef lapidary\n_lapidary() {\n  local -a commands=(";
  for (const CLI::App* command : commands_of(app))
    std::cout << "\n    '" << command->get_name() << ":" << zsh_escaped(command->get_description()) << "'";
  std::cout << ")\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
            << "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n";
  for (const CLI::App* command : commands_of(app)) {
    const std::string below = joined(names_of(commands_of(*command)));
    std::cout << "    " << command->get_name() << ") _arguments";
    for (const CLI::Option* option : command->get_options()) print_zsh_option(*option);
    std::cout << " \\\n        '*: :" << (below.empty() ? "_files" : "(" + below + ")") << "' ;;\n";
  }
  std::cout << "  esac\n}\nif [[ $funcstack[1] == _lapidary ]]; then _lapidary \"$@\"; else compdef _lapidary lapidary; fi\n";
}

std::string fish_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return quoted + "'";
}

void print_fish_option(const CLI::App& command, const CLI::Option& option) {
  if (spellings(option).empty()) return;
  std::cout << "complete -c lapidary -n '__fish_seen_subcommand_from " << command.get_name() << "'";
  for (const std::string& name : option.get_snames()) std::cout << " -s " << name;
  for (const std::string& name : option.get_lnames()) std::cout << " -l " << name;
  const std::vector<std::string> choices = choices_of(option);
  if (!choices.empty()) std::cout << " -x -a " << fish_quoted(joined(choices));
  else if (takes_value(option)) std::cout << (takes_file(option) ? " -r -F" : " -x");
  std::cout << " -d " << fish_quoted(option.get_description()) << "\n";
}

void print_fish(const CLI::App& app) {
  for (const CLI::App* command : commands_of(app)) {
    std::cout << "complete -c lapidary -n __fish_use_subcommand -f -a " << command->get_name() << " -d "
              << fish_quoted(command->get_description()) << "\n";
    for (const CLI::App* below : commands_of(*command))
      std::cout << "complete -c lapidary -n '__fish_seen_subcommand_from " << command->get_name() << "' -f -a " << below->get_name()
                << " -d " << fish_quoted(below->get_description()) << "\n";
    for (const CLI::Option* option : command->get_options()) print_fish_option(*command, *option);
  }
}

}  // namespace

void add_describe(CLI::App& app) {
  app.add_subcommand("man", "Print the manual page")->callback([&app] { print_man(app); });
  CLI::App* completions = app.add_subcommand("completions", "Print completions for a shell");
  completions->require_subcommand(1);
  const std::pair<const char*, void (*)(const CLI::App&)> shells[] = {
      {"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
  for (const auto& [shell, print] : shells)
    completions->add_subcommand(shell, std::string("Completions for ") + shell)->callback([&app, print = print] { print(app); });
}

}  // namespace lapidary::cli
