// InstanceNorm: every [n, c] row by its own mean and variance.
#pragma once

#include "common.cuh"

namespace surgeon
{

// Count, mean and sum of squared deviations of a set; merged by Chan, Golub and LeVeque's update. The mean is
// mean + tail: a row of few, nearly equal values far from zero needs more of it than fp32 holds.
struct alignas(16) Moments
{
    float count, mean, m2, tail;
};

__device__ inline Moments merge(Moments const& a, Moments const& b)
{
    float const count = a.count + b.count;
    if (count == 0.f)
        return a;
    float const delta = b.mean - a.mean, share = b.count / count, step = delta * share, mean = a.mean + step;
    return Moments{count, mean, a.m2 + b.m2 + delta * step * a.count,
        (a.mean - mean) + step + a.tail + (b.tail - a.tail) * share};
}

struct InstanceNormParams
{
    Scalars scale, bias; // one value a channel, both or neither
    int64_t channels;
    float eps;
    float slope; // of a LeakyRelu on the result; 1 for none
};

// y = (x - mean) * gain + offset, then the slope.
struct Affine
{
    float mean, gain, offset, slope;

    __device__ Affine(InstanceNormParams const& p, int64_t row, Moments const& m)
        : mean(m.mean), gain(1.f / sqrtf(m.m2 / m.count + p.eps)), offset(0.f), slope(p.slope)
    {
        if (p.scale.data)
        {
            int64_t const c = row >> 32 ? row % p.channels : int64_t(unsigned(row) % unsigned(p.channels));
            gain *= p.scale.at(c);
            offset = p.bias.at(c);
        }
        offset -= m.tail * gain;
    }

    __device__ float operator()(float x) const
    {
        float const y = fmaf(x - mean, gain, offset);
        return y < 0.f ? y * slope : y;
    }
};

// The moments of `count` values from a rounded mean of theirs, the sum of the deviations from it and that of their
// squares.
__device__ inline Moments corrected(float count, float mean, float2 d)
{
    float const shift = d.x / count, better = mean + shift;
    return Moments{count, better, fmaxf(d.y - d.x * shift, 0.f), (mean - better) + shift};
}

// Moments of the values that a group of lanes holds in registers: the mean first, then the deviations from it, whose
// own (tiny) sum corrects both (the corrected two-pass algorithm). `count` is the group's; every thread gets the same
// bits.
template <class T, int R>
__device__ inline Moments moments_of(
    Vector<T> (&v)[R], RowWindow<T> const& window, int first, int lanes, float count, float2* scratch)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    float sum = 0.f;
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        float s = 0.f;
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            s += v[r][k];
        sum += s;
    }
    float const mean = sum_over_lanes(make_float2(sum, 0.f), lanes, scratch).x / count;
    float2 d = make_float2(0.f, 0.f);
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        int const j = first + r * lanes;
        v[r].forget();
        if (window.whole(j))
        {
#pragma unroll
            for (int k = 0; k < VEC; ++k)
            {
                float const deviation = v[r][k] - mean;
                d.x += deviation;
                d.y = fmaf(deviation, deviation, d.y);
            }
        }
        else if (j * VEC < window.hi)
        {
#pragma unroll
            for (int k = 0; k < VEC; ++k)
            {
                float const deviation = window.inside(j * VEC + k) ? v[r][k] - mean : 0.f;
                d.x += deviation;
                d.y = fmaf(deviation, deviation, d.y);
            }
        }
    }
    return corrected(count, mean, sum_over_lanes(d, lanes, scratch));
}

// The part of a row's elements that lies in the vectors [from, to).
template <class T>
__device__ inline float elements_in(RowWindow<T> const& window, int from, int to)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    int const lo = max(window.lo, from * VEC), hi = min(window.hi, to * VEC);
    return hi > lo ? float(hi - lo) : 0.f;
}

