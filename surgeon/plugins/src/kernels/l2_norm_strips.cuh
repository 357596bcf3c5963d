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
};

// Elements from a channel's piece to the next one's in shared memory, for pieces that begin and end inside sectors.
__host__ __device__ inline int strip_pitch(int width, int sector) { return (ceil_div(width, sector) + 3) * sector; }

constexpr int kMostStripStages = 4, kStripMovers = 64, kMostStripThreads = 960 + kStripMovers;
constexpr int kStripsAtOnce = 8; // channels, after which places inside a vector come again

// A block has some strips in shared memory, a bulk copy for every channel's piece, which begins on the vector that its
// first column is in. Each worker has whole columns of the strip at work. One warp brings strips, one sends them: of a
// piece, the sectors that begin in the strip, but at a channel's ends, and so no sector is written by two blocks.
// Strips are drawn from *tickets, which is 0 before and after; without tickets the blocks take them in turn. REST
// channels are left after the last kStripsAtOnce.
template <class T, int REST>
__global__ void __launch_bounds__(kMostStripThreads, 1)
    l2norm_strips_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, ChannelStrips g, Norm norm,
        unsigned* tickets)
{
#if SURGEON_DEVICE_HAS_ST_ASYNC
    constexpr int VEC = kVectorBytes / sizeof(T), SECTOR = kSectorBytes / sizeof(T), AT_ONCE = kStripsAtOnce;
    constexpr int WARP = 32;
    static_assert(AT_ONCE % VEC == 0, "places inside a vector must come again");
    extern __shared__ __align__(128) unsigned char strips_memory[];
    // A stage's phases: its strip is there, is scaled, has left.
    __shared__ uint64_t full[kMostStripStages], done[kMostStripStages], left[kMostStripStages];
    __shared__ unsigned item_of[kMostStripStages];
    int const workers = int(blockDim.x) - kStripMovers, thread = threadIdx.x, lane = thread % WARP;
    int const pitch = strip_pitch(g.width, SECTOR), room = g.channels * pitch;
    T* const stages = reinterpret_cast<T*>(strips_memory) + SECTOR; // a piece begins less than a sector before its place
    float* const weights = reinterpret_cast<float*>(strips_memory) + g.stages * room * sizeof(T) / sizeof(float);
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
            T* const to = stages + ring.stage * room;
            auto const each_piece = [&](auto const& f) {
                for (int c = lane; c < g.channels; c += WARP)
                {
                    // Whole sectors; in shared memory the first column's vector is where the piece begins.
                    int64_t const start = strip.start + c * g.inner, first = start / SECTOR * SECTOR;
                    int const early = int(start / VEC * VEC - first);
                    int const elements = int(
                        min(int64_t(ceil_div(int(start - first) + strip.columns, SECTOR) * SECTOR), g.elements - first));
                    f(to + c * pitch - early, x + first, elements);
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
                T const* const piece = stages + ring.stage * room + c * pitch - start / VEC * VEC;
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
    for (;; ring.advance(g.stages))
    {
        barrier_wait(full + ring.stage, ring.phase);
        unsigned const item = item_of[ring.stage];
        if (item >= g.items)
            return;
        Strip const strip = strip_of(item);
        int place[AT_ONCE]; // of the first column, by channel
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k)
            place[k] = ring.stage * room + k * pitch + int((unsigned(strip.start) + k * unsigned(g.inner)) % VEC);
        int const step = AT_ONCE * pitch, whole = g.channels - REST;
        for (int column = thread; column < strip.columns; column += workers)
        {
            T* const first = stages + column;
            float sum[4] = {}, rest[REST + 1]; // rest: the last channels' values
            T* p = first;
#pragma unroll 1
            for (int c = 0; c < whole; c += AT_ONCE, p += step)
#pragma unroll
                for (int k = 0; k < AT_ONCE; ++k)
                {
                    float const f = to_float(p[place[k]]);
                    sum[k % 4] = fmaf(f, f, sum[k % 4]);
                }
#pragma unroll
            for (int k = 0; k < REST; ++k)
            {
                rest[k] = to_float(p[place[k]]);
                sum[k % 4] = fmaf(rest[k], rest[k], sum[k % 4]);
            }
            float const total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
            auto const write = [&](auto const& scaled) {
                T* q = first;
                float const* w = weights;
                float by[AT_ONCE];
                auto const weigh = [&](auto channels) {
#pragma unroll
                    for (int k = 0; k < decltype(channels)::value; k += 4)
                        *reinterpret_cast<float4*>(by + k) = *reinterpret_cast<float4 const*>(w + k);
                };
#pragma unroll 1
                for (int c = 0; c < whole; c += AT_ONCE, q += step, w += AT_ONCE)
                {
                    float v[AT_ONCE];
#pragma unroll
                    for (int k = 0; k < AT_ONCE; ++k)
                        v[k] = to_float(q[place[k]]);
                    weigh(std::integral_constant<int, AT_ONCE>{});
#pragma unroll
                    for (int k = 0; k < AT_ONCE; ++k)
                        q[place[k]] = from_float<T>(scaled(v[k]) * by[k]);
                }
                weigh(std::integral_constant<int, REST>{});
#pragma unroll
                for (int k = 0; k < REST; ++k)
                    q[place[k]] = from_float<T>(scaled(rest[k]) * by[k]);
            };
            if (norm.moderate && is_moderate(total))
                write([factor = moderate_factor(total, norm)](float v) { return v * factor; });
            else
                write(Scale(divisor_of(total, norm)));
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        barrier_arrive(done + ring.stage);
    }
#endif
}

} // namespace surgeon
