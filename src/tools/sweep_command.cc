// `orrery sweep`: predicts programs over arguments, GPUs, caches and settings; results in SQLite.
//
//   [sweep]
//   programs  = ["./app"]
//   arguments = ["1024", "2048 fast"]     each a line of words; default: none
//   gpus      = ["h200", "h100"]          default: h200
//   cache     = ["cold", "warm"]          default: cold
//   set       = ["", "sm.count=144;memory.bandwidth=8TB/s"]   default: nothing changed
//
// Each point is one `orrery time` in a process of its own and is stored when it has ended: a sweep that was stopped goes on
// with the points that are missing. Not here: several machines.
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "tools/command.h"

namespace orrery::tools {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct Point {
  std::string program, arguments, gpu, cache, settings;
  std::string key() const { return fmt::format("{}|{}|{}|{}|{}", program, arguments, gpu, cache, settings); }
};

std::vector<std::string> strings(const toml::table& sweep, const char* key, std::vector<std::string> otherwise) {
  const auto* list = sweep[key].as_array();
  if (!list) {
    if (sweep.contains(key)) throw std::runtime_error(fmt::format("sweep.{} must be a list of strings", key));
    return otherwise;
  }
  std::vector<std::string> out;
  for (const auto& node : *list) {
    const auto text = node.value<std::string>();
    if (!text) throw std::runtime_error(fmt::format("sweep.{} must be a list of strings", key));
    out.push_back(*text);
  }
  return out;
}

std::vector<Point> read_spec(const std::string& file) {
  const toml::table root = toml::parse_file(file);
  const auto* sweep = root["sweep"].as_table();
  if (!sweep) throw std::runtime_error(file + " has no section [sweep]");
  for (const auto& [key, node] : *sweep) {
    const std::string k(key.str());
    if (k != "programs" && k != "arguments" && k != "gpus" && k != "cache" && k != "set") throw std::runtime_error(fmt::format("{}: unknown key sweep.{}", file, k));
  }
  std::vector<Point> points;
  for (const auto& program : strings(*sweep, "programs", {}))
    for (const auto& arguments : strings(*sweep, "arguments", {""}))
      for (const auto& gpu : strings(*sweep, "gpus", {"h200"}))
        for (const auto& cache : strings(*sweep, "cache", {"cold"}))
          for (const auto& settings : strings(*sweep, "set", {""})) points.push_back({program, arguments, gpu, cache, settings});
  if (points.empty()) throw std::runtime_error(file + ": sweep.programs names no program");
  return points;
}

/// The results: table `launches`, one row a launch; table `points`, one row a finished point.
class Store {
 public:
  explicit Store(const std::string& file) {
    if (sqlite3_open(file.c_str(), &db_) != SQLITE_OK) throw std::runtime_error("cannot open " + file);
    run("PRAGMA journal_mode=WAL");
    run("CREATE TABLE IF NOT EXISTS points(key TEXT PRIMARY KEY, program TEXT, arguments TEXT, gpu TEXT, cache TEXT, settings TEXT, status INTEGER)");
    run("CREATE TABLE IF NOT EXISTS launches(key TEXT, launch INTEGER, kernel TEXT, us REAL, low_us REAL, high_us REAL, bound TEXT, joules REAL, clock_mhz REAL, record TEXT, PRIMARY KEY(key, launch))");
  }
  ~Store() { sqlite3_close(db_); }
  Store(const Store&) = delete;
  bool has(const Point& p) {
    const std::lock_guard lock(mutex_);
    Statement s(db_, "SELECT 1 FROM points WHERE key=?1 AND status=0");
    s.bind(1, p.key());
    return s.step();
  }
  void add(const Point& p, int status, const json& records) {
    const std::lock_guard lock(mutex_);
    run("BEGIN");
    for (size_t i = 0; i < records.size(); i++) {
      const json& r = records[i];
      Statement s(db_, "INSERT OR REPLACE INTO launches VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)");
      s.bind(1, p.key()), s.bind(2, double(i)), s.bind(3, r.value("kernel", ""));
      int at = 4;
      for (const char* key : {"us", "low_us", "high_us"}) s.bind(at++, r.value(key, 0.0));
      s.bind(7, r.value("bound", "")), s.bind(8, r.value("joules", 0.0)), s.bind(9, r.value("clock_mhz", 0.0)), s.bind(10, r.dump());
      s.step();
    }
    Statement s(db_, "INSERT OR REPLACE INTO points VALUES(?1,?2,?3,?4,?5,?6,?7)");
    s.bind(1, p.key()), s.bind(2, p.program), s.bind(3, p.arguments), s.bind(4, p.gpu), s.bind(5, p.cache), s.bind(6, p.settings), s.bind(7, double(status));
    s.step();
    run("COMMIT");
  }
  void write_csv(std::ostream& out) {
    out << "program,arguments,gpu,cache,settings,launch,kernel,us,low_us,high_us,bound,joules,clock_mhz\n";
    Statement s(db_, "SELECT program,arguments,gpu,cache,settings,launch,kernel,us,low_us,high_us,bound,joules,clock_mhz FROM launches JOIN points USING(key) ORDER BY key, launch");
    while (s.step())
      for (int i = 0; i < 13; i++) out << (i ? "," : "") << '"' << s.text(i) << '"' << (i == 12 ? "\n" : "");
  }

