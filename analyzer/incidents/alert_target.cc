#include "analyzer/incidents/alert_target.h"

#include <fcntl.h>
#include <openssl/sha.h>

#include <array>
#include <span>

#include "analyzer/access/access_key.h"
#include "analyzer/access/key_file.h"
#include "analyzer/http/http_url.h"

namespace gordian::incidents {
namespace {

constexpr size_t kLeastKeyBytes = 16;

std::string Hex(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string KeyOf(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return Hex(std::span(digest).first<8>());
}

const char* NameOf(AlertTarget::Kind kind) {
  switch (kind) {
    case AlertTarget::Kind::kSlack:
      return "slack";
    case AlertTarget::Kind::kAlertmanager:
      return "alertmanager";
    case AlertTarget::Kind::kExec:
      return "exec";
    case AlertTarget::Kind::kWebhook:
      break;
  }
  return "webhook";
}

}  // namespace

StatusOr<AlertTarget> ParseAlertTarget(std::string_view text) {
  const std::string_view whole = text;
  AlertTarget target;
  if (text.starts_with("exec:")) {
    target.kind = AlertTarget::Kind::kExec;
    target.url = text.substr(5);
    target.shown = "the command of --alert exec:";
    target.key = KeyOf(whole);
    if (target.url.empty()) return Status::InvalidArgument("--alert exec: lacks its command");
    return target;
  }
  for (const auto kind :
       {AlertTarget::Kind::kWebhook, AlertTarget::Kind::kSlack, AlertTarget::Kind::kAlertmanager}) {
    const std::string prefix = std::string(NameOf(kind)) + "+";
    if (!text.starts_with(prefix)) continue;
    target.kind = kind;
    text.remove_prefix(prefix.size());
    break;
  }
  StatusOr<http::HttpUrl> url = http::ParseHttpUrl(std::string(text));
  if (url.status().code() == StatusCode::kInvalidArgument) {
    return Status::InvalidArgument(
        "--alert takes http(s)://..., webhook+http(s)://..., slack+https://..., "
        "alertmanager+http(s)://... or exec:CMD");
  }
  // Alertmanager itself, or the address of its API.
  constexpr char kPath[] = "/api/v2/alerts";
  if (url.ok() && target.kind == AlertTarget::Kind::kAlertmanager && !url->path.ends_with(kPath)) {
    std::string path = url->path;
    while (path.ends_with('/')) path.pop_back();
    url = http::WithPath(*url, path + kPath);
  }
  GORDIAN_RETURN_IF_ERROR(url.status());
  target.url = url->url;
  target.shown = std::string(NameOf(target.kind)) + " at " + url->shown;
  target.key = KeyOf(whole);
  return target;
}

StatusOr<std::string> ReadAlertKey(const std::string& path) {
  return access::ReadKeyFile({.fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK),
                              .path = path,
                              .least = kLeastKeyBytes,
                              .next = "make one by: (umask 077; openssl rand -hex 32 > FILE)"});
}

std::string Signature(std::string_view key, std::string_view body) {
  return "sha256=" + access::HmacSha256(key, body);
}

}  // namespace gordian::incidents
