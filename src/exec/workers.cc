// exec/workers.cc: see workers.h. Pool threads are detached and idle in a wait; the pool is never destroyed, because
// programs may launch kernels from destructors that run at exit.
#include "exec/workers.h"

#include <sched.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

namespace orrery::exec {

namespace {

struct Job {
  const std::function<void(unsigned)>* work = nullptr;
  unsigned next = 1, n = 0, running = 0;
  std::condition_variable done;
};

struct Pool {
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<Job*> jobs;
  unsigned threads = 0;

  void loop() {
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return !jobs.empty(); });
      Job* job = jobs.front();
      const unsigned index = job->next++;
      job->running++;
      if (job->next == job->n) jobs.pop_front();
      lock.unlock();
      (*job->work)(index);
      lock.lock();
      if (--job->running == 0) job->done.notify_all();
    }
  }
};

Pool& pool() {
  static Pool* p = new Pool;
  return *p;
}

}  // namespace

void run_workers(unsigned n, const std::function<void(unsigned)>& work) {
  if (n <= 1) return work(0);
  Pool& p = pool();
  Job job;
  job.work = &work;
  job.n = n;
  {
    std::lock_guard lock(p.mutex);
    while (p.threads < n - 1) {
      std::thread([&p] { p.loop(); }).detach();
      p.threads++;
    }
    p.jobs.push_back(&job);
  }
  p.wake.notify_all();
  work(0);
  std::unique_lock lock(p.mutex);
  for (auto it = p.jobs.begin(); it != p.jobs.end(); ++it)  // helpers that have not started are not needed any more
    if (*it == &job) {
      p.jobs.erase(it);
      break;
    }
  job.done.wait(lock, [&] { return job.running == 0; });
}

unsigned default_workers() {
  if (const char* text = std::getenv("ORRERY_THREADS"))
    if (const int n = std::atoi(text); n > 0) return unsigned(n);
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return unsigned(CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace orrery::exec
