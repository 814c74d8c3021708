#include "analyzer/importers/plain_data.h"

#include <charconv>
#include <nlohmann/json.hpp>

namespace gordian::importers {

PlainData::Index PlainData::AddBool(bool value) {
  Node node;
  node.kind = Kind::kBool;
  node.boolean = value;
  return Add(node);
}

PlainData::Index PlainData::AddInt(int64_t value) {
  Node node;
  node.kind = Kind::kInt;
  node.integer = value;
  return Add(node);
}

PlainData::Index PlainData::AddFloat(double value) {
  Node node;
  node.kind = Kind::kFloat;
  node.number = value;
  return Add(node);
}

PlainData::Index PlainData::AddText(std::string_view value) {
  Node node;
  node.kind = Kind::kText;
  node.place = texts_.size();
  node.length = static_cast<uint32_t>(value.size());
  texts_ += value;
  return Add(node);
}

PlainData::Index PlainData::AddList(List list) {
  Node node;
  node.kind = Kind::kList;
  node.place = lists_.size();
  pooled_ += sizeof list + list.capacity() * sizeof(Index);
  lists_.push_back(std::move(list));
  return Add(node);
}

PlainData::Index PlainData::AddDict() {
  Node node;
  node.kind = Kind::kDict;
  node.place = dicts_.size();
  pooled_ += sizeof(Items);
  dicts_.emplace_back();
  return Add(node);
}

void PlainData::Append(Index list, const List& values) {
  List& all = lists_[nodes_[list].place];
  const size_t before = all.capacity();
  all.insert(all.end(), values.begin(), values.end());
  pooled_ += (all.capacity() - before) * sizeof(Index);
}

void PlainData::Append(Index dict, Index key, Index value) {
  Items& all = dicts_[nodes_[dict].place];
  const size_t before = all.capacity();
  all.emplace_back(key, value);
  pooled_ += (all.capacity() - before) * sizeof(all.front());
}

std::optional<int64_t> PlainData::View::AsInt() const {
  if (kind() == Kind::kInt) return node().integer;
  if (kind() != Kind::kText) return std::nullopt;
  int64_t value = 0;
  const std::string_view text = AsText();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<bool> PlainData::View::AsBool() const {
  if (kind() == Kind::kBool) return node().boolean;
  return std::nullopt;
}

std::string_view PlainData::View::AsText() const {
  if (kind() != Kind::kText) return {};
  return std::string_view(data_->texts_).substr(node().place, node().length);
}

size_t PlainData::View::size() const {
  if (kind() == Kind::kList) return list().size();
  return kind() == Kind::kDict ? items().size() : 0;
}

PlainData::View PlainData::View::operator[](size_t i) const {
  return kind() == Kind::kList && i < list().size() ? View(data_, list()[i]) : View();
}

PlainData::View PlainData::View::operator[](std::string_view key) const {
  if (kind() != Kind::kDict) return View();
  // The last one wins, as in a dictionary that Python builds item by item.
  for (auto item = items().rbegin(); item != items().rend(); ++item) {
    if (View(data_, item->first).AsText() == key && !View(data_, item->first).is_null()) {
      return View(data_, item->second);
    }
  }
  return View();
}

std::pair<std::string, PlainData::View> PlainData::View::Item(size_t i) const {
  if (kind() != Kind::kDict || i >= items().size()) return {"", View()};
  const View key(data_, items()[i].first);
  std::string name(key.AsText());
  if (key.kind() == Kind::kInt) name = std::to_string(key.node().integer);
  return {std::move(name), View(data_, items()[i].second)};
}

namespace {

using Json = nlohmann::json;

// Builds the data while parsing: no second copy, and no recursion.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(PlainData* data) : data_(data) {}

  bool null() override { return Put(data_->Add({})); }
  bool boolean(bool value) override { return Put(data_->AddBool(value)); }
  bool number_integer(number_integer_t value) override { return Put(data_->AddInt(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX))
      return number_float(static_cast<double>(value), "");
    return number_integer(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return Put(data_->AddFloat(value));
  }
  bool string(string_t& value) override { return Put(data_->AddText(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(PlainData::Kind::kDict); }
  bool start_array(size_t) override { return Open(PlainData::Kind::kList); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& value) override {
    key_ = data_->AddText(value);
    return Bounded();
  }
  bool parse_error(size_t position, const std::string&, const Json::exception& error) override {
    error_ = "byte " + std::to_string(position) + ": " + error.what();
    return false;
  }
  const std::string& error() const { return error_; }

 private:
  bool Bounded() {
    if (data_->bytes() <= kMostPlainBytes) return true;
    error_ = "it takes more memory than any dump";
    return false;
  }
  bool Put(PlainData::Index at) {
    Attach(at);
    return Bounded();
  }
  bool Open(PlainData::Kind kind) {
    const bool list = kind == PlainData::Kind::kList;
    const PlainData::Index at = list ? data_->AddList() : data_->AddDict();
    Attach(at);
    open_.push_back(at);
    return Bounded();
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
    if (data_->KindOf(open_.back()) == PlainData::Kind::kDict) {
      data_->Append(open_.back(), key_, at);
    } else {
      data_->Append(open_.back(), {at});
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
