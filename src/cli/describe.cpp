// lapidary man, lapidary completions: the command line described for troff and for shells, from its own definitions.
#include <functional>
#include <iostream>

#include "cli/commands.hpp"

namespace lapidary::cli {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_name().empty(); });
}

// "--max-tokens", "-o": as they are typed
std::vector<std::string> spellings(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  return names;
}

bool takes_value(const CLI::Option& option) { return option.get_type_size() != 0; }

std::string troff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '-' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

void print_man(const CLI::App& app) {
  std::cout << ".TH LAPIDARY 1\n.SH NAME\nlapidary \\- " << troff(app.get_description())
            << "\n.SH SYNOPSIS\n.B lapidary\n.I COMMAND\n[options]\n.SH COMMANDS\n";
  for (const CLI::App* command : commands_of(app)) {
    std::cout << ".SS " << command->get_name() << "\n" << troff(command->get_description()) << ".\n";
    for (const CLI::Option* option : command->get_options()) {
      std::string names = option->get_positional() ? option->get_name(true) : "";
      for (const std::string& name : spellings(*option)) names += (names.empty() ? "" : ", ") + name;
      std::cout << ".TP\n.B " << troff(names) << (takes_value(*option) && !option->get_positional() ? " \\fIVALUE\\fR" : "")
                << "\n" << troff(option->get_description()) << "\n";
    }
  }
  std::cout << ".SH EXIT STATUS\n.TP\n0\nDone.\n.TP\n" << kFailure
            << "\nA file, a checkpoint or the machine is at fault; one line on standard error says which.\n.TP\n" << kUsage
            << "\nThe command line is at fault.\n.TP\n" << kCancelled << "\nStopped by Ctrl\\-C; what was generated has been printed.\n";
}

std::string words_of(const CLI::App& command) {
  std::string words;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : spellings(*option)) words += (words.empty() ? "" : " ") + name;
  return words;
}

void print_bash(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : commands_of(app)) names += (names.empty() ? "" : " ") + command->get_name();
  std::cout << "_lapidary() {\n  local words\n  case \"${COMP_WORDS[1]}\" in\n";
  for (const CLI::App* command : commands_of(app))
    std::cout << "    " << command->get_name() << ") words=\"" << words_of(*command) << "\" ;;\n";
  std::cout << "    *) words=\"" << names << "\" ;;\n  esac\n  [ \"$COMP_CWORD\" = 1 ] && words=\"" << names << "\"\n"
            << "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\n"
            << "complete -o default -F _lapidary lapidary\n";
}

void print_zsh(const CLI::App& app) {
  std::cout << "#compdef lapidary\nautoload -U +X bashcompinit && bashcompinit\n";
  print_bash(app);
}

std::string fish_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return quoted + "'";
}

void print_fish(const CLI::App& app) {
  for (const CLI::App* command : commands_of(app)) {
    std::cout << "complete -c lapidary -n __fish_use_subcommand -a " << command->get_name() << " -d "
              << fish_quoted(command->get_description()) << "\n";
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames())
        std::cout << "complete -c lapidary -n '__fish_seen_subcommand_from " << command->get_name() << "' -l " << name
                  << (takes_value(*option) ? " -r" : "") << " -d " << fish_quoted(option->get_description()) << "\n";
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
