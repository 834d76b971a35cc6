// orrery model ...: memory, time and energy of whole models. Questions with a document as their answer are in
// model_questions.cc; what is printed of them, and the commands that print text alone, are here.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/error.h"
#include "graph/ask.h"
#include "graph/validate.h"
#include "graph/verbs.h"
#include "tools/command.h"
#include "tools/model_questions.h"

namespace orrery::tools {
namespace {

using namespace graph;

void write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out) base::fail("cannot write {}", path);
}

void print(const Common& common, const Json& document) {
  if (!common.html.empty()) write_file(common.html, report::to_html(document));
  if (!common.trace.empty()) write_file(common.trace, report::to_trace(document));
  std::cout << (common.json ? report::to_json(document, 1) + "\n" : report::to_text(document));
  std::error_code ignored;  // `why` is a convenience: a read-only home must not fail the answer
  std::filesystem::create_directories(last_report().parent_path(), ignored);
  std::ofstream(last_report()) << report::to_json(document);
}

int list_verbs() {
  for (const Verb& verb : verbs()) fmt::print("{}\n    {}\n", verb.grammar, verb.description);
  return 0;
}

int list_models() {
  for (const auto& spec : zoo().transformers)
    fmt::print("{:<32} {:<12} {}\n", spec.name, spec.kind, spec.source);
  for (const auto& spec : zoo().denoisers)
    fmt::print("{:<32} {:<12} {}\n", spec.name, "diffusion", spec.source);
  return 0;
}

int ask_command(const Asked& q) {
  for (const Answer& a : ask(q.quantity, q.arguments))
    fmt::print("{} {} {}\n", a.name, format_number(a.value), a.unit);
  return 0;
}

int validate_command(const Asked& q) {
  Validation v = validate(q.data);
  fmt::print("{}", v.text);
  return v.missed == 0 ? 0 : 1;
}

// A subcommand that prints text.
struct TextCommand {
  const char *name, *description;
  void (*options)(CLI::App&, Asked&);
  int (*run)(Asked&);
};
constexpr TextCommand kTextCommands[] = {
    {"why", "the ledger lines behind a number of a report",
     [](CLI::App& app, Asked& q) {
       app.add_option("report", q.file, "a report's JSON file, or last")->required();
       app.add_option("number", q.number, "name of the number")->required();
     },
     [](Asked& q) {
       std::cout << why_in(q.file, q.number);
       return 0;
     }},
    {"ask", "one exact quantity; 'ask help' lists them",
     [](CLI::App& app, Asked& q) {
       app.add_option("quantity", q.quantity, "what to compute")->required();
       app.add_option("arguments", q.arguments, "the model and the values that the quantity needs");
     },
     [](Asked& q) { return ask_command(q); }},
    {"validate", "compare with measured rows in a folder of CSV files; status 1 when a goal is missed",
     [](CLI::App& app, Asked& q) {
       app.add_option("folder", q.data, "folder with open.csv, megatron.csv, ...")->required();
     },
     [](Asked& q) { return validate_command(q); }},
    {"verbs", "the techniques and their grammar", [](CLI::App&, Asked&) {}, [](Asked&) { return list_verbs(); }},
    {"models", "the built-in models", [](CLI::App&, Asked&) {}, [](Asked&) { return list_models(); }},
};

int model_command(const std::vector<std::string>& args) {
  CLI::App app("Memory, time and energy of whole models.", "orrery model");
  app.require_subcommand(1);
  Asked asked;
  for (const ModelQuestion& q : model_questions()) q.options(*app.add_subcommand(q.name, q.description), asked);
  for (const TextCommand& c : kTextCommands) c.options(*app.add_subcommand(c.name, c.description), asked);
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    for (const ModelQuestion& q : model_questions())
      if (CLI::App* chosen = app.get_subcommand(q.name); *chosen) {
        Reply reply = answer(q, *chosen, asked);
        print(asked.common, reply.document);
        return reply.status;
      }
    for (const TextCommand& c : kTextCommands)
      if (*app.get_subcommand(c.name)) return c.run(asked);
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "orrery model: {}\n", error.what());
  }
  return 2;
}

ORRERY_COMMAND(model, "memory, time and energy of whole models: fit, serve, train, render, plan, why",
               model_command);

}  // namespace
}  // namespace orrery::tools
