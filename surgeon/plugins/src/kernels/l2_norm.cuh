// L2Norm along one axis.
#pragma once

#include "common.cuh"

namespace surgeon
{

enum class NormMode : int32_t
{
    kMaxNorm = 0,       // x / max(||x||, eps)
    kAddNorm = 1,       // x / (||x|| + eps)
    kMaxSum = 2,        // x / sqrt(max(sum x^2, eps))
    kAddSum = 3,        // x / sqrt(sum x^2 + eps)
    kMinReciprocal = 4, // x * min(1 / ||x||, eps)
};

constexpr float kLeastSum = 1e-30f, kMostSum = 1e30f;

// The divisor is max(sqrt(max(sum, lowest_sum) + added_sum), lowest_norm) + added_norm.
// Every mode sets one of the four.
struct Norm
{
    float lowest_sum = 0.f, added_sum = 0.f, lowest_norm = 0.f, added_norm = 0.f;
    bool moderate; // from sums between kLeastSum and kMostSum, no step leaves the normal numbers

    Norm(NormMode mode, float eps) : moderate(eps >= 0.f)
    {
        switch (mode)
        {
        case NormMode::kMaxNorm: lowest_norm = eps; break;
        case NormMode::kAddNorm: added_norm = eps; break;
        case NormMode::kMaxSum: lowest_sum = eps; break;
        case NormMode::kAddSum: added_sum = eps; break;
        case NormMode::kMinReciprocal: lowest_norm = 1.f / eps; break;
        }
        for (float f : {lowest_sum, added_sum, lowest_norm, added_norm})
            moderate = moderate && f < kMostSum;
    }
};

// Within one unit in the last place, at a fraction of the exact ones' instructions.
__device__ inline float root_of(float v)
{
    float r;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

__device__ inline float reciprocal_of(float v)
{
    float r;
    asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

__device__ inline float larger(float a, float b) { return a < b ? b : a; } // keeps a NaN in a

__device__ inline float divisor_of(float sum, Norm const& norm)
{
    return larger(root_of(larger(sum, norm.lowest_sum) + norm.added_sum), norm.lowest_norm) + norm.added_norm;
}

__device__ inline bool is_moderate(float sum) { return sum > kLeastSum && sum < kMostSum; }

// 1 / divisor_of(sum) of moderate sums: without the care that numbers near the ends of the range need.
__device__ inline float moderate_factor(float sum, Norm const& norm)
{
    float root, factor;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(fmaxf(sum, norm.lowest_sum) + norm.added_sum));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(factor) : "f"(fmaxf(root, norm.lowest_norm) + norm.added_norm));
    return factor;
}

// Whether x / d is x * (1 / d) to rounding: not where 1 / d leaves the normal range (d zero, denormal, huge, inf, NaN).
__device__ inline bool has_reciprocal(float d) { return d > 1e-37f && d < 1e37f; }

// x / d as x * factor * extra, where extra is 1 unless 1 / d leaves the normal range.
struct Scale
{
    float factor, extra;