template <class T>
__global__ void __launch_bounds__(kStagedThreads)
    instance_norm_staged_rows_kernel(T const* __restrict__ x, T* __restrict__ y, int64_t rows, int length, int lanes,
        InstanceNormParams params, bool stream)
{
    extern __shared__ __align__(128) unsigned char staged[];
    StagedRows<T> const block(staged, rows, length, lanes);
    block.bring(x);
    int const from = int(block.window.first) + block.window.lo, own = block.live ? length : 0;
    T* const mine = block.stage + from;
    float sum = 0.f;
#pragma unroll 4
    for (int e = block.lane; e < own; e += lanes)
        sum += to_float(mine[e]);
    float const mean = sum_over_lanes(make_float2(sum, 0.f), lanes, nullptr).x / float(length);
    float2 d = make_float2(0.f, 0.f);
#pragma unroll 4
    for (int e = block.lane; e < own; e += lanes)
    {
        float const deviation = to_float(mine[e]) - mean;
        d.x += deviation;
        d.y = fmaf(deviation, deviation, d.y);
    }
    Moments const m = corrected(float(length), mean, sum_over_lanes(d, lanes, nullptr));
    Affine const affine(params, block.live ? block.row : 0, m);
#pragma unroll 4
    for (int e = block.lane; e < own; e += lanes)
        mine[e] = from_float<T>(affine(to_float(mine[e])));
    block.take_back(y, stream);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ inline void store_remote(Moments* slot, unsigned rank, Moments const& m)
{
    unsigned const here = unsigned(__cvta_generic_to_shared(slot));
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(m.count) : "memory");
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there + 4), "f"(m.mean) : "memory");
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there + 8), "f"(m.m2) : "memory");
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there + 12), "f"(m.tail) : "memory");
}
#endif

constexpr int kMostStages = 4;

// x is [rows, length] with row = n * channels + c. A row is kept in registers by `lanes` neighbouring threads, by a
// block (lanes == blockDim.x), or, with CLUSTER, by a cluster of blocks that exchange their moments once through
// distributed shared memory. x is read once.
template <class T, int R, bool CLUSTER>
__global__ void __launch_bounds__(512, R <= 8 ? 2 : 1)
    instance_norm_rows_kernel(T const* __restrict__ x, T* __restrict__ y, int64_t rows, int64_t length, int lanes,
        InstanceNormParams params, bool stream)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    __shared__ float2 scratch[32];
    int first = 0, per_block = 0;
    int64_t row;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    __shared__ Moments parts[kMostBlocksInCluster];
    if (CLUSTER)
    {
        cluster_arrive(); // awaited before the exchange: no block writes into one that has not started
        row = blockIdx.x / cluster_size();
    }
    else
#endif
    {
        row = int64_t(blockIdx.x) * (blockDim.x / lanes) + threadIdx.x / lanes;
    }
    bool const live = row < rows;
    RowWindow<T> const window(live ? row * length : 0, live ? length : 0);
    int last = window.vectors();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (CLUSTER)
    {
        per_block = ceil_div(last, int(cluster_size()));
        first = cluster_rank() * per_block;
        last = min(last, first + per_block);
    }
#endif
    int const lane = first + threadIdx.x % lanes;

    Pack<T, VEC> v[R];
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        int const j = lane + r * lanes;
        v[r] = j < last ? window.raw(x, j, rows * length, stream) : Vector<T>::zeros();
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
        window.trim(lane + r * lanes, v[r]);
    // Lanes beyond `last` hold zeros; a window that ends there keeps them out of the deviations too.
    RowWindow<T> mine = window;
    mine.hi = min(window.hi, last * VEC);
    float const count = elements_in(window, first, last);
    Moments m = moments_of<T, R>(v, mine, lane, lanes, fmaxf(count, 1.f), scratch);
    m.count = count;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (CLUSTER)
    {
        unsigned const blocks = cluster_size();
        cluster_wait();
        if (threadIdx.x < blocks)
            store_remote(parts + cluster_rank(), threadIdx.x, m);
        cluster_arrive();
        cluster_wait();
        m = parts[0];
        for (unsigned i = 1; i < blocks; ++i)
            m = merge(m, parts[i]);
    }
#endif
    if (!live)
        return;
    Affine const affine(params, row, m);
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        int const j = lane + r * lanes;
        if (j >= last)
            break;
        v[r].forget();
        float out[VEC];
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            out[k] = affine(v[r][k]);
        window.put(y, j, Vector<T>::of(out), stream);
    }
}

// A block's moments as it publishes them to the others: the count is known to all, and no word is kAbsent once written.
constexpr unsigned kAbsent = 0xffffffffu; // a NaN that no arithmetic makes

__device__ inline void publish(uint4* slot, Moments const& m)
{
    auto const word = [](float f) { return isnan(f) ? 0x7fffffffu : __float_as_uint(f); };
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(slot), "r"(word(m.mean)), "r"(word(m.m2)),
        "r"(word(m.tail)), "r"(0u)
        : "memory");
}

__device__ inline Moments await(uint4 const* slot, float count)
{
    uint4 w;
    do
        asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                     : "l"(slot)
                     : "memory");
    while (w.x == kAbsent || w.y == kAbsent || w.z == kAbsent);
    return Moments{count, __uint_as_float(w.x), __uint_as_float(w.y), __uint_as_float(w.z)};
}

