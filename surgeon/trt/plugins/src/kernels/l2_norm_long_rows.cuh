// L2Norm along the last axis, of rows that are long: over blocks that stay.
#pragma once

#include "l2_norm.cuh"

namespace surgeon
{

// How rows are cut into shares for the blocks of a cluster.
struct LongRows
{
    unsigned rows;
    int length;
    int per;    // vectors of a share, whole lines
    int stages; // shares that a block has
    int kept;   // bytes that a weight is kept in
};

// Vectors that a block keeps the weights of.
SURGEON_BOTH inline int weighted_vectors(int per)
{
    return per + kLineBytes / kVectorBytes;
}

constexpr int kLongRowsAdders = 4, kLongRowsWriters = 8; // warps
constexpr int kLongRowsThreads = (kLongRowsAdders + kLongRowsWriters + 1) * 32;
constexpr int kMostLongRowsStages = 8, kMostLongRowsSets = 2 * kMostLongRowsStages;

// A share of a row, seen through the vectors of its stage, which begins on a line of memory: a warp's stores fill
// lines.
template <class T>
__device__ inline RowWindow<T> share_of_row(unsigned row, LongRows const& g, int rank)
{
    constexpr int VEC = kVectorBytes / sizeof(T), LINE = kLineBytes / sizeof(T);
    int64_t const begin = int64_t(row) * g.length;
    int const before = rank * g.per * VEC - int(begin % LINE); // elements of the row before the stage
    int const lo = max(-before, 0), hi = min(g.length - before, g.per * VEC);
    return RowWindow<T>(begin + before, lo, max(lo, hi));
}

// The weights of a block's shares, and a line before them, since rows begin anywhere in one.
template <class T, class W>
struct LongRowsWeights : VectorWeights<T, W>
{
    using VectorWeights<T, W>::VEC;
    static constexpr int LINE = kLineBytes / sizeof(T);

    __device__ LongRowsWeights(void* shared, LongRows const& g, Scalars const& from, int rank, int thread, int threads)
        : VectorWeights<T, W>{static_cast<unsigned*>(shared), weighted_vectors(g.per), g.length % VEC == 0}
    {
        this->fill(from, rank * g.per * VEC - LINE, this->stride, g.length, thread, threads);
    }

    __device__ auto find(unsigned row, LongRows const& g) const
    {
        return VectorWeights<T, W>::find(LINE - int(int64_t(row) * g.length % LINE));
    }
};

struct NoWeights
{
    static constexpr bool whole = true;

