// timing/queue.h: first in, first out, in one piece of memory that doubles when it is full: what lies ahead
// can be looked at.
#pragma once
#include <cstddef>
#include <vector>

namespace orrery::timing {

template <class T>
class Queue {
 public:
  size_t size() const { return end_ - begin_; }
  bool empty() const { return end_ == begin_; }
  /// One more doubles it.
  bool full() const { return size() == items_.size(); }
  /// The one that is `back` behind the first; there must be so many.
  const T& operator[](size_t back) const { return items_[(begin_ + back) & (items_.size() - 1)]; }
  const T& front() const { return (*this)[0]; }
  void pop_front() { begin_++; }
  void push_back(const T& item) {
    if (full()) grow();
    items_[end_++ & (items_.size() - 1)] = item;
  }

 private:
  void grow() {
    std::vector<T> more(items_.empty() ? 64 : 2 * items_.size());
    const size_t n = size();
    for (size_t i = 0; i < n; i++) more[i] = (*this)[i];
    items_.swap(more), begin_ = 0, end_ = n;
  }
  std::vector<T> items_;        // as many as a power of two
  size_t begin_ = 0, end_ = 0;  // counted from the first that ever came
};

}  // namespace orrery::timing