__device__ inline Moments merge_over_warp(Moments m)
{
#pragma unroll
    for (int s = 1; s < 32; s *= 2)
        m = merge(m, Moments{__shfl_xor_sync(kWholeWarp, m.count, s), __shfl_xor_sync(kWholeWarp, m.mean, s),
                         __shfl_xor_sync(kWholeWarp, m.m2, s), __shfl_xor_sync(kWholeWarp, m.tail, s)});
    return m;
}

// Rows longer than a block holds, still read once: every row is cut into `shares` of `each` vectors, the blocks of the
// whole grid (all resident: a cooperative launch) take the shares in turn and keep them in registers, and publish a
// share's moments in `slots` [rows * shares], which were filled with kAbsent. The copy engine brings a block's next
// shares into shared memory (`stages` of them) meanwhile.
// Every block's shares are in the order of the rows and shares <= gridDim.x: the first row that is not yet complete
// never waits for a later one.
constexpr int kSharePacks = 8;

template <class T>
__global__ void __launch_bounds__(512, 2)
    instance_norm_grid_kernel(T const* __restrict__ x, T* __restrict__ y, int64_t rows, int64_t length, int shares,
        int each, int stages, uint4* slots, InstanceNormParams params, bool stream)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr int VEC = kVectorBytes / sizeof(T);
    extern __shared__ __align__(128) unsigned char staged[];
    __shared__ uint64_t arrived[kMostStages];
    __shared__ float2 scratch[32];
    __shared__ Moments by_warp[32];
    int64_t const elements = rows * length;
    unsigned const items = unsigned(rows * shares);
    int const stage_bytes = each * kVectorBytes, lanes = blockDim.x;

    auto const start = [&](unsigned item, int slot) {
        unsigned const row = item / unsigned(shares);
        RowWindow<T> const window(int64_t(row) * length, length);
        int const from = min(int(item - row * shares) * each, window.vectors());
        int const to = min(from + each, window.vectors());
        bool const torn = window.first + int64_t(to) * VEC > elements; // the tensor's last vector is not full
        bulk_load(staged + slot * stage_bytes, x + window.first + int64_t(from) * VEC,
            unsigned(max(to - torn - from, 0)) * kVectorBytes, arrived + slot);
    };
    if (threadIdx.x == 0)
    {
        for (int i = 0; i < stages; ++i)
            barrier_init(arrived + i);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        for (int i = 0; i < stages && blockIdx.x + i * gridDim.x < items; ++i)
            start(blockIdx.x + i * gridDim.x, i);
    }
    __syncthreads();

    int slot = 0, parity = 0;
    for (unsigned item = blockIdx.x; item < items; item += gridDim.x)
    {
        unsigned const row = item / unsigned(shares);
        RowWindow<T> const window(int64_t(row) * length, length);
        int const from = min(int(item - row * shares) * each, window.vectors());
        int const to = min(from + each, window.vectors());
        int const lane = from + threadIdx.x;
        bool const torn = window.first + int64_t(to) * VEC > elements;
        barrier_wait(arrived + slot, parity);
        Vector<T> v[kSharePacks];
#pragma unroll
        for (int r = 0; r < kSharePacks; ++r)
        {
            int const j = lane + r * lanes;
            v[r] = Vector<T>::zeros();
            if (j < to)
            {
                auto const* const at = staged + slot * stage_bytes + (j - from) * kVectorBytes;
                uint4 const w = *reinterpret_cast<uint4 const*>(at);
                v[r].words[0] = w.x, v[r].words[1] = w.y, v[r].words[2] = w.z, v[r].words[3] = w.w;
            }
        }
        if (torn)
#pragma unroll
            for (int r = 0; r < kSharePacks; ++r)
                if (lane + r * lanes == to - 1)
                    v[r] = load_up_to(x, window.first + int64_t(to - 1) * VEC, elements, stream);
#pragma unroll
        for (int r = 0; r < kSharePacks; ++r)
            if (lane + r * lanes < to)
                window.trim(lane + r * lanes, v[r]);
        __syncthreads(); // the stage has been read
        if (threadIdx.x == 0 && item + stages * gridDim.x < items)
            start(item + stages * gridDim.x, slot);
        if (++slot == stages)
            slot = 0, parity ^= 1;

        RowWindow<T> mine = window;
        mine.hi = min(window.hi, to * VEC);
        float const count = fmaxf(elements_in(window, from, to), 1.f);
        Moments m = moments_of<T, kSharePacks>(v, mine, lane, lanes, count, scratch);
        if (threadIdx.x == 0)
            publish(slots + item, m);
        if (threadIdx.x / 32 * 32 < shares)
        {
            m = Moments{0.f, 0.f, 0.f, 0.f};
            for (int i = threadIdx.x; i < shares; i += lanes)
                m = merge(m, await(slots + int64_t(row) * shares + i, elements_in(window, i * each, i * each + each)));
            m = merge_over_warp(m);
            if (threadIdx.x % 32 == 0)
                by_warp[threadIdx.x / 32] = m;
        }
        __syncthreads();
        int const warps = min(ceil_div(shares, 32), lanes / 32);
        m = by_warp[0];
        for (int i = 1; i < warps; ++i)
            m = merge(m, by_warp[i]);
        Affine const affine(params, row, m);
#pragma unroll
        for (int r = 0; r < kSharePacks; ++r)
        {
            int const j = lane + r * lanes;
            if (j >= to)
                break;
            v[r].forget();
            float out[VEC];
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                out[k] = affine(v[r][k]);
            window.put(y, j, Vector<T>::of(out), stream);
        }
    }
