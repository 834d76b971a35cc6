// The page of predicted kernels: what it says without scripts, and that headless Chromium draws it at a phone's width.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "report/kernel_page.h"

namespace orrery::report {
namespace {

Json record() {
  return Json::parse(R"({"kernel":"saxpy<T>","grid":[4,1,1],"block":[256,1,1],"us":12.5,"low_us":11,"high_us":14,"clock_mhz":1980,"bound":"DRAM","fraction":0.9,
    "registers":16,"shared_bytes":0,"occupancy":1,"limiter":"warps","waves":1,"joules":0.001,"watts":300,"notes":["a </script> note"],
    "details":{"waits":["fixed latency","global memory"],"ptx":{"7":"ld.global.f32 %f1, [%rd4];"},"files":["","/tmp/x.cu"],"source":{"1":{"3":"y[i] = a * x[i];"}},
      "lines":[{"at":2,"sass":"LDG","class":"load","ptx":7,"file":1,"line":3,"issues":32,"wait":[10,900]},{"at":3,"sass":"FFMA","class":"fma","ptx":8,"issues":32,"wait":[90,0]}],
      "spans":{"warps":[[0,400,0,1],[10,500,1,1]],"tensor":[],"copies":[[5,80,0,1]]},"classes":{"load":32,"fma":32},"tensor_busy":0,
      "memory":{"l1_sectors":100,"l1_hits":25,"l2_read_sectors":75,"l2_write_sectors":40,"l2_hits":5,"dram_read":2400,"dram_write":1280,"shared_wavefronts":0,"copied":0},
      "gpu":{"sms":132,"clock":1.98e9,"dram":2336,"l2":4192}}})");
}

TEST(KernelPage, TablesSayWhatIsDrawn) {
  const std::string page = kernel_page(Json::array({record()}));
  EXPECT_NE(page.find("saxpy&lt;T&gt;"), std::string::npos);
  EXPECT_NE(page.find("12.50 us"), std::string::npos);
  EXPECT_NE(page.find("x.cu:3  y[i] = a * x[i];"), std::string::npos);
  EXPECT_NE(page.find("7  ld.global.f32 %f1, [%rd4];"), std::string::npos);
  EXPECT_NE(page.find("0020 LDG"), std::string::npos);
  EXPECT_NE(page.find("global memory (99%)"), std::string::npos);  // 900 of 910 cycles
  EXPECT_NE(page.find("<td>25%"), std::string::npos);              // L1: 25 of 100 sectors
  EXPECT_EQ(page.find("a </script> note"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos);                 // nothing to load
}

TEST(KernelPage, NamesAreThoseOfTheSource) {
  const std::string page = kernel_page(Json::parse(R"([{"kernel":"_ZN5tiles7productIfEEvPKT_i","error":"none"}])"));  // by c++filt
  EXPECT_NE(page.find("void tiles::product&lt;float&gt;(float const*, int)"), std::string::npos);
  EXPECT_EQ(page.find("_ZN5tiles"), std::string::npos);
}

TEST(KernelPage, ALaunchThatWasNotTimedIsNamed) {
  const std::string page = kernel_page(Json::parse(R"([{"kernel":"k","error":"it waits for other blocks"}])"));
  EXPECT_NE(page.find("Not timed: it waits for other blocks"), std::string::npos);
}

TEST(KernelTrace, HoldsOneEventASpan) {
  const Json trace = Json::parse(kernel_trace(Json::array({record()})));
  int spans = 0, rows = 0;
  for (const Json& e : trace["traceEvents"]) spans += e["ph"] == "X", rows += e["name"] == "thread_name";
  EXPECT_EQ(spans, 3);
  EXPECT_EQ(rows, 3);
}

/// The page inside a frame of 360 pixels, as headless Chromium leaves it: drawings made, width of the content.
TEST(KernelPage, IsDrawnByChromiumAtAPhonesWidth) {
  if (std::system("command -v chromium > /dev/null 2>&1") != 0) GTEST_SKIP() << "chromium is not installed";
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("orrery-page-" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "page.html") << kernel_page(Json::array({record()}));
  std::ofstream(folder / "frame.html") << "<body><iframe id=f src=page.html style='width:360px;height:800px'></iframe><script>f.onload=()=>{const d=f.contentDocument;"
                                          "document.body.dataset.drawn=d.querySelectorAll('.draw svg').length;document.body.dataset.width=d.documentElement.scrollWidth;"
                                          "const b=d.querySelectorAll('table.sortable th button')[4];b.click();document.body.dataset.sorted=d.querySelector('table.sortable tbody td:nth-child(5)').textContent;}</script>";
  const std::string command = "timeout 60 chromium --headless --no-sandbox --disable-gpu --allow-file-access-from-files --virtual-time-budget=2000 --user-data-dir=" + (folder / "profile").string() +
                              " --dump-dom file://" + (folder / "frame.html").string() + " 2>/dev/null";
  FILE* p = popen(command.c_str(), "r");
  ASSERT_NE(p, nullptr);
  std::string dom;
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof part, p)) > 0;) dom.append(part, n);
  pclose(p);
  fs::remove_all(folder);
  EXPECT_NE(dom.find("data-drawn=\"4\""), std::string::npos) << dom.substr(0, 400);
  EXPECT_NE(dom.find("data-sorted=\"910\""), std::string::npos) << dom.substr(0, 400);
  const size_t at = dom.find("data-width=\"");
  ASSERT_NE(at, std::string::npos);
  EXPECT_LE(std::atoi(dom.c_str() + at + 12), 360);
}

}  // namespace
}  // namespace orrery::report
