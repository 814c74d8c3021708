// gordian.toml: options of verbs in a file, in a table for each verb. Options of the command line
// take precedence over it, and it over GORDIAN_... variables.
#ifndef GORDIAN_CLI_SETTINGS_FILE_H_
#define GORDIAN_CLI_SETTINGS_FILE_H_

#include <CLI/CLI.hpp>

namespace gordian::cli {

// Adds --config FILE to `app`; without it, the file that GORDIAN_CONFIG names. A file that cannot be
// read, or sets what no verb has, is an error (CLI::ParseError) that names file and setting.
void AddSettingsFile(CLI::App* app);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_SETTINGS_FILE_H_