    __device__ explicit Scale(float d)
    {
        constexpr float kUp = 18446744073709551616.f; // 2^64
        extra = has_reciprocal(d) ? 1.f : d < 1.f ? kUp : 1.f / kUp;
        factor = 1.f / (d * extra);
    }
    __device__ float operator()(float x) const { return x * factor * extra; }
};

// x is [outer, channels, inner]; a block is a tile of blockDim.x columns (each VEC neighbours of `inner`) by blockDim.y
// threads that share the channels; every thread keeps its R packs in registers, so x is read once. blockDim.x and
// blockDim.y are powers of two, and the block is at least a warp.
// Few weights are brought into shared memory while x is on its way; many are read where they are needed.
__host__ __device__ inline int kept_weights(int channels) { return channels <= 512 ? channels : 0; }

// ALONE: blockDim.y is 1, and a thread has all of its columns.
template <class T, int VEC, int R, bool ALONE>
__global__ void __launch_bounds__(512, sizeof(T) * VEC * R <= 128 ? 2 : 1)
    l2norm_columns_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, int64_t columns,
        int64_t inner_packs, int channels, Norm norm, bool stream)
{
    extern __shared__ float shared[]; // weights [channels], sums [VEC][rows][blockDim.x], divisors and
                                      // their reciprocals [VEC][blockDim.x] each
    int const width = blockDim.x, threads = width * blockDim.y, thread = threadIdx.y * width + threadIdx.x;
    int64_t const column = int64_t(blockIdx.x) * width + threadIdx.x;
    bool const live = column < columns;
    int64_t const outer = columns >> 32 ? column / inner_packs : int64_t(unsigned(column) / unsigned(inner_packs));
    int64_t const stride = inner_packs * VEC;
    int64_t const base = outer * channels * stride + (column - outer * inner_packs) * VEC;

    Pack<T, VEC> v[R];
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        int const c = threadIdx.y + r * blockDim.y;
        v[r] = live && c < channels ? Pack<T, VEC>::load(x + base + c * stride, stream) : Pack<T, VEC>::zeros();
    }
    int const kept = kept_weights(channels);
    for (int c = thread; c < kept; c += threads)
        shared[c] = weight.data ? weight.at(c) : 1.f;
    float sum[VEC] = {};
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            sum[k] = fmaf(v[r][k], v[r][k], sum[k]);

    bool multiply = true, inverted = false;
    if constexpr (ALONE)
    {
        __syncthreads();
        inverted = norm.moderate;
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            inverted = inverted && is_moderate(sum[k]);
        if (inverted)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                sum[k] = moderate_factor(sum[k], norm);
        else
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                sum[k] = divisor_of(sum[k], norm);
    }
    else
    {
        // The threads of a warp that share a column first, then the warps.
        for (int m = width; m < 32; m *= 2)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                sum[k] += __shfl_xor_sync(kWholeWarp, sum[k], m);
        float* const sums = shared + kept;
        int const share = width < 32 ? 32 / width : 1, rows = blockDim.y / share;
        if (threadIdx.y % share == 0)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                sums[(k * rows + threadIdx.y / share) * width + threadIdx.x] = sum[k];
        __syncthreads();
        // One thread a column finishes it for all.
        float* const divisors = sums + VEC * rows * width;
        float* const factors = divisors + VEC * width;
        for (int i = thread; i < VEC * width; i += threads)
        {
            float total = 0.f;
            for (int row = 0; row < rows; ++row)
                total += sums[(i / width * rows + row) * width + i % width];
            divisors[i] = divisor_of(total, norm);
            factors[i] = reciprocal_of(divisors[i]);
            multiply = multiply && has_reciprocal(divisors[i]);
        }
        multiply = inverted = __syncthreads_and(multiply);
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            sum[k] = (inverted ? factors : divisors)[k * width + threadIdx.x];
    }
    if (!live)
        return;
    if (!inverted)
    {
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            multiply = multiply && has_reciprocal(sum[k]);
        if (multiply)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                sum[k] = reciprocal_of(sum[k]);
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        int const c = threadIdx.y + r * blockDim.y;
        if (c >= channels)
            break;
        v[r].forget();
        float const w = kept ? shared[c] : weight.data ? weight.at(c) : 1.f;
        float out[VEC];
        if (multiply)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                out[k] = v[r][k] * sum[k] * w;
        else
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                out[k] = __fdiv_rn(v[r][k], sum[k]) * w;
        Pack<T, VEC>::of(out).store(y + base + c * stride, stream);
    }
}

// How [outer, channels, inner] is cut where blocks of whole vectors do not do: `inner` is no multiple of a vector or of a
// line, or the channels are so many that a block would hold a narrow tile only. A tile is `width` neighbouring columns by
// all channels, which the blocks of a cluster share.
struct ChannelTiles
{
    int64_t elements, inner;
    unsigned items, tiles; // tiles in all, tiles of one outer index
    int channels;
    int width, extra; // extra: columns that a block needs beyond the tile, to write whole sectors
    int stages;       // tiles on their way
};

constexpr int kSectorBytes = 32, kTilesThreads = 512, kTilesPacks = 8;

// Where a tile begins, and the next one that this cluster takes.
struct TileCursor
{
    int64_t outer;
    int tile, tiles, outer_step, tile_step;

    __device__ TileCursor(ChannelTiles const& g, unsigned item, unsigned step)
        : outer(item / g.tiles), tile(int(item % g.tiles)), tiles(int(g.tiles)), outer_step(int(step / g.tiles)),
          tile_step(int(step % g.tiles))
    {
    }

    __device__ void advance()
    {
        outer += outer_step;
        tile += tile_step;
        if (tile >= tiles)
        {
            tile -= tiles;
            ++outer;
        }
    }
};

