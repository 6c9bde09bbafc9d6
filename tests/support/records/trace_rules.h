// Checks the rules of Chrome's trace event format, as Perfetto reads it, for the events that this project writes.
#pragma once

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace ridgepoint::testing {

// The broken rules of a trace.
class TraceRules {
 public:
  static std::vector<std::string> broken_by(const nlohmann::json& trace) {
    TraceRules rules;
    if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array()) {
      return {"there is no array traceEvents"};
    }
    for (const auto& event : trace["traceEvents"]) rules.visit(event);
    rules.check_nesting();
    rules.check_flows();
    rules.check_names();
    return rules.broken_;
  }

 private:
  using Json = nlohmann::json;
  using Track = std::pair<int, int>;
  struct Slice {
    double begin;
    double end;
    std::string name;
  };
  struct FlowEnd {
    double at;
    Track track;
  };
  // Half the resolution of timestamps, which is a nanosecond.
  static constexpr double kGrain = 0.0005;

  void fail(const std::string& what, const Json& event) { broken_.push_back(what + ": " + event.dump()); }

  void visit(const Json& event) {
    if (!event.contains("ph") || !event["ph"].is_string() || !event.contains("name") || !event["name"].is_string() ||
        !event.contains("pid") || !event["pid"].is_number_integer() || !event.contains("tid") ||
        !event["tid"].is_number_integer()) {
      return fail("every event has ph, name, pid and tid", event);
    }
    const std::string phase = event["ph"];
    const Track track{event["pid"], event["tid"]};
    if (phase == "M") return visit_metadata(event, track);
    if (!event.contains("ts") || !event["ts"].is_number() || event["ts"].get<double>() < 0) {
      return fail("an event's ts is a number of microseconds from zero", event);
    }
    if (phase == "C") return visit_counter(event);
    used_.insert(track);
    if (phase == "X") return visit_slice(event, track);
    if (phase == "s" || phase == "f") return visit_flow(event, track, phase == "s");
    fail("an event is M, X, C, s or f here", event);
  }

  void visit_counter(const Json& event) {
    if (!event.contains("args") || event["args"].empty()) return fail("a counter has args", event);
    for (const Json& value : event["args"])
      if (!value.is_number()) fail("a counter has numbers", event);
  }

  void visit_metadata(const Json& event, const Track& track) {
    if (!event.contains("args")) return fail("metadata has args", event);
    if (event["name"] == "thread_name") named_.insert(track);
    if (event["name"] == "process_name") processes_.insert(track.first);
    const bool is_name = event["name"] == "thread_name" || event["name"] == "process_name";
    if (is_name && !event["args"]["name"].is_string()) fail("a name is text", event);
  }

  void visit_slice(const Json& event, const Track& track) {
    if (!event.contains("dur") || !event["dur"].is_number() || event["dur"].get<double>() < 0) {
      return fail("a slice's dur is a number from zero", event);
    }
    const double begin = event["ts"];
    slices_[track].push_back({begin, begin + event["dur"].get<double>(), event["name"]});
  }

  void visit_flow(const Json& event, const Track& track, bool starts) {
    if (!event.contains("id") || !event.contains("cat")) return fail("a flow has an id and a cat", event);
    if (!starts && event.value("bp", "") != "e") fail("a flow ends in the slice around it (bp e)", event);
    const std::tuple key(event["id"].dump(), event["cat"].get<std::string>(), event["name"].get<std::string>());
    auto& ends = starts ? starts_ : finishes_;
    if (!ends.try_emplace(key, FlowEnd{event["ts"], track}).second) fail("a flow begins and ends once", event);
  }

  // Slices of a track are disjoint or nested; a parent comes before its children in the file.
  void check_nesting() {
    for (auto& [track, slices] : slices_) {
      std::ranges::stable_sort(slices, {}, &Slice::begin);
      std::vector<Slice> open;
      for (const Slice& slice : slices) {
        while (!open.empty() && open.back().end <= slice.begin + kGrain) open.pop_back();
        if (!open.empty() && slice.end > open.back().end + kGrain) {
          broken_.push_back("slice '" + slice.name + "' reaches out of '" + open.back().name + "'");
        }
        open.push_back(slice);
      }
    }
  }

  bool is_in_slice(const FlowEnd& end) const {
    const auto slices = slices_.find(end.track);
    return slices != slices_.end() && std::ranges::any_of(slices->second, [&](const Slice& slice) {
             return end.at >= slice.begin - kGrain && end.at <= slice.end + kGrain;
           });
  }

  void check_flows() {
    for (const auto& [key, start] : starts_) {
      const auto finish = finishes_.find(key);
      const std::string id = "flow " + std::get<0>(key);
      if (finish == finishes_.end()) {
        broken_.push_back(id + " never ends");
        continue;
      }
      if (finish->second.at < start.at - kGrain) broken_.push_back(id + " ends before it begins");
      if (!is_in_slice(start) || !is_in_slice(finish->second)) broken_.push_back(id + " touches no slice");
    }
    for (const auto& [key, finish] : finishes_) {
      if (!starts_.contains(key)) broken_.push_back("flow " + std::get<0>(key) + " never begins");
    }
  }

  void check_names() {
    for (const Track& track : used_) {
      if (!named_.contains(track) || !processes_.contains(track.first)) {
        broken_.push_back("track " + std::to_string(track.first) + "/" + std::to_string(track.second) + " has no name");
      }
    }
  }

  std::vector<std::string> broken_;
  std::map<Track, std::vector<Slice>> slices_;
  std::map<std::tuple<std::string, std::string, std::string>, FlowEnd> starts_, finishes_;
  std::set<Track> used_, named_;
  std::set<int> processes_;
};

}  // namespace ridgepoint::testing
