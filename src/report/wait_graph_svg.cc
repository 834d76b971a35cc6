// The drawing of a graph section: two columns of boxes, who waits on the left, what is waited for on the right, arrows
// between them, the circle in colour. Made here rather than in the page's script: it needs no interaction.
//
//   { title, graph: { left: [{lines: [text...]}], right: [...], edges: [{from, to, rightward, label, marked}] } }
#include <fmt/format.h>

#include "report/wait_graph_svg.h"

namespace orrery::report {
namespace {

constexpr int kBoxWidth = 330, kLeft = 10, kRight = 560, kLine = 16, kGap = 26;
constexpr std::size_t kMostText = 52;

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

struct Box {
  int x = 0, y = 0, height = 0;
};

/// Places the boxes of one column from the top; adds them to the drawing.
std::vector<Box> column(const Json& nodes, int x, const char* stroke, std::string& out, int& bottom) {
  std::vector<Box> boxes;
  int y = 10;
  for (const Json& n : nodes) {
    Box b{x, y, int(n["lines"].size()) * kLine + 12};
    out += fmt::format("<g><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"6\" fill=\"none\" stroke=\"{}\"/>", b.x, b.y, kBoxWidth, b.height, stroke);
    int line = b.y + 18;
    for (const Json& text : n["lines"]) {
      const std::string full = text.get<std::string>();
      const std::string shown = full.size() > kMostText ? full.substr(0, kMostText - 3) + "..." : full;
      out += fmt::format("<text x=\"{}\" y=\"{}\"{}>{}<title>{}</title></text>", b.x + 8, line, line == b.y + 18 ? " font-weight=\"bold\"" : "", escaped(shown), escaped(full));
      line += kLine;
    }
    out += "</g>";
    boxes.push_back(b);
    y += b.height + kGap;
  }
  bottom = std::max(bottom, y);
  return boxes;
}

}  // namespace

std::string graph_svg(const Json& graph) {
  std::string out;
  int bottom = 0;
  const std::vector<Box> left = column(graph["left"], kLeft, "#3b82f6", out, bottom), right = column(graph["right"], kRight, "#d97706", out, bottom);
  for (const Json& e : graph["edges"]) {
    const bool rightward = e["rightward"].get<bool>(), marked = e.value("marked", false);
    const std::size_t from = e["from"].get<std::size_t>(), to = e["to"].get<std::size_t>();
    if (from >= (rightward ? left : right).size() || to >= (rightward ? right : left).size()) continue;
    const Box &l = left[rightward ? from : to], &r = right[rightward ? to : from];
    const int yl = l.y + l.height / 2 + (rightward ? -5 : 7), yr = r.y + r.height / 2 + (rightward ? -5 : 7);
    const int xl = kLeft + kBoxWidth + (rightward ? 0 : 6), xr = kRight - (rightward ? 6 : 0);
    const int x1 = rightward ? xl : xr, y1 = rightward ? yl : yr, x2 = rightward ? xr : xl, y2 = rightward ? yr : yl;
    out += fmt::format(
        "<path d=\"M{} {}C{} {} {} {} {} {}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{} marker-end=\"url(#tip)\"><title>{}</title></path>", x1, y1, (x1 + x2) / 2, y1, (x1 + x2) / 2, y2, x2,
        y2, marked ? "#dc2626" : "#888", marked ? 2.5 : 1.3, rightward ? "" : " stroke-dasharray=\"5 3\"", escaped(e.value("label", "")));
  }
  return fmt::format(
      "<svg class=\"waits\" viewBox=\"0 0 900 {}\" role=\"img\"><defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
      "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#888\"/></marker></defs>{}</svg>\n",
      bottom, out);
}

}  // namespace orrery::report
