// SPDX-License-Identifier: MIT
// hnsw_graph.cpp: the engine libqkv_hnsw: graphs of hnswlib behind a table of C functions.
//
// The library stores the row of each vertex instead of a copy of its vector.  It reads past its
// lists when it prefetches, so this is off; it reads a file without checking its links, so graphs
// are read and checked here.  No exception leaves this file.
#define NO_MANUAL_VECTORIZATION 1
#include "index/graph.h"
#include <hnswlib/hnswlib.h>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <vector>

namespace
{

// ---- dot products: 32 sums in a fixed order, so that every instruction set has the same bits ----
typedef float floats __attribute__((vector_size(64)));
typedef int32_t ints __attribute__((vector_size(64)));
typedef uint32_t words __attribute__((vector_size(64)));
typedef uint16_t halves __attribute__((vector_size(32)));
typedef int8_t bytes __attribute__((vector_size(16)));
constexpr size_t LANES = 16;

// By reference: a vector that is returned has no ABI of its own without AVX.
template <typename T> inline __attribute__((always_inline)) void load(T &x, const void *from)
{
    std::memcpy(&x, from, sizeof x);
}

struct f32 {
    typedef float element;
    typedef floats lanes;
    static inline __attribute__((always_inline)) void add(floats &sum, const float *a,
                                                          const float *b)
    {
        floats x, y;
        load(x, a);
        load(y, b);
        sum += x * y;
    }
};
struct bf16 {
    typedef uint16_t element;
    typedef floats lanes;
    static inline __attribute__((always_inline)) void add(floats &sum, const uint16_t *a,
                                                          const uint16_t *b)
    {
        halves x, y;
        load(x, a);
        load(y, b);
        sum += (floats)(__builtin_convertvector(x, words) << 16) *
               (floats)(__builtin_convertvector(y, words) << 16);
    }
};
struct i8 {
    typedef int8_t element;
    typedef ints lanes; // the sum of at most 131,072 products fits
    static inline __attribute__((always_inline)) void add(ints &sum, const int8_t *a,
                                                          const int8_t *b)
    {
        bytes x, y;
        load(x, a);
        load(y, b);
        sum += __builtin_convertvector(x, ints) * __builtin_convertvector(y, ints);
    }
};

template <typename T>
inline __attribute__((always_inline)) float dot(const void *a_, const void *b_, size_t width)
{
    typedef typename T::element element;
    const element *a = static_cast<const element *>(a_), *b = static_cast<const element *>(b_);
    typename T::lanes even = {}, odd = {};
    size_t i = 0;
    for (; i + 2 * LANES <= width; i += 2 * LANES) {
        T::add(even, a + i, b + i);
        T::add(odd, a + i + LANES, b + i + LANES);
    }
    for (; i < width; i += LANES) { // the rest, with zeros up to a whole block
        element x[LANES] = {}, y[LANES] = {};
        const size_t n = width - i < LANES ? width - i : LANES;
        std::memcpy(x, a + i, n * sizeof *x);
        std::memcpy(y, b + i, n * sizeof *y);
        T::add(even, x, y);
    }
    even += odd;
    auto sum = even[0];
    for (size_t lane = 1; lane < LANES; lane++) sum += even[lane];
    return static_cast<float>(sum);
}

typedef float product(const void *, const void *, size_t);
template <typename T> float dot_any(const void *a, const void *b, size_t width)
{
    return dot<T>(a, b, width);
}
#ifdef __x86_64__
template <typename T>
__attribute__((target("avx2"))) float dot_avx2(const void *a, const void *b, size_t width)
{
    return dot<T>(a, b, width);
}
#endif

template <typename T> product *product_of()
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) return dot_avx2<T>;
#endif
    return dot_any<T>;
}

// ---- the space of the library: a vertex is the number of a row ----------------------------------
class rows : public hnswlib::SpaceInterface<float>
{
  public:
    explicit rows(const graph_vectors &vectors)
        : v(vectors), size(vectors.type == GRAPH_F32    ? 4
                           : vectors.type == GRAPH_BF16 ? 2
                                                        : 1),
          dot_product(vectors.type == GRAPH_F32    ? product_of<f32>()
                      : vectors.type == GRAPH_BF16 ? product_of<bf16>()
                                                   : product_of<i8>())
    {
    }
    size_t get_data_size() override { return sizeof(uint32_t); }
    hnswlib::DISTFUNC<float> get_dist_func() override { return distance; }
    void *get_dist_func_param() override { return this; }

    const graph_vectors v;
    const void *query = nullptr; // the vector of row v.count
    float query_scale = 0;