    __device__ int find(unsigned, LongRows const&) const { return 0; }
    template <class V>
    __device__ void weigh_whole(V&, int, int) const
    {
    }
    template <class V>
    __device__ void weigh_any(V&, int, int) const
    {
    }
};

// A row to a cluster, or to a single block, as shares that its blocks have in shared memory, some rows at a time. One
// warp of each brings them, four add the squares up and send their sums to all the blocks, the others write what has
// all its sums: so nobody waits for the other blocks but those who write, while the next rows come. The block's weights
// are read once. Rows are drawn from *tickets, which is 0 before and after; without tickets the clusters take them in
// turn.
template <class T>
__global__ void __launch_bounds__(kLongRowsThreads, 3)
    l2norm_long_rows_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, LongRows g, Norm norm,
        unsigned* tickets, bool stream)
{
#if SURGEON_DEVICE_HAS_ST_ASYNC
    constexpr int VEC = kVectorBytes / sizeof(T), ADDERS = kLongRowsAdders, WRITERS = kLongRowsWriters;
    extern __shared__ __align__(128) unsigned char long_rows_memory[];
    __shared__ uint64_t full[kMostLongRowsStages], empty[kMostLongRowsStages];
    // Twice as many sets as stages: a block that comes to a set again has had all sums of a row that the others began
    // after they had read what they had of the set.
    __shared__ uint64_t met[kMostLongRowsSets], told[kMostLongRowsSets];
    __shared__ float following[kMostLongRowsSets]; // rows, as bits
    __shared__ unsigned row_of[kMostLongRowsStages];
    int const warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int const blocks = int(cluster_size()), rank = int(cluster_rank()), parts = blocks * ADDERS;
    unsigned const cluster = blockIdx.x / blocks, clusters = gridDim.x / blocks;
    T* const stages = reinterpret_cast<T*>(long_rows_memory);
    float* const sums = reinterpret_cast<float*>(stages + g.stages * g.per * VEC); // [sets][parts]
    if (g.rows < g.stages * clusters)
        tickets = nullptr;
    if (threadIdx.x == 0)
    {
        for (int i = 0; i < g.stages; ++i)
        {
            barrier_init(full + i, 32);
            barrier_init(empty + i, (ADDERS + WRITERS) * 32);
        }
        for (int i = 0; i < 2 * g.stages; ++i)
        {
            barrier_init(met + i, blocks > 1 ? 1 : ADDERS);
            barrier_init(told + i);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    cluster_arrive(); // the others' barriers are ready
    cluster_wait();

    Ring at, set; // the row's stage; its sums
    auto const advance = [&] {
        at.advance(g.stages);
        set.advance(2 * g.stages);
    };
    if (warp == ADDERS + WRITERS)
    {
        uint64_t const policy = cache_policy(stream);
        int64_t const elements = int64_t(g.rows) * g.length;
        Ring draw;
        // Every row draws the one that comes after it, but those that find stages unused.
        auto const after = [&](unsigned row, unsigned turn) {
            row += clusters;
            if (!tickets || turn + 1 < unsigned(g.stages))
                return row;
            if (rank == 0 && lane == 0)
            {
                unsigned const drawn = atomicAdd(tickets, 1u);
                if (drawn == g.rows - (g.stages - 1) * clusters - 1)
                    *tickets = 0;
                row = g.stages * clusters + drawn;
                for (int i = 0; i < blocks && blocks > 1; ++i)
                    send_remote(following + draw.stage, __uint_as_float(row), told + draw.stage, i);
            }
            if (blocks > 1)
            {
                if (lane == 0)
                    bulk_announce(sizeof(float), told + draw.stage);
                barrier_wait(told + draw.stage, draw.phase);
                row = __float_as_uint(following[draw.stage]);
                draw.advance(2 * g.stages);
            }
            return __shfl_sync(kWholeWarp, row, 0);
        };
        auto const bring = [&](unsigned row) {
            RowWindow<T> const share = share_of_row<T>(row, g, rank);
            T* const stage = stages + at.stage * g.per * VEC;
            int64_t const left = elements - share.first; // in the tensor
            int const from = share.lo / VEC * VEC, to = int(min(int64_t(share.vectors()), left / VEC)) * VEC;
            int const last = max(to, from) + lane; // of the tensor's last elements, which fill no vector
            if (last < share.hi)
                stage[last] = x[share.first + last];
            if (lane > 0)
                return barrier_arrive(full + at.stage);
            unsigned const bytes = unsigned(max(to - from, 0) * int(sizeof(T)));
            bulk_announce(bytes, full + at.stage);
            bulk_load(stage + from, x + share.first + from, bytes, full + at.stage, policy);
        };
        unsigned row = cluster;
        for (unsigned turn = 0;; row = after(row, turn), ++turn, advance())
        {
            if (turn >= unsigned(g.stages))
                barrier_wait(empty + at.stage, at.phase ^ 1);
            if (lane == 0)
                row_of[at.stage] = row;
            if (row >= g.rows)
                break;
            bring(row);
        }
        barrier_arrive(full + at.stage);
    }
    else if (warp < ADDERS)
        for (;; advance())
        {
            barrier_wait(full + at.stage, at.phase);
            if (row_of[at.stage] >= g.rows)
                break;
            RowWindow<T> const share = share_of_row<T>(row_of[at.stage], g, rank);
            T const* const stage = stages + at.stage * g.per * VEC;
            float sum = 0.f;
#pragma unroll 4
            for (int j = share.lo / VEC + threadIdx.x; j * VEC < share.hi; j += ADDERS * 32)
            {
                auto v = Vector<T>::of_shared(stage + j * VEC);
                share.trim(j, v);
#pragma unroll
                for (int k = 0; k < VEC; ++k)
                    sum = fmaf(v[k], v[k], sum);
            }
            sum = warp_sum(sum);
            barrier_arrive(empty + at.stage);
            float* const slot = sums + set.stage * parts + rank * ADDERS + warp;
            if (blocks > 1)
            {
                if (threadIdx.x == 0)
                    bulk_announce(unsigned(parts * sizeof(float)), met + set.stage); // some may be there already
                if (lane < blocks)
                    send_remote(slot, sum, met + set.stage, lane);
            }
            else if (lane == 0)
            {
                *slot = sum;
                barrier_arrive(met + set.stage);
            }
        }
    else
    {
        constexpr int THREADS = WRITERS * 32;
        int const thread = threadIdx.x - ADDERS * 32;
        auto const write_rows = [&](auto const& weights) {
            asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
            for (;; advance())
            {
                barrier_wait(full + at.stage, at.phase);
                unsigned const row = row_of[at.stage];
                if (row >= g.rows)
                    break;
                RowWindow<T> const share = share_of_row<T>(row, g, rank);
                T const* const stage = stages + at.stage * g.per * VEC;
                auto const found = weights.find(row, g);
                barrier_wait(met + set.stage, set.phase);
                float const total = warp_sum(lane < parts ? sums[set.stage * parts + lane] : 0.f);
                Scale const scale(divisor_of(total, norm));
                auto const write = [&](auto const& weigh) {
#pragma unroll 2
                    for (int j = thread + (thread * VEC + VEC <= share.lo ? THREADS : 0); j * VEC < share.hi;
                         j += THREADS)
                    {
                        auto const v = Vector<T>::of_shared(stage + j * VEC);
                        float out[VEC];
#pragma unroll
                        for (int k = 0; k < VEC; ++k)
                            out[k] = scale(v[k]);
                        weigh(out, j);
                        share.put(y, j, Vector<T>::of(out), stream);
                    }
                };
                if (weights.whole)
                    write([&](auto& out, int j) { weights.weigh_whole(out, j, found); });
                else
                    write([&](auto& out, int j) { weights.weigh_any(out, j, found); });
                barrier_arrive(empty + at.stage);
            }
        };
        void* const kept = sums + 2 * g.stages * parts;
        if (!weight.data)
            write_rows(NoWeights{});
        else if (g.kept == sizeof(float))
            write_rows(LongRowsWeights<T, float>(kept, g, weight, rank, thread, THREADS));
        else
            write_rows(LongRowsWeights<T, T>(kept, g, weight, rank, thread, THREADS));
    }
    __syncwarp();
    cluster_arrive(); // no block leaves while others may still send to it
    cluster_wait();
#endif
}

} // namespace surgeon