#endif
}

constexpr int kTileThreads = 512, kTilePacks = 8;
constexpr int kTileVectors = kTileThreads * kTilePacks; // 64 KiB
constexpr int kMostChunks = 1024;

// Rows too long for the chip, first pass: the moments of each chunk (a whole number of tiles) of each row.
template <class T>
__global__ void __launch_bounds__(kTileThreads, 2)
    instance_norm_moments_kernel(T const* __restrict__ x, Moments* __restrict__ moments, int64_t elements,
        int64_t length, int chunks, int vectors_a_chunk)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    __shared__ float2 scratch[32];
    int64_t const row = blockIdx.x / chunks;
    int const chunk = blockIdx.x - row * chunks;
    RowWindow<T> const window(row * length, length);
    int const from = chunk * vectors_a_chunk, to = min(window.vectors(), from + vectors_a_chunk);
    Moments m{0.f, 0.f, 0.f, 0.f};
    for (int tile = from; tile < to; tile += kTileVectors)
    {
        int const last = min(to, tile + kTileVectors);
        Vector<T> v[kTilePacks];
#pragma unroll
        for (int r = 0; r < kTilePacks; ++r)
        {
            int const j = tile + threadIdx.x + r * kTileThreads;
            v[r] = j < last ? window.raw(x, j, elements, false) : Vector<T>::zeros();
        }
#pragma unroll
        for (int r = 0; r < kTilePacks; ++r)
            window.trim(tile + threadIdx.x + r * kTileThreads, v[r]);
        RowWindow<T> mine = window;
        mine.hi = min(window.hi, last * VEC);
        float const count = elements_in(window, tile, last);
        m = merge(m, moments_of<T, kTilePacks>(v, mine, tile + threadIdx.x, kTileThreads, count, scratch));
    }
    if (threadIdx.x == 0)
        moments[blockIdx.x] = m;
}

// Between the passes: one warp a row merges its chunks' moments into the row's.
template <int THREADS>
__global__ void __launch_bounds__(THREADS)
    instance_norm_merge_kernel(Moments const* __restrict__ chunk_moments, Moments* __restrict__ row_moments,
        int64_t rows, int chunks)
{
    int64_t const row = int64_t(blockIdx.x) * (THREADS / 32) + threadIdx.x / 32;
    int const lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    Moments m{0.f, 0.f, 0.f, 0.f};
    for (int i = lane; i < chunks; i += 32)
        m = merge(m, chunk_moments[row * chunks + i]);
    m = merge_over_warp(m);
    if (lane == 0)
        row_moments[row] = m;
}

// Second pass, last chunk first: what the first pass read last is still in the L2 cache.
template <class T>
__global__ void __launch_bounds__(kTileThreads, 2)
    instance_norm_apply_kernel(T const* __restrict__ x, Moments const* __restrict__ row_moments, T* __restrict__ y,
        int64_t elements, int64_t length, int tiles, InstanceNormParams params)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    int64_t const block = gridDim.x - 1 - blockIdx.x, row = block / tiles;
    RowWindow<T> const window(row * length, length);
    int const first = int(block - row * tiles) * kTileVectors + threadIdx.x;
    Vector<T> v[kTilePacks];
#pragma unroll
    for (int r = 0; r < kTilePacks; ++r)
        v[r] = window.raw(x, first + r * kTileThreads, elements, true);
    Moments const m = row_moments[row];
    Affine const affine(params, row, m);
#pragma unroll
    for (int r = 0; r < kTilePacks; ++r)
    {
        int const j = first + r * kTileThreads;
        if (j * VEC >= window.hi)
            break;
        float out[VEC];
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            out[k] = affine(v[r][k]);
        window.put(y, j, Vector<T>::of(out), true);
    }
}

} // namespace surgeon
