// L2Norm along an axis of few channels that are too long for whole images: a column a thread.
#pragma once

#include "l2_norm.cuh"

namespace surgeon
{

// How [outer, channels, inner] is cut where the channels are few and long: into strips of `width` neighbouring columns
// of all channels of an outer index. A block has a sector's columns more, so that it can write whole sectors.
struct ChannelStrips
{
    int64_t elements, inner;
    unsigned items, strips; // strips in all, strips of one outer index
    FastDiv<uint32_t> over_strips;
    int channels, width, stages;
    int pitch; // elements from a channel's piece to the next one's in shared memory
};

// The least pitch for pieces that begin and end inside sectors and lie in lines of shared memory as in those of memory:
// elsewhere bulk copies take longer. Hence it differs from `inner` by whole lines.
__host__ __device__ inline int strip_pitch(int64_t width, int64_t inner, int size)
{
    int64_t const sector = kSectorBytes / size, line = kLineBytes / size, least = width + 3 * sector;
    return int(least + ((inner - least) % line + line) % line);
}

// Of a stage, whose first piece begins inside its first line.
__host__ __device__ inline int strip_room(int channels, int pitch, int size)
{
    int const line = kLineBytes / size;
    return (ceil_div(channels * pitch, line) + 1) * line;
}

constexpr int kMostStripStages = 4, kStripMovers = 64;
constexpr int kStripsAtOnce = 8; // channels

// Of a block; a thread has a column of floats, or two of halves, for which it takes more registers.
__host__ __device__ constexpr int most_strip_threads(int size) { return (size == 4 ? 960 : 640) + kStripMovers; }

// A block has some strips in shared memory, a bulk copy for every channel's piece. Each worker has whole columns of
// the strip at work, of halves two neighbours. One warp brings strips, one sends them: of a piece, the sectors that
// begin in the strip, but at a channel's ends, and so no sector is written by two blocks. Strips are drawn from
// *tickets, which is 0 before and after; without tickets the blocks take them in turn. REST channels are left after
// the last kStripsAtOnce.
template <class T, int REST>
__global__ void __launch_bounds__(most_strip_threads(sizeof(T)), 1)
    l2norm_strips_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, ChannelStrips g, Norm norm,
        unsigned* tickets)
{
#if SURGEON_DEVICE_HAS_ST_ASYNC
    constexpr int VEC = kVectorBytes / sizeof(T), SECTOR = kSectorBytes / sizeof(T), LINE = kLineBytes / sizeof(T);
    constexpr int AT_ONCE = kStripsAtOnce, PER = 4 / sizeof(T), WARP = 32;
    extern __shared__ __align__(128) unsigned char strips_memory[];
    // A stage's phases: its strip is there, is scaled, has left.
    __shared__ uint64_t full[kMostStripStages], done[kMostStripStages], left[kMostStripStages];
    __shared__ unsigned item_of[kMostStripStages];
    int const workers = int(blockDim.x) - kStripMovers, thread = threadIdx.x, lane = thread % WARP;
    int const pitch = g.pitch, room = strip_room(g.channels, pitch, sizeof(T));
    T* const stages = reinterpret_cast<T*>(strips_memory);
    float* const weights = reinterpret_cast<float*>(strips_memory) + g.stages * room * sizeof(T) / sizeof(float);
    await_predecessors();
    for (int c = thread; c < ceil_div(g.channels, AT_ONCE) * AT_ONCE; c += blockDim.x)
        weights[c] = weight.data && c < g.channels ? weight.at(c) : 1.f;
    if (thread == 0)
    {
        for (int i = 0; i < g.stages; ++i)
        {
            barrier_init(full + i, WARP);
            barrier_init(done + i, workers);
            barrier_init(left + i, WARP);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    struct Strip
    {
        int64_t start; // of the first channel's piece
        int begin, columns;

        __device__ int place() const { return int(start % LINE); } // of its first column in a stage
    };
    auto const strip_of = [&](unsigned item) {
        unsigned const outer = g.over_strips(item);
        int const begin = int(item - outer * g.strips) * g.width;
        return Strip{int64_t(outer) * g.channels * g.inner + begin, begin,
            int(min(int64_t(g.width + SECTOR), g.inner - begin))};
    };
    Ring ring;

    if (thread >= workers + WARP)
    {
        uint64_t const policy = cache_policy(true); // 0.04 of a copy
        auto const fetch = [&](unsigned item) {
            if (lane == 0)
                item_of[ring.stage] = item;
            if (item >= g.items)
                return barrier_arrive(full + ring.stage);
            Strip const strip = strip_of(item);
            T* const to = stages + ring.stage * room + strip.place();
            auto const each_piece = [&](auto const& f) {
                for (int c = lane; c < g.channels; c += WARP)
                {
                    int64_t const start = strip.start + c * g.inner;
                    int const early = int(start % SECTOR); // whole sectors
                    int const elements = int(min(
                        int64_t(ceil_div(early + strip.columns, SECTOR) * SECTOR), g.elements - (start - early)));
                    f(to + c * pitch - early, x + start - early, elements);
                }
            };
            unsigned bytes = 0;
            each_piece([&](T* piece, T const* from, int elements) {
                int const whole = elements / VEC * VEC;
                bytes += unsigned(whole * sizeof(T));
                for (int e = whole; e < elements; ++e) // the tensor's last vector, and not full
                    piece[e] = from[e];
            });
            bulk_announce(bytes, full + ring.stage);
            each_piece([&](T* piece, T const* from, int elements) {
                bulk_load(piece, from, unsigned(elements / VEC * VEC * sizeof(T)), full + ring.stage, policy);
            });
        };
#pragma unroll 1
        for (; ring.stage < g.stages; ++ring.stage)
            fetch(blockIdx.x + ring.stage * gridDim.x);
        for (ring.stage = 0;; ring.advance(g.stages))
        {
            __syncwarp();
            unsigned const item = item_of[ring.stage];
            if (item >= g.items)
                return;
            unsigned drawn = 0;
            if (lane == 0 && tickets)
            {
                drawn = atomicAdd(tickets, 1u);
                if (drawn == g.items - 1)
                    *tickets = 0; // every strip draws once
            }
            drawn = __shfl_sync(kWholeWarp, drawn, 0);
            __syncwarp(); // all have read what it was, the workers too
            barrier_wait(done + ring.stage, ring.phase);
            barrier_wait(left + ring.stage, ring.phase);
            fetch(tickets ? g.stages * gridDim.x + drawn : item + g.stages * gridDim.x);
        }
    }
    if (thread >= workers)
    {
        uint64_t const policy = cache_policy(true);
        int before = -1; // stage
        for (;; ring.advance(g.stages))
        {
            barrier_wait(full + ring.stage, ring.phase);
            unsigned const item = item_of[ring.stage];
            if (item >= g.items)
                break;
            Strip const strip = strip_of(item);
            bool const first_strip = strip.begin == 0, last = strip.begin + g.width >= g.inner;
            barrier_wait(done + ring.stage, ring.phase);
            for (int c = lane; c < g.channels; c += WARP)
            {
                int64_t const start = strip.start + c * g.inner, end = start + g.inner - strip.begin;
                int64_t const from = first_strip ? start : min(ceil_div(start, int64_t(SECTOR)) * SECTOR, end),
                              to = last ? end : min(ceil_div(start + g.width, int64_t(SECTOR)) * SECTOR, end);
                int64_t const whole = min(ceil_div(from, int64_t(VEC)) * VEC, to), stop = max(to / VEC * VEC, whole);
                T const* const piece = stages + ring.stage * room + strip.place() + c * pitch - start;
                for (int64_t e = from; e < whole; ++e)
                    y[e] = piece[e];
                for (int64_t e = stop; e < to; ++e)
                    y[e] = piece[e];
                bulk_store_part(y + whole, piece + whole, unsigned((stop - whole) * sizeof(T)), policy);
            }
            bulk_stores_end();
            bulk_stores_but_one_have_read();
            if (before >= 0)
                barrier_arrive(left + before);
            before = ring.stage;
        }
        bulk_stores_have_read();
        if (before >= 0)
            barrier_arrive(left + before);
        return;
    }
    // A thread's columns from `first` on, a word of them if it can be. EVEN: channels so far apart that all pieces'
    // words are alike; else every other channel's are columns by themselves.
    auto const scale = [&](auto even, T* first) {
        using Columns = Pack<T, PER>;
        auto const is_word = [](int k) { return decltype(even)::value || k % PER == 0; };
        auto const load = [&](int k, T const* p) {
            if (is_word(k))
                return Columns::of_shared(p);
            Columns v = Columns::zeros();
#pragma unroll
            for (int j = 0; j < PER; ++j)
                v.set_bits(j, reinterpret_cast<Bits<T> const*>(p)[j]);
            return v;
        };
        auto const store = [&](int k, T* p, float const(&out)[PER]) {
            if (is_word(k))
                return Columns::of(out).store(p, false);
#pragma unroll
            for (int j = 0; j < PER; ++j)
                p[j] = from_float<T>(out[j]);
        };
        int const step = AT_ONCE * pitch, whole = g.channels - REST;
        float sum[PER][4] = {};
        auto const add = [&](int k, Columns const& v) {
#pragma unroll
            for (int j = 0; j < PER; ++j)
                sum[j][k % 4] = fmaf(v[j], v[j], sum[j][k % 4]);
        };
        Columns rest[REST + 1]; // the last channels'
        T const* p = first;
#pragma unroll 1
        for (int c = 0; c < whole; c += AT_ONCE, p += step)
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k)
                add(k, load(k, p + k * pitch));
#pragma unroll
        for (int k = 0; k < REST; ++k)
        {
            rest[k] = load(k, p + k * pitch);
            add(k, rest[k]);
        }
        float total[PER];
        bool usual = norm.moderate;
#pragma unroll
        for (int j = 0; j < PER; ++j)
        {
            total[j] = (sum[j][0] + sum[j][1]) + (sum[j][2] + sum[j][3]);
            usual = usual && is_moderate(total[j]);
        }
        auto const write = [&](auto const& scaled) {
            T* q = first;
            float const* w = weights;
            float by[AT_ONCE];
            auto const weigh = [&](auto channels) {
#pragma unroll
                for (int k = 0; k < decltype(channels)::value; k += 4)
                    *reinterpret_cast<float4*>(by + k) = *reinterpret_cast<float4 const*>(w + k);
            };
            auto const put = [&](int k, Columns const& v) {
                float out[PER];
#pragma unroll
                for (int j = 0; j < PER; ++j)
                    out[j] = scaled(v[j], total[j]) * by[k];
                store(k, q + k * pitch, out);
            };
#pragma unroll 1
            for (int c = 0; c < whole; c += AT_ONCE, q += step, w += AT_ONCE)
            {
                Columns v[AT_ONCE];
#pragma unroll
                for (int k = 0; k < AT_ONCE; ++k)
                    v[k] = load(k, q + k * pitch);
                weigh(std::integral_constant<int, AT_ONCE>{});
#pragma unroll
                for (int k = 0; k < AT_ONCE; ++k)
                    put(k, v[k]);
            }
            weigh(std::integral_constant<int, REST>{});
#pragma unroll
            for (int k = 0; k < REST; ++k)
                put(k, rest[k]);
        };
        if (usual)
        {
#pragma unroll
            for (int j = 0; j < PER; ++j)
                total[j] = moderate_factor(total[j], norm);
            write([](float v, float factor) { return v * factor; });
        }
        else
            write([&](float v, float of) { return Scale(divisor_of(of, norm))(v); });
    };
    for (;; ring.advance(g.stages))
    {
        barrier_wait(full + ring.stage, ring.phase);
        unsigned const item = item_of[ring.stage];
        if (item >= g.items)
            return;
        // From a word's begin: what is before the strip or behind it is nobody's.
        Strip const strip = strip_of(item);
        int const early = strip.place() % PER, columns = strip.columns + early;
        T* const begin = stages + ring.stage * room + strip.place() - early;
        auto const each = [&](auto even) {
            for (int column = thread * PER; column < columns; column += workers * PER)
                scale(even, begin + column);
        };
        if (pitch % PER == 0)
            each(std::true_type{});
        else
            each(std::false_type{});
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        barrier_arrive(done + ring.stage);
    }
#endif
}

} // namespace surgeon
