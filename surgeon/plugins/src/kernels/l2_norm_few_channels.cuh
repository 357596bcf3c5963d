// L2Norm along an axis of few channels, a column a thread.
#pragma once

#include "l2_norm.cuh"

namespace surgeon
{

// How [outer, channels, inner] is cut where the channels are few: into items of some neighbouring images.
struct StagedImages
{
    int64_t elements;
    unsigned items; // of so many images, the last of what is left
    int images, channels, inner, stages;
    FastDiv<uint32_t> over_inner;
};

constexpr int kMostStages = 4, kStagedMover = 32, kMostStagedImageThreads = 640 + kStagedMover;
constexpr int kStagedAtOnce = 8; // channels

// Few channels: a block has some items in shared memory, which come and go by bulk copies as they lie in memory, and each
// of its threads has whole columns of the item at work, so that nobody waits for another's sums. The last warp moves
// the items: one that is done leaves, and another comes to its place. Items are drawn from *tickets, which is 0 before
// and after; without tickets the blocks take them in turn.
template <class T>
__global__ void __launch_bounds__(kMostStagedImageThreads, SURGEON_DEVICE_HAS_ST_ASYNC ? 2 : 1)
    l2norm_few_channels_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, StagedImages g, Norm norm,
        unsigned* tickets)
{
#if SURGEON_DEVICE_HAS_ST_ASYNC
    constexpr int VEC = kVectorBytes / sizeof(T), AT_ONCE = kStagedAtOnce;
    extern __shared__ __align__(128) unsigned char staged_memory[];
    __shared__ uint64_t full[kMostStages], done[kMostStages];
    __shared__ unsigned item_of[kMostStages];
    int const workers = int(blockDim.x) - kStagedMover, thread = threadIdx.x;
    int const image_elements = g.channels * g.inner, room = g.images * image_elements; // whole vectors
    T* const stages = reinterpret_cast<T*>(staged_memory);
    float* const weights = reinterpret_cast<float*>(stages + g.stages * room);
    for (int c = thread; c < g.channels; c += blockDim.x)
        weights[c] = weight.data ? weight.at(c) : 1.f;
    if (thread == 0)
    {
        for (int i = 0; i < g.stages; ++i)
        {
            barrier_init(full + i, kStagedMover);
            barrier_init(done + i, workers);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    auto const elements_of = [&](unsigned item) {
        return int(min(int64_t(room), g.elements - int64_t(item) * room));
    };

    Ring ring;
    if (thread >= workers)
    {
        int const lane = thread - workers;
        uint64_t const policy = cache_policy(false); // evict-first costs 0.01 of a copy
        auto const fetch = [&](unsigned item) {
            int const elements = item < g.items ? elements_of(item) : 0, whole = elements / VEC * VEC;
            T const* const from = x + int64_t(item) * room;
            T* const to = stages + ring.stage * room;
            if (whole + lane < elements)
                to[whole + lane] = from[whole + lane];
            if (lane > 0)
                return barrier_arrive(full + ring.stage);
            item_of[ring.stage] = item;
            bulk_announce(unsigned(whole * sizeof(T)), full + ring.stage);
            bulk_load(to, from, unsigned(whole * sizeof(T)), full + ring.stage, policy);
        };
#pragma unroll 1
        for (; ring.stage < g.stages; ++ring.stage)
            fetch(blockIdx.x + ring.stage * gridDim.x);
        for (ring.stage = 0;; ring.advance(g.stages))
        {
            __syncwarp();
            unsigned const item = item_of[ring.stage];
            if (item >= g.items)
                break;
            unsigned drawn = 0;
            if (lane == 0 && tickets)
                drawn = atomicAdd(tickets, 1u);
            barrier_wait(done + ring.stage, ring.phase);
            int const elements = elements_of(item), whole = elements / VEC * VEC;
            T const* const from = stages + ring.stage * room;
            T* const to = y + int64_t(item) * room;
            if (whole + lane < elements)
                to[whole + lane] = from[whole + lane];
            if (lane == 0)
            {
                bulk_store(to, from, unsigned(whole * sizeof(T)), policy);
                bulk_stores_have_read();
                if (tickets && drawn == g.items - 1)
                    *tickets = 0; // every item draws once
            }
            drawn = __shfl_sync(kWholeWarp, drawn, 0);
            __syncwarp(); // all have read what it was
            fetch(tickets ? g.stages * gridDim.x + drawn : item + g.stages * gridDim.x);
        }
        return;
    }
    for (;; ring.advance(g.stages))
    {
        barrier_wait(full + ring.stage, ring.phase);
        unsigned const item = item_of[ring.stage];
        if (item >= g.items)
            return;
        int const columns = elements_of(item) / g.channels;
        for (int column = thread; column < columns; column += workers)
        {
            int const image = int(g.over_inner(unsigned(column)));
            T* const first = stages + ring.stage * room + image * (image_elements - g.inner) + column;
            float sum[4] = {};
            T const* p = first;
            int c = 0;
#pragma unroll 1
            for (; c + AT_ONCE <= g.channels; c += AT_ONCE)
#pragma unroll
                for (int k = 0; k < AT_ONCE; ++k, p += g.inner)
                {
                    float const f = to_float(*p);
                    sum[k % 4] = fmaf(f, f, sum[k % 4]);
                }
#pragma unroll 1
            for (; c < g.channels; ++c, p += g.inner)
                sum[0] = fmaf(to_float(*p), to_float(*p), sum[0]);
            Scale const scale(divisor_of((sum[0] + sum[1]) + (sum[2] + sum[3]), norm));
            auto const write = [&](auto const& scaled) {
                T* q = first;
                int at = 0;
#pragma unroll 1
                for (; at + AT_ONCE <= g.channels; at += AT_ONCE, q += AT_ONCE * g.inner)
                {
                    float v[AT_ONCE], w[AT_ONCE];
#pragma unroll
                    for (int k = 0; k < AT_ONCE; ++k)
                        v[k] = to_float(q[k * g.inner]);
#pragma unroll
                    for (int k = 0; k < AT_ONCE; k += 4)
                        *reinterpret_cast<float4*>(w + k) = *reinterpret_cast<float4 const*>(weights + at + k);
#pragma unroll
                    for (int k = 0; k < AT_ONCE; ++k)
                        q[k * g.inner] = from_float<T>(scaled(v[k]) * w[k]);
                }
#pragma unroll 1
                for (; at < g.channels; ++at, q += g.inner)
                    *q = from_float<T>(scaled(to_float(*q)) * weights[at]);
            };
            if (scale.extra == 1.f)
                write([&](float v) { return v * scale.factor; });
            else
                write([&](float v) { return scale(v); });
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        barrier_arrive(done + ring.stage);
    }
#endif
}

} // namespace surgeon