 private:
  struct Statement {
    Statement(sqlite3* db, const char* sql) {
      if (sqlite3_prepare_v2(db, sql, -1, &s, nullptr) != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(db));
    }
    ~Statement() { sqlite3_finalize(s); }
    void bind(int i, const std::string& v) { sqlite3_bind_text(s, i, v.c_str(), int(v.size()), SQLITE_TRANSIENT); }
    void bind(int i, double v) { sqlite3_bind_double(s, i, v); }
    bool step() { return sqlite3_step(s) == SQLITE_ROW; }
    std::string text(int i) { return reinterpret_cast<const char*>(sqlite3_column_text(s, i)); }
    sqlite3_stmt* s = nullptr;
  };
  void run(const char* sql) {
    if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(db_));
  }
  sqlite3* db_ = nullptr;
  std::mutex mutex_;
};

/// Predicts one point in a process of its own; returns its exit status and records.
std::pair<int, json> predict_point(const Point& p, size_t number) {
  const fs::path file = fs::temp_directory_path() / fmt::format("orrery-sweep-{}-{}.json", getpid(), number);
  std::vector<std::string> words = {fs::read_symlink("/proc/self/exe"), "time", "--gpu", p.gpu, "--cache", p.cache, "--results", "none", "--json", file};
  std::istringstream settings(p.settings), arguments(p.arguments);
  for (std::string s; std::getline(settings, s, ';');)
    if (!s.empty()) words.insert(words.end(), {"--set", s});
  words.insert(words.end(), {"--", p.program});
  for (std::string word; arguments >> word;) words.push_back(word);
  std::vector<char*> list;
  for (std::string& w : words) list.push_back(w.data());
  list.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 1);
    execv(list[0], list.data());
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return {127, json::array()};
  std::ifstream in(file);
  json records = json::parse(in, nullptr, false);
  fs::remove(file);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, records.is_array() ? records : json::array()};
}

int sweep(const std::vector<Point>& points, Store& store, unsigned threads) {
  std::atomic<size_t> next = 0, failed = 0, done = 0;
  std::mutex print;
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < threads; t++)
    workers.emplace_back([&] {
      for (size_t i; (i = next++) < points.size();) {
        const Point& p = points[i];
        if (store.has(p)) {
          done++;
          continue;
        }
        const auto [status, records] = predict_point(p, i);
        store.add(p, records.empty() && status == 0 ? 1 : status, records);
        failed += status != 0 || records.empty();
        double us = 0;
        for (const json& r : records) us += r.value("us", 0.0);
        const std::lock_guard lock(print);
        fmt::print("{}/{} {} {} {} {} {}: {} launches, {:.2f} us{}\n", ++done, points.size(), p.program, p.arguments, p.gpu, p.cache, p.settings, records.size(), us, status ? fmt::format(" (status {})", status) : "");
        std::fflush(stdout);
      }
    });
  for (std::thread& w : workers) w.join();
  return failed ? 3 : 0;
}

int sweep_command(const std::vector<std::string>& words) {
  CLI::App app{"Predict programs over arguments, GPUs and settings; goes on where it was stopped.\nExample: orrery sweep spec.toml --db results.db --csv results.csv", "orrery sweep"};
  std::string spec, db = "sweep.db", csv;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  app.add_option("spec", spec, "what to predict (TOML: section [sweep] with programs, arguments, gpus, cache, set)")->required();
  app.add_option("--db", db, "SQLite file of the results (default sweep.db)");
  app.add_option("--csv", csv, "write all results to this file, one line a launch");
  app.add_option("--threads", threads, "points at a time (default: one a core)")->check(CLI::PositiveNumber);
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
    const std::vector<Point> points = read_spec(spec);
    Store store(db);
    const int status = sweep(points, store, threads);
    if (!csv.empty()) {
      std::ofstream out(csv);
      store.write_csv(out);
    }
    return status;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "orrery sweep: {}\n", error.what());
    return 2;
  }
}

ORRERY_COMMAND(sweep, "predict many programs, sizes and GPUs into a database", sweep_command);

}  // namespace
}  // namespace orrery::tools