// The block is X vectors by THREADS / X channels; a thread has the vectors of R channels, so far apart (a multiple of a
// sector's elements) that all of its pieces begin equally far inside a sector. While it works on those of one tile in
// registers, those of the next tiles are on their way to its own places in shared memory. The blocks of a cluster send
// each other their sums of squares: a barrier of the cluster would wait for the tile before to be written. Every memory
// sector whose first element is in the tile is written whole, but at a channel's ends: hence the `extra` columns.
template <class T, int X>
__global__ void __launch_bounds__(kTilesThreads, 1)
    l2norm_tiles_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, ChannelTiles g, Norm norm,
        bool stream)
{
#if SURGEON_DEVICE_HAS_ST_ASYNC
    constexpr int VEC = kVectorBytes / sizeof(T), SECTOR = kSectorBytes / sizeof(T);
    constexpr int THREADS = kTilesThreads, R = kTilesPacks;
    constexpr int Y = THREADS / X, COLUMNS = X * VEC, PITCH = COLUMNS + VEC, PARTS = Y / VEC, OWN = Y * R;
    static_assert(Y % SECTOR == 0, "a thread's pieces must begin equally far inside a sector");
    extern __shared__ __align__(128) unsigned char tiles_memory[];
    __shared__ uint64_t exchanged[2];
    unsigned const blocks = cluster_size(), cluster = blockIdx.x / blocks, clusters = gridDim.x / blocks;
    T* const stages = reinterpret_cast<T*>(tiles_memory);                                // [stages][R][THREADS] vectors
    float* const sums = reinterpret_cast<float*>(stages + g.stages * R * THREADS * VEC); // [Y][PITCH]
    float* const parted = sums + Y * PITCH;             // [PARTS][COLUMNS]
    float* const factors = parted + THREADS;            // [VEC][PITCH]: for each place of column 0 in a vector
    float* const extras = factors + VEC * PITCH;        // [COLUMNS]
    float* const weights = extras + COLUMNS;            // [OWN]
    float* const partials = weights + OWN;              // [2][blocks][COLUMNS]
    int const thread = threadIdx.x, first_channel = int(cluster_rank()) * OWN;
    int const channel = first_channel + thread / X, from_lo = thread % X * VEC;
    int const packs = min(max(ceil_div(g.channels - channel, Y), 0), R); // channels that this thread has
    int64_t const step = Y * g.inner;
    auto const start_of = [&](TileCursor const& t) {
        return (t.outer * g.channels + channel) * g.inner + t.tile * g.width;
    };
    auto const needed = [&](TileCursor const& t) { return min(g.width + g.extra, int(g.inner) - t.tile * g.width); };

    TileCursor ahead(g, cluster, clusters), here(g, cluster, clusters);
    auto const fetch = [&](unsigned item, int slot) {
        if (item < g.items)
        {
            int64_t const start = start_of(ahead);
            int const lo = int(start % VEC), wanted = from_lo - lo < needed(ahead) ? packs : 0;
            T const* const from = x + start - lo + from_lo;
            T* const to = stages + (slot * R * THREADS + thread) * VEC;
            if (from + (wanted - 1) * step + VEC <= x + g.elements)
            {
                T const* at[R]; // of registers of their own: a copy on its way holds its address's
#pragma unroll
                for (int r = 0; r < R; ++r)
                    at[r] = from + r * step;
#pragma unroll
                for (int r = 0; r < R; ++r)
                    if (r < wanted)
                        __pipeline_memcpy_async(to + r * THREADS * VEC, at[r], kVectorBytes);
            }
            else // this thread's last vector is the tensor's last, and not full
                for (int r = 0; r < wanted; ++r)
                {
                    T const* const p = from + r * step;
                    if (p + VEC <= x + g.elements)
                        __pipeline_memcpy_async(to + r * THREADS * VEC, p, kVectorBytes);
                    else
                        for (int k = 0; p + k < x + g.elements; ++k)
                            to[r * THREADS * VEC + k] = p[k];
                }
            ahead.advance();
        }
        __pipeline_commit();
    };
    if (thread == 0)
        for (uint64_t& barrier : exchanged)
            barrier_init(&barrier);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int s = 0; s < g.stages; ++s)
        fetch(cluster + s * clusters, s);
    for (int c = thread; c < OWN; c += THREADS)
        weights[c] = weight.data && first_channel + c < g.channels ? weight.at(first_channel + c) : 1.f;
    if (blocks > 1) // the others' barriers are ready
    {
        cluster_arrive();
        cluster_wait();
    }

    int slot = 0;
    unsigned count = 0;
    for (unsigned item = cluster; item < g.items; item += clusters, here.advance(), ++count)
    {
        int64_t const start = start_of(here);
        int const lo = int(start % VEC), at = from_lo - lo, begin = here.tile * g.width;
        int const have = at < needed(here) ? packs : 0;
        if (g.stages == 2)
            __pipeline_wait_prior(1);
        else
            __pipeline_wait_prior(2);
        Vector<T> v[R];
        float sum[VEC] = {};
        T const* const mine = stages + (slot * R * THREADS + thread) * VEC;
#pragma unroll
        for (int r = 0; r < R; ++r)
            v[r] = r < have ? Vector<T>::of_shared(mine + r * THREADS * VEC) : Vector<T>::zeros();
#pragma unroll
        for (int r = 0; r < R; ++r)
        {
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                sum[k] = fmaf(v[r][k], v[r][k], sum[k]);
            v[r].forget();
        }
        fetch(item + g.stages * clusters, slot);
        slot = slot + 1 == g.stages ? 0 : slot + 1;
        {
            auto* const to = reinterpret_cast<float4*>(sums + thread / X * PITCH + from_lo);
#pragma unroll
            for (int k = 0; k < VEC; k += 4)
                to[k / 4] = make_float4(sum[k], sum[k + 1], sum[k + 2], sum[k + 3]);
        }
        __syncthreads();
        {
            // VEC rows of the block at one column; a row keeps it shifted by its own place in a vector.
            int const column = thread % COLUMNS, first = thread / COLUMNS * VEC;
            unsigned const inner = unsigned(g.inner), place = unsigned(start) + unsigned(first - thread / X) * inner;
            float total = 0.f;
#pragma unroll
            for (int i = 0; i < VEC; ++i)
                total += sums[(first + i) * PITCH + column + int((place + i * inner) % VEC)];
            parted[thread] = total;
        }
        __syncthreads();
        bool usual = true;
        if (thread < COLUMNS)
        {
            float total = 0.f;
#pragma unroll
            for (int i = 0; i < PARTS; ++i)
                total += parted[i * COLUMNS + thread];
            if (blocks > 1)
            {
                // What is sent for the tile after the next is sent after all have read this one's.
                unsigned const turn = count % 2;
                float* const partial = partials + turn * blocks * COLUMNS + thread;
                if (thread == 0)
                    bulk_announce(blocks * COLUMNS * unsigned(sizeof(float)), exchanged + turn);
                for (unsigned rank = 0; rank < blocks; ++rank)
                    send_remote(partial + cluster_rank() * COLUMNS, total, exchanged + turn, rank);
                barrier_wait(exchanged + turn, count / 2 % 2);
                total = 0.f;
                for (unsigned i = 0; i < blocks; ++i)
                    total += partial[i * COLUMNS];
            }
            Scale const scale(thread < needed(here) ? divisor_of(total, norm) : 1.f);
            usual = scale.extra == 1.f;
            extras[thread] = scale.extra;
#pragma unroll
            for (int i = 0; i < VEC; ++i)
                factors[i * PITCH + thread + i] = scale.factor;
        }
        usual = __syncthreads_and(usual);

        // What the tile owns of the piece.
        int const offset = int(start % SECTOR), columns = int(g.inner) - begin;
        int const low = begin == 0 ? 0 : (SECTOR - offset) % SECTOR;
        int const sectors = (offset + g.width + SECTOR - 1) / SECTOR * SECTOR - offset;
        int const high = columns <= g.width ? columns : min(sectors, columns);
        int const out_packs = at + VEC > low && at < high ? packs : 0;
        bool const whole = at >= low && at + VEC <= high;
        auto const* const f = reinterpret_cast<float4 const*>(factors + lo * PITCH + from_lo);
#pragma unroll
        for (int k = 0; k < VEC; k += 4)
        {
            float4 const four = f[k / 4];
            sum[k] = four.x, sum[k + 1] = four.y, sum[k + 2] = four.z, sum[k + 3] = four.w;
        }
        T* p = y + start + at;
        auto const scaled = [&](int r, float (&out)[VEC]) {
            float const w = weights[thread / X + r * Y];
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                out[k] = v[r][k] * sum[k] * w;
        };
        if (whole && usual)
#pragma unroll
            for (int r = 0; r < R; ++r, p += step)
            {
                if (r >= out_packs)
                    break;
                float out[VEC];
                scaled(r, out);
                Vector<T>::of(out).store(p, stream);
            }
        else
#pragma unroll
            for (int r = 0; r < R; ++r, p += step)
            {
                if (r >= out_packs)
                    break;
                float out[VEC];
                scaled(r, out);
#pragma unroll
                for (int k = 0; k < VEC; ++k)
                    if (at + k >= low && at + k < high)
                        p[k] = from_float<T>(out[k] * extras[at + k]);
            }
    }
