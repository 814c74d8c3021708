// Reads fields of a status (schema gordian.status.v1), which may come from anybody: what is missing
// or mistyped counts as unknown.
#ifndef GORDIAN_CLI_STATUS_STATUS_FIELDS_H_
#define GORDIAN_CLI_STATUS_STATUS_FIELDS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gordian::cli {

// Printable; "" if unknown.
std::string FieldText(const nlohmann::ordered_json& from, const char* key);
int64_t FieldNumber(const nlohmann::ordered_json& from, const char* key, int64_t otherwise = -1);
// -1 if unknown.
double FieldReal(const nlohmann::ordered_json& from, const char* key);
bool FieldFlag(const nlohmann::ordered_json& from, const char* key);
// The objects in the array `key`; empty if there is no such array.
std::vector<const nlohmann::ordered_json*> FieldList(const nlohmann::ordered_json& from,
                                                     const char* key);
// The texts in the array `key`, printable.
std::vector<std::string> FieldTexts(const nlohmann::ordered_json& from, const char* key);
// The whole numbers in the array `key`.
std::vector<int> FieldRanks(const nlohmann::ordered_json& from, const char* key);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_STATUS_STATUS_FIELDS_H_
