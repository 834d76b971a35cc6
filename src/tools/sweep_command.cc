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
// with the points that are missing. Under mpirun or srun every rank runs this command on one database in a folder that all
// see: a rank claims the next point in it, so that ranks share the work however long points take, and what a lost rank had
// finished is there. Nothing but the database passes between ranks.
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/toml.h"
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
  const toml::table root = base::read_toml(file);
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
  Store(const std::string& file, bool shared) {
    if (sqlite3_open(file.c_str(), &db_) != SQLITE_OK) throw std::runtime_error("cannot open " + file);
    sqlite3_busy_timeout(db_, 120000);
    if (!shared) run("PRAGMA journal_mode=WAL");  // which only processes of one machine can share
    run("CREATE TABLE IF NOT EXISTS claims(run TEXT, key TEXT, PRIMARY KEY(run, key))");
    run("CREATE TABLE IF NOT EXISTS points(key TEXT PRIMARY KEY, program TEXT, arguments TEXT, gpu TEXT, cache TEXT, settings TEXT, status INTEGER)");
    run("CREATE TABLE IF NOT EXISTS launches(key TEXT, launch INTEGER, kernel TEXT, us REAL, low_us REAL, high_us REAL, bound TEXT, joules REAL, clock_mhz REAL, record TEXT, PRIMARY KEY(key, launch))");
  }
  ~Store() { sqlite3_close(db_); }
  Store(const Store&) = delete;
  /// True for one rank of a run only: a point is taken by who claims it first.
  bool claim(const Point& p, const std::string& run_name) {
    const std::lock_guard lock(mutex_);
    Statement s(db_, "INSERT OR IGNORE INTO claims VALUES(?1,?2)");
    s.bind(1, run_name), s.bind(2, p.key());
    s.step();
    return sqlite3_changes(db_) == 1;
  }
  bool has(const Point& p) {
    const std::lock_guard lock(mutex_);
    Statement s(db_, "SELECT 1 FROM points WHERE key=?1 AND status=0");
    s.bind(1, p.key());
    return s.step();
  }
  void add(const Point& p, int status, const json& records) {
    const std::lock_guard lock(mutex_);
    run("BEGIN IMMEDIATE");
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
  /// Points that have been predicted.
  double finished() {
    Statement s(db_, "SELECT COUNT(*) FROM points");
    return s.step() ? std::stod(s.text(0)) : 0;
  }
  struct Bar {
    std::string label;
    double us = 0, low = 0, high = 0;
  };
  /// Of each finished point: the sum of its launches.
  std::vector<Bar> bars() {
    Statement s(db_, "SELECT program||' '||arguments||' '||gpu||' '||cache||' '||settings, SUM(us), SUM(low_us), SUM(high_us) FROM launches JOIN points USING(key) GROUP BY key ORDER BY key");
    std::vector<Bar> list;
    while (s.step()) list.push_back({s.text(0), std::stod(s.text(1)), std::stod(s.text(2)), std::stod(s.text(3))});
    return list;
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

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

/// One bar a point on a logarithmic scale of microseconds, with its interval.
void write_plot(const std::vector<Store::Bar>& bars, std::ostream& out) {
  double low = 1e30, high = 0;
  for (const auto& b : bars) low = std::min(low, std::max(1e-3, b.low)), high = std::max(high, b.high);
  if (bars.empty()) low = 1, high = 10;
  const double first = std::floor(std::log10(low)), last = std::max(first + 1, std::ceil(std::log10(high)));
  const auto x = [&](double us) { return 380 + 560 * (std::log10(std::max(us, 1e-3)) - first) / (last - first); };
  out << fmt::format("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 960 {}' font-family='sans-serif' font-size='12' role='img'><title>predicted microseconds</title>\n", 40 + 20 * bars.size());
  for (double e = first; e <= last; e++)
    out << fmt::format("<line x1='{0:.0f}' x2='{0:.0f}' y1='20' y2='{1}' stroke='#ccc'/><text x='{0:.0f}' y='14' text-anchor='middle'>{2:g} us</text>\n", x(std::pow(10, e)), 24 + 20 * bars.size(), std::pow(10, e));
  for (size_t i = 0; i < bars.size(); i++) {
    const auto& b = bars[i];
    const double y = 28 + 20 * double(i);
    out << fmt::format("<text x='370' y='{:.0f}' text-anchor='end'>{}</text><rect x='380' y='{:.0f}' width='{:.1f}' height='12' fill='#4878a8'/>", y + 10, escaped(b.label.size() > 52 ? "..." + b.label.substr(b.label.size() - 50) : b.label), y, std::max(1.0, x(b.us) - 380));
    out << fmt::format("<line x1='{:.1f}' x2='{:.1f}' y1='{:.0f}' y2='{:.0f}' stroke='#222'/><title>{:.2f} us</title>\n", x(b.low), x(b.high), y + 6, y + 6, b.us);
  }
  out << "</svg>\n";
}

/// This process among those that mpirun or srun started: how many there are, here and in all, and the name of their run.
struct Rank {
  int number = 0, ranks = 1, here = 1;
  std::string run;
};

Rank rank_of_process() {
  const auto from = [](std::initializer_list<const char*> names) -> std::string {
    for (const char* name : names)
      if (const char* v = std::getenv(name); v && *v) return v;
    return "";
  };
  const auto number = [](const std::string& text, int otherwise) { return text.empty() ? otherwise : std::atoi(text.c_str()); };
  Rank r;
  r.number = number(from({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}), 0);
  r.ranks = std::max(1, number(from({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}), 1));
  r.here = std::max(1, number(from({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}), 1));
  r.run = from({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_JOB_ID"}) + "/" + from({"SLURM_STEP_ID"});
  if (r.ranks > 1 && r.run == "/") throw std::runtime_error("several ranks, but nothing names their run (PMIX_NAMESPACE, SLURM_JOB_ID)");
  return r;
}

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

int sweep(const std::vector<Point>& points, Store& store, unsigned threads, const Rank& rank) {
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
        if (rank.ranks > 1 && !store.claim(p, rank.run)) continue;  // another rank has it
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

/// Writes a file of all results. Of several ranks each does when it has no more to do, so that with the last of them it is whole, whichever that is.
template <class Write>
void export_results(const std::string& file, Store& store, const Rank& rank, Write write) {
  const std::string part = rank.ranks > 1 ? fmt::format("{}.{}", file, rank.number) : file;
  for (double written = -1; written != store.finished();) {
    written = store.finished();
    {
      std::ofstream out(part);
      write(out);
      if (!out.flush()) throw std::runtime_error("cannot write " + part);
    }
    if (part != file) fs::rename(part, file);
  }
}

int sweep_command(const std::vector<std::string>& words) {
  CLI::App app{"Predict programs over arguments, GPUs and settings; goes on where it was stopped.\nExample: orrery sweep spec.toml --db results.db --csv results.csv; mpirun -np 8 orrery sweep spec.toml --db shared/results.db", "orrery sweep"};
  std::string spec, db = "sweep.db", csv, plot;
  unsigned threads = 0;
  app.add_option("spec", spec, "what to predict (TOML: section [sweep] with programs, arguments, gpus, cache, set)")->required();
  app.add_option("--db", db, "SQLite file of the results (default sweep.db)");
  app.add_option("--csv", csv, "write all results to this file, one line a launch");
  app.add_option("--plot", plot, "draw all results to this file (SVG)");
  app.add_option("--threads", threads, "points at a time (default: one a core, shared by the ranks of a machine)")->check(CLI::PositiveNumber);
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
    const std::vector<Point> points = read_spec(spec);
    const Rank rank = rank_of_process();
    if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency() / unsigned(rank.here));
    Store store(db, rank.ranks > 1);
    const int status = sweep(points, store, threads, rank);
    if (!plot.empty()) export_results(plot, store, rank, [&](std::ostream& out) { write_plot(store.bars(), out); });
    if (!csv.empty()) export_results(csv, store, rank, [&](std::ostream& out) { store.write_csv(out); });
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