#endif
}

// More channels than the registers of a block hold: x is read twice.
template <class T>
__global__ void l2norm_long_columns_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, int64_t columns,
    int64_t inner, int64_t channels, Norm norm)
{
    extern __shared__ float partial[]; // [blockDim.y][blockDim.x]
    int64_t const column = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    bool const live = column < columns;
    int64_t const outer = column / inner, base = outer * channels * inner + (column - outer * inner);
    float sum = 0.f;
    if (live)
#pragma unroll 8
        for (int64_t c = threadIdx.y; c < channels; c += blockDim.y)
        {
            float const f = to_float(x[base + c * inner]);
            sum = fmaf(f, f, sum);
        }
    partial[threadIdx.y * blockDim.x + threadIdx.x] = sum;
    __syncthreads();
    sum = 0.f;
    for (int i = 0; i < blockDim.y; ++i)
        sum += partial[i * blockDim.x + threadIdx.x];
    if (!live)
        return;
    float const divisor = divisor_of(sum, norm);
#pragma unroll 8
    for (int64_t c = threadIdx.y; c < channels; c += blockDim.y)
    {
        float const w = weight.data ? weight.at(c) : 1.f;
        y[base + c * inner] = from_float<T>(to_float(x[base + c * inner]) / divisor * w);
    }
}

