#include "cli/settings_file.h"

#include <stdlib.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/config_text.h"

namespace gordian::cli {
namespace {

using nlohmann::json;

class SettingsFile : public CLI::Config {
 public:
  explicit SettingsFile(const CLI::App* app) : app_(app) {}

  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return ""; }

  // Reads the file anew, as all of gordian's configurations are read: TOML or JSON, with limits.
  std::vector<CLI::ConfigItem> from_config(std::istream&) const override {
    const std::string path = app_->get_config_ptr()->as<std::string>();
    const StatusOr<json> settings = ReadConfigFile(path);
    if (!settings.ok()) throw CLI::ConfigError(settings.status().message());
    if (!settings->is_object()) throw CLI::ConfigError(path + " is no table of settings");
    std::vector<CLI::ConfigItem> items;
    Take(path, *app_, {}, *settings, &items);
    return items;
  }

 private:
  static void Take(const std::string& path, const CLI::App& app, std::vector<std::string> parents,
                   const json& table, std::vector<CLI::ConfigItem>* items) {
    const std::string prefix = parents.empty() ? "" : CLI::detail::join(parents, ".") + ".";
    for (const auto& setting : table.items()) {
      const std::string& key = setting.key();
      const json& value = setting.value();
      const auto refuse = [&](const std::string& why) {
        throw CLI::ConfigError(path + ": " + prefix + key + why + " (try: gordian settings)");
      };
      if (value.is_object()) {
        const std::vector<const CLI::App*> verbs =
            app.get_subcommands([&](const CLI::App* at) { return at->get_name() == key; });
        if (verbs.empty()) refuse(" is the name of no verb");
        std::vector<std::string> below = parents;
        below.push_back(key);
        Take(path, *verbs.front(), std::move(below), value, items);
        continue;
      }
      const CLI::Option* option = app.get_option_no_throw("--" + key);
      if (option == nullptr || !option->get_configurable()) refuse(" is no setting");
      CLI::ConfigItem item{.parents = parents, .name = key, .inputs = {}};
      for (const json& one : value.is_array() ? value : json::array({value})) {
        if (one.is_object() || one.is_array() || one.is_null()) refuse(" takes no such value");
        item.inputs.push_back(one.is_string() ? one.get<std::string>() : one.dump());
      }
      const bool flag = option->get_items_expected_max() == 0;
      if (flag && !value.is_boolean()) refuse(" takes true or false");
      if (!flag && value.is_boolean()) refuse(" takes a value, not true or false");
      if (!flag && (item.inputs.empty() ||
                    (item.inputs.size() > 1 && option->get_items_expected_max() == 1))) {
        refuse(" takes one value");
      }
      items->push_back(std::move(item));
    }
  }

  const CLI::App* const app_;
};

}  // namespace

void AddSettingsFile(CLI::App* app) {
  const char* const given = getenv("GORDIAN_CONFIG");
  const std::string path = given != nullptr ? given : "";
  app->set_config("--config", path,
                  "Take options that the command line does not give from this file (gordian "
                  "settings prints one; default: what GORDIAN_CONFIG names)",
                  /*config_required=*/!path.empty())
      ->type_name("FILE")
      // In --help: without the default and REQUIRED, which CLI11 adds for a file that must be there.
      ->option_text("FILE");
  app->config_formatter(std::make_shared<SettingsFile>(app));
}

}  // namespace gordian::cli
