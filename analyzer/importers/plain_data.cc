#include "analyzer/importers/plain_data.h"

#include <charconv>
#include <nlohmann/json.hpp>

namespace gordian::importers {

std::optional<int64_t> PlainData::View::AsInt() const {
  if (kind() == Kind::kInt) return node().integer;
  if (kind() != Kind::kText) return std::nullopt;
  int64_t value = 0;
  const std::string& text = node().text;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<bool> PlainData::View::AsBool() const {
  if (kind() == Kind::kBool) return node().boolean;
  return std::nullopt;
}

std::string_view PlainData::View::AsText() const {
  return kind() == Kind::kText ? std::string_view(node().text) : std::string_view();
}

size_t PlainData::View::size() const {
  if (kind() == Kind::kList) return node().list.size();
  return kind() == Kind::kDict ? node().items.size() : 0;
}

PlainData::View PlainData::View::operator[](size_t i) const {
  return kind() == Kind::kList && i < node().list.size() ? View(data_, node().list[i]) : View();
}

PlainData::View PlainData::View::operator[](std::string_view key) const {
  if (kind() != Kind::kDict) return View();
  // The last one wins, as in a dictionary that Python builds item by item.
  for (auto item = node().items.rbegin(); item != node().items.rend(); ++item) {
    if (View(data_, item->first).AsText() == key && !View(data_, item->first).is_null()) {
      return View(data_, item->second);
    }
  }
  return View();
}

std::pair<std::string, PlainData::View> PlainData::View::Item(size_t i) const {
  if (kind() != Kind::kDict || i >= node().items.size()) return {"", View()};
  const View key(data_, node().items[i].first);
  std::string name(key.AsText());
  if (key.kind() == Kind::kInt) name = std::to_string(key.node().integer);
  return {std::move(name), View(data_, node().items[i].second)};
}

namespace {

using Json = nlohmann::json;

// Builds the data while parsing: no second copy, and no recursion.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(PlainData* data) : data_(data) {}

  bool null() override { return Put({}); }
  bool boolean(bool value) override {
    PlainData::Node node;
    node.kind = PlainData::Kind::kBool;
    node.boolean = value;
    return Put(std::move(node));
  }
  bool number_integer(number_integer_t value) override {
    PlainData::Node node;
    node.kind = PlainData::Kind::kInt;
    node.integer = value;
    return Put(std::move(node));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX))
      return number_float(static_cast<double>(value), "");
    return number_integer(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    PlainData::Node node;
    node.kind = PlainData::Kind::kFloat;
    node.number = value;
    return Put(std::move(node));
  }
  bool string(string_t& value) override {
    PlainData::Node node;
    node.kind = PlainData::Kind::kText;
    node.text = std::move(value);
    return Put(std::move(node));
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(PlainData::Kind::kDict); }
  bool start_array(size_t) override { return Open(PlainData::Kind::kList); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& value) override {
    PlainData::Node node;
    node.kind = PlainData::Kind::kText;
    node.text = std::move(value);
    key_ = data_->Add(std::move(node));
    return true;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception& error) override {
    error_ = "byte " + std::to_string(position) + ": " + error.what();
    return false;
  }
  const std::string& error() const { return error_; }

 private:
  bool Put(PlainData::Node node) {
    Attach(data_->Add(std::move(node)));
    return true;
  }
  bool Open(PlainData::Kind kind) {
    PlainData::Node node;
    node.kind = kind;
    const PlainData::Index at = data_->Add(std::move(node));
    Attach(at);
    open_.push_back(at);
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }
  void Attach(PlainData::Index at) {
    if (open_.empty()) {
      data_->SetRoot(at);
      return;
    }
    PlainData::Node& parent = data_->At(open_.back());
    if (parent.kind == PlainData::Kind::kDict) {
      parent.items.emplace_back(key_, at);
    } else {
      parent.list.push_back(at);
    }
  }

  PlainData* data_;
  std::vector<PlainData::Index> open_;
  PlainData::Index key_ = 0;
  std::string error_;
};

}  // namespace

StatusOr<PlainData> ReadJson(std::string_view bytes) {
  PlainData data;
  Builder builder(&data);
  if (!Json::sax_parse(bytes.begin(), bytes.end(), &builder)) {
    return Status::DataLoss(builder.error().empty() ? "not JSON" : builder.error());
  }
  return data;
}

}  // namespace gordian::importers