  private:
    const size_t size;
    product *const dot_product;

    const void *row(uint32_t i) const
    {
        return i == v.count ? query : static_cast<const char *>(v.rows) + i * v.width * size;
    }
    float scale(uint32_t i) const { return i == v.count ? query_scale : v.scales[i]; }
    static float distance(const void *a, const void *b, const void *param)
    {
        const rows *s = static_cast<const rows *>(param);
        uint32_t i, j;
        load(i, a);
        load(j, b);
        const float sum = s->dot_product(s->row(i), s->row(j), s->v.width);
        return 1 - (s->v.scales ? sum * s->scale(i) * s->scale(j) : sum);
    }
};

} // namespace

struct graph {
    rows space;
    hnswlib::HierarchicalNSW<float> hnsw;
    graph(const graph_vectors &v, size_t links, size_t candidates)
        : space(v), hnsw(&space, v.count ? v.count : 1, links, candidates)
    {
    }
};

namespace
{

// Runs f and returns its status, or that of the exception that it threw.
template <typename F> graph_status guard(graph_reason *why, F f) noexcept
{
    try {
        return f();
    } catch (const std::bad_alloc &) {
        return GRAPH_MEMORY;
    } catch (const std::exception &e) {
        // the library also throws a text where its malloc fails
        if (std::strstr(e.what(), "Not enough memory")) return GRAPH_MEMORY;
        std::snprintf(why->text, sizeof why->text, "%s", e.what());
        return GRAPH_FAILED;
    } catch (...) {
        std::snprintf(why->text, sizeof why->text, "unknown exception");
        return GRAPH_FAILED;
    }
}

graph_status broken(graph_reason *why, const char *text, size_t expected, size_t found)
{
    std::snprintf(why->text, sizeof why->text, "%s, expected %zu, found %zu", text, expected,
                  found);
    return GRAPH_BROKEN;
}

graph_status build(graph **out, const graph_vectors *v, size_t links, size_t candidates,
                   int (*progress)(void *, size_t), void *user, graph_reason *why)
{
    *out = nullptr;
    return guard(why, [&] {
        std::unique_ptr<graph> g(new graph(*v, links, candidates));
        for (uint32_t i = 0; i < v->count; i++) {
            if (progress && progress(user, i)) return GRAPH_STOPPED;
            g->hnsw.addPoint(&i, i);
        }
        *out = g.release();
        return GRAPH_OK;
    });
}

// ---- bytes: links, vertices, entry, levels; of each vertex its levels, of each level its links ---
constexpr size_t LEVELS = 32; // a level has one of `links` vertices of the one below it, so 2^31

graph_status write(const graph *g, int (*put)(void *, const void *, size_t), void *user,
                   graph_reason *why)
{
    return guard(why, [&] {
        const auto &h = g->hnsw;
        const uint32_t count = static_cast<uint32_t>(g->space.v.count);
        std::vector<uint32_t> out = { static_cast<uint32_t>(h.M_), count,
                                      count ? h.enterpoint_node_ : 0,
                                      count ? static_cast<uint32_t>(h.maxlevel_) : 0 };
        for (uint32_t i = 0; i < count; i++) {
            const int top = h.element_levels_[i];
            out.push_back(static_cast<uint32_t>(top));
            for (int level = 0; level <= top; level++) {
                const unsigned *list = h.get_linklist_at_level(i, level);
                uint16_t n; // its other bytes are flags
                load(n, list);
                out.push_back(static_cast<uint32_t>(n));
                out.insert(out.end(), list + 1, list + 1 + n);
            }
            if (out.size() >= 1 << 14 || i + 1 == count) {
                if (put(user, out.data(), out.size() * sizeof out[0])) return GRAPH_STOPPED;
                out.clear();
            }
        }
        return out.empty() || !put(user, out.data(), out.size() * sizeof out[0]) ? GRAPH_OK
                                                                                 : GRAPH_STOPPED;
    });
}

// The numbers of a graph in memory.
struct reader {
    const char *at;
    size_t left; // numbers
    uint32_t next()
    {
        uint32_t x;
        load(x, at);
        at += sizeof x;
        left--;
        return x;
    }
};

// Reads the levels of all vertices and checks the sizes of all lists.
graph_status read_levels(std::vector<uint8_t> &levels, reader in, size_t links, graph_reason *why)
{
    for (size_t i = 0; i < levels.size(); i++) {
        if (!in.left) return broken(why, "too few vertices", levels.size(), i);
        const uint32_t top = in.next();
        if (top >= LEVELS) return broken(why, "too many levels of a vertex", LEVELS, top);
        levels[i] = static_cast<uint8_t>(top);
        for (uint32_t level = 0; level <= top; level++) {
            const size_t most = level ? links : 2 * links, n = in.left ? in.next() : SIZE_MAX;
            if (n > most || n > in.left) return broken(why, "links of a vertex", most, n);
            in.at += n * sizeof(uint32_t);
            in.left -= n;
        }
    }
    return in.left ? broken(why, "numbers after the last vertex", 0, in.left) : GRAPH_OK;
}

// Fills the graph from the links of all vertices, whose levels and sizes of lists are checked.
graph_status read_links(graph *g, const std::vector<uint8_t> &levels, reader in, graph_reason *why)
{
    auto &h = g->hnsw;
    for (uint32_t i = 0; i < levels.size(); i++) {
        const uint32_t top = in.next();
        std::memset(h.data_level0_memory_ + i * h.size_data_per_element_, 0,
                    h.size_data_per_element_);
        h.setExternalLabel(i, i);
        std::memcpy(h.getDataByInternalId(i), &i, sizeof i);
        if (top) {
            h.linkLists_[i] = static_cast<char *>(std::calloc(top, h.size_links_per_element_));
            if (!h.linkLists_[i]) return GRAPH_MEMORY;
        }
        h.element_levels_[i] = static_cast<int>(top);
        h.cur_element_count = i + 1; // the destructor frees the lists of so many
        for (uint32_t level = 0; level <= top; level++) {
            unsigned *list = h.get_linklist_at_level(i, static_cast<int>(level));
            const uint32_t n = in.next();
            h.setListCount(list, static_cast<unsigned short>(n));
            for (uint32_t k = 0; k < n; k++) {
                const uint32_t to = in.next();
                if (to >= levels.size() || to == i)
                    return broken(why, "a link to another vertex", levels.size() - 1, to);
                if (levels[to] < level)
                    return broken(why, "the level of a linked vertex", level, levels[to]);
                list[1 + k] = to;
            }
        }
    }
    return GRAPH_OK;
}

graph_status read(graph **out, const graph_vectors *v, const void *data, size_t size,
                  graph_reason *why)
{
    *out = nullptr;
    return guard(why, [&] {
        reader in = { static_cast<const char *>(data), size / sizeof(uint32_t) };
        if (size % sizeof(uint32_t) || in.left < 4)
            return broken(why, "size of the graph", 16, size);
        const size_t links = in.next(), count = in.next(), entry = in.next(), top = in.next();
        if (links < 2 || links > 64) return broken(why, "links per vertex", 16, links);
        if (count != v->count) return broken(why, "number of vertices", v->count, count);
        if (in.left / 2 < count) return broken(why, "numbers of all vertices", 2 * count, in.left);
        std::vector<uint8_t> levels(count);
        graph_status status = read_levels(levels, in, links, why);
        if (status) return status;
        if (count && (entry >= count || levels[entry] != top))
            return broken(why, "the level of the entry", top, entry < count ? levels[entry] : 0);
        for (const uint8_t level : levels)
            if (level > top) return broken(why, "the highest level", top, level);
        std::unique_ptr<graph> g(new graph(*v, links, links));
        status = read_links(g.get(), levels, in, why);
        if (status) return status;
        if (count) {
            g->hnsw.enterpoint_node_ = static_cast<unsigned>(entry);
            g->hnsw.maxlevel_ = static_cast<int>(top);
        }
        *out = g.release();
        return GRAPH_OK;
    });
}

graph_status search(graph *g, const void *query, float scale, size_t most, uint32_t *found_rows,
                    size_t *found, graph_reason *why)
{
    *found = 0;
    return guard(why, [&] {
        const uint32_t row = static_cast<uint32_t>(g->space.v.count);
        g->space.query = query;
        g->space.query_scale = scale;
        g->hnsw.setEf(most);
        auto nearest = g->hnsw.searchKnn(&row, most);
        for (; !nearest.empty() && *found < most; nearest.pop())
            found_rows[(*found)++] = static_cast<uint32_t>(nearest.top().second);
        return GRAPH_OK;
    });
}

void close(graph *g)
{
    delete g;
}

// The runtime of C++ allocates its variable of this thread at the first use and aborts where memory
// is exhausted; its streams use it even when the process ends.  So it is used here, at the start.
[[maybe_unused]] volatile int thread_variable =
    std::uncaught_exceptions(); // volatile: the call has no other effect

} // namespace

extern "C" __attribute__((visibility("default"))) const graph_engine qkv_engine;
const graph_engine qkv_engine = { sizeof(graph_engine), build, write, read, search, close };