// The normalised axis is the last one: x is [rows, length], `lanes` neighbouring threads keep a row in registers.
template <class T, int R>
__global__ void __launch_bounds__(512, R <= 8 ? 2 : 1)
    l2norm_rows_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, int64_t rows, int length, int lanes,
        Norm norm, bool stream)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    __shared__ float2 scratch[32];
    int const group = threadIdx.x / lanes, lane = threadIdx.x - group * lanes;
    int64_t const row = int64_t(blockIdx.x) * (blockDim.x / lanes) + group;
    bool const live = row < rows;
    RowWindow<T> const window(live ? row * length : 0, live ? length : 0);

    Pack<T, VEC> v[R];
    float sum = 0.f;
#pragma unroll
    for (int r = 0; r < R; ++r)
        v[r] = window.raw(x, lane + r * lanes, rows * length, stream);
#pragma unroll
    for (int r = 0; r < R; ++r)
        window.trim(lane + r * lanes, v[r]);
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            sum = fmaf(v[r][k], v[r][k], sum);
    sum = sum_over_lanes(make_float2(sum, 0.f), lanes, scratch).x;
    float const divisor = divisor_of(sum, norm);
    Scale const scale(divisor);
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        int const j = lane + r * lanes;
        if (j * VEC >= window.hi)
            break;
        v[r].forget();
        float out[VEC];
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            out[k] = scale(v[r][k]);
        if (weight.data)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                if (window.inside(j * VEC + k))
                    out[k] *= weight.at(j * VEC + k - window.lo);
        window.put(y, j, Vector<T>::of(out), stream);
    }
}

template <class T>
__global__ void __launch_bounds__(kStagedThreads)
    l2norm_staged_rows_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, int64_t rows, int length,
        int lanes, Norm norm, bool stream)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    extern __shared__ __align__(128) unsigned char staged[];
    StagedRows<T> const block(staged, rows, length, lanes);
    block.bring(x);
    float sum = 0.f;
    block.look([&](Vector<T> const& v, auto const& inside) {
#pragma unroll
        for (int k = 0; k < VEC; ++k)
        {
            float const f = inside(k) ? v[k] : 0.f;
            sum = fmaf(f, f, sum);
        }
    });
    Scale const scale(divisor_of(sum_over_lanes(make_float2(sum, 0.f), lanes, nullptr).x, norm));
    __syncthreads();
    if (weight.data)
        block.change([&](float f, int e) { return scale(f) * weight.at(e); });
    else
        block.change([&](float f, int) { return scale(f); });
    block.take_back(y, stream);
}

} // namespace surgeon
