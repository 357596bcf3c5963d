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

// The moments of `total` values from those of n parts, part(0) not empty; every lane of the warp gets them. Two sums
// for all the lanes' parts at once: the means' deviations from the first part's mean, then from the mean so found.
template <class Part>
__device__ inline Moments merged(Part const& part, int n, float total)
{
    int const lane = threadIdx.x % 32;
    Moments m = lane < n ? part(lane) : Moments{0.f, 0.f, 0.f, 0.f};
    for (int i = lane + 32; i < n; i += 32)
        m = merge(m, part(i));
    float const pivot = __shfl_sync(kWholeWarp, m.mean, 0), own = (m.mean - pivot) + m.tail;
    float const shift = warp_sum(m.count * own) / total, deviation = own - shift, mean = pivot + shift;
    return Moments{total, mean, warp_sum(m.m2 + m.count * deviation * deviation), (pivot - mean) + shift};
}

struct InstanceNormParams
{
    Scalars scale, bias; // one value a channel, both or neither
    int64_t channels;
    float eps;
    float slope; // of a LeakyRelu on the result; 1 for none

    __device__ int64_t channel_of(int64_t row) const
    {
        return row >> 32 ? row % channels : int64_t(unsigned(row) % unsigned(channels));
    }
};

// A channel's scale and bias, to be asked for early: nothing waits for them before the moments are known.
struct alignas(8) Channel
{
    float scale = 1.f, bias = 0.f;

    Channel() = default;
    __device__ Channel(float s, float b) : scale(s), bias(b) {}
    __device__ Channel(InstanceNormParams const& p, int64_t row)
    {
        if (!p.scale.data)
            return;
        int64_t const c = p.channel_of(row);
        scale = p.scale.at(c);
        bias = p.bias.at(c);
    }
};

constexpr float kLeastNormal = 1.2e-38f;

__device__ inline float reciprocal_root_of_normal(float v)
{
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

// y = (x - mean) * gain + offset, then the slope.
struct Affine
{
    float mean, gain, offset, slope;

    Affine() = default;
    // With NORMAL eps is a normal number, so that what it is added to is one too.
    template <bool NORMAL = false>
    __device__ Affine(
        InstanceNormParams const& p, Channel const& c, Moments const& m, std::bool_constant<NORMAL> = {})
        : mean(m.mean), slope(p.slope)
    {
        float const variance = m.m2 * reciprocal_of(m.count) + p.eps;
        gain = (NORMAL ? reciprocal_root_of_normal(variance) : rsqrtf(variance)) * c.scale;
        offset = c.bias - m.tail * gain;
    }

    __device__ float linear(float x) const { return fmaf(x - mean, gain, offset); }

    __device__ float operator()(float x) const
    {
        float const y = linear(x);
        return y < 0.f ? y * slope : y;
    }
};

// The moments of `count` values from a number near their mean, the sum of the deviations from it and that of their
// squares.
__device__ inline Moments corrected(float count, float mean, float2 d)
{
    float const shift = d.x * reciprocal_of(count), better = mean + shift;
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

// Short rows, taken in shared memory as Row does.
template <class T, template <class> class Row>
__global__ void __launch_bounds__(kMostStagedThreads)
    instance_norm_staged_kernel(T const* __restrict__ x, T* __restrict__ y, int64_t rows, int length, int lanes,
        InstanceNormParams params, bool stream)
{
    extern __shared__ __align__(128) unsigned char staged[];
    StagedRows<T> const block(staged, rows, length, lanes);
    Channel const channel(params, block.live ? block.row : 0);
    block.ask_for(x);
    block.await();
    Row<T> const row(block);
    float sum = 0.f;
    row.look([&](float f) { sum += f; });
    float const mean = sum_over_lanes(make_float2(sum, 0.f), lanes, nullptr).x * reciprocal_of(float(length));
    float2 d = make_float2(0.f, 0.f);
    row.look([&](float f) {
        float const deviation = f - mean;
        d.x += deviation;
        d.y = fmaf(deviation, deviation, d.y);
    });
    Affine const affine(params, channel, corrected(float(length), mean, sum_over_lanes(d, lanes, nullptr)));
    if (affine.slope == 1.f)
        row.change([&](auto& values, int) {
            for (float& f : values)
                f = affine.linear(f);
        });
    else
        row.change([&](auto& values, int) {
            for (float& f : values)
                f = affine(f);
        });
    block.take_back(y, stream);
}

// How periods are dealt out so that all of a thread's have the same channels: a block has `a_part` neighbouring ones,
// and those that come some `hop`s later.
struct ChannelPeriods
{
    int64_t hop; // after so many periods the channels come again
    int parts;   // blocks that share a hop's
    int a_part;  // periods of each
};

// The channels of a thread's periods, ROWS from that of a row on, in its part of the shared memory: registers would not
// do for long rows.
template <class T, int ROWS>
struct ChannelsOfPeriods
{
    Channel* const own;

    SURGEON_BOTH static size_t bytes(int threads) { return size_t(threads) * ROWS * sizeof(Channel); }

    __device__ ChannelsOfPeriods(void* shared, InstanceNormParams const& params, int64_t row)
        : own(static_cast<Channel*>(shared) + threadIdx.x)
    {
        if (ROWS == 1 || !params.scale.data)
        {
            Channel const c(params, row);
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                own[r * blockDim.x] = c;
            return;
        }
        int const c = int(params.channel_of(row)), channels = int(params.channels);
        float scale[ROWS], bias[ROWS];
        neighbours<T>(params.scale, c, channels, scale);
        neighbours<T>(params.bias, c, channels, bias);
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
            own[r * blockDim.x] = Channel(scale[r], bias[r]);
        int next = c;
#pragma unroll
        for (int r = 1; r < ROWS; ++r) // after the last one the first comes again
        {
            next = next + 1 < channels ? next + 1 : 0;
            if (c + r >= channels)
                own[r * blockDim.x] = Channel(params.scale.at(next), params.bias.at(next));
        }
    }

    __device__ Channel const& operator[](int r) const { return own[r * blockDim.x]; }
};

template <class P>
constexpr int kPeriodsOfChannels = P::VECTORS < 8 ? 8 / P::VECTORS : 1; // of a thread

// Rows by periods: two looks at each row's elements in registers.
template <class T, int LENGTH>
__global__ void __launch_bounds__(Period<T, LENGTH>::THREADS, (LENGTH > 16 ? 640 : 768) / Period<T, LENGTH>::THREADS)
    instance_norm_periods_kernel(T const* __restrict__ x, T* __restrict__ y, int64_t rows, ChannelPeriods g,
        InstanceNormParams params, bool stream)
{
    await_predecessors();
    using P = Period<T, LENGTH>;
    constexpr int VEC = P::VEC, ELEMENTS = P::VECTORS * VEC, AT_ONCE = kPeriodsOfChannels<P>;
    constexpr float kCount = LENGTH;
    extern __shared__ __align__(128) unsigned char staged[];
    int const group = blockIdx.x / g.parts, part = blockIdx.x - group * g.parts, thread = threadIdx.x;
    int const width = int(min(int64_t(g.a_part), g.hop - int64_t(part) * g.a_part)); // periods
    int64_t const first = int64_t(group) * AT_ONCE * g.hop + int64_t(part) * g.a_part, hop = g.hop * ELEMENTS;
    bool const inside = (first + width) * ELEMENTS + (AT_ONCE - 1) * hop <= rows * LENGTH;
    T* const stage = reinterpret_cast<T*>(staged);
    int const pitch = g.a_part * ELEMENTS;
    // What the tensor has of the i-th.
    auto const span = [&](int i) {
        int64_t const from = first * ELEMENTS + i * hop, left = rows * LENGTH - from;
        return StagedSpan<T>(
            stage + i * pitch, from, int(max(min(left, int64_t(width) * ELEMENTS), int64_t(0))));
    };
    if (inside)
    {
        T const* from = x + first * ELEMENTS + thread * VEC;
        for (int j = thread; j < width * P::VECTORS; j += blockDim.x, from += blockDim.x * VEC)
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i)
                __pipeline_memcpy_async(stage + i * pitch + j * VEC, from + i * hop, kVectorBytes);
        __pipeline_commit();
    }
    else
#pragma unroll 1
        for (int i = 0; i < AT_ONCE; ++i)
            span(i).ask_for(x);
    ChannelsOfPeriods<T, P::ROWS> const channels(
        stage + AT_ONCE * pitch, params, thread < width ? (first + thread) * P::ROWS : 0);
    int live = thread < width ? AT_ONCE : 0; // of the thread's periods
    while (!inside && live > 0 && (first + thread + (live - 1) * g.hop) * P::ROWS >= rows)
        --live;
    span(0).await();
    Channel held[P::ROWS];
    if constexpr (AT_ONCE > 1)
#pragma unroll
        for (int r = 0; r < P::ROWS; ++r)
            held[r] = channels[r];
    // One period, without the LeakyRelu and the care for tiny variances where these change nothing.
    auto const change = [&](T* period, auto plain) {
        Vector<T> v;
        float out[VEC];
#pragma unroll
        for (int r = 0; r < P::ROWS; ++r)
        {
            float f[LENGTH], sum = 0.f;
#pragma unroll
            for (int k = 0; k < LENGTH; ++k)
            {
                int const e = r * LENGTH + k;
                if (e % VEC == 0)
                    v = Vector<T>::of_shared(period + e);
                f[k] = v[e % VEC];
                sum = k > 0 ? sum + f[k] : f[k];
            }
            float const mean = sum * reciprocal_of(kCount);
            float2 d;
#pragma unroll
            for (int k = 0; k < LENGTH; ++k)
            {
                float const deviation = f[k] - mean;
                d.x = k > 0 ? d.x + deviation : deviation;
                d.y = k > 0 ? fmaf(deviation, deviation, d.y) : deviation * deviation;
            }
            Moments const m = corrected(kCount, mean, d);
            Affine const affine(params, AT_ONCE > 1 ? held[r] : channels[r], m, plain);
#pragma unroll
            for (int k = 0; k < LENGTH; ++k)
            {
                int const e = r * LENGTH + k;
                out[e % VEC] = decltype(plain)::value ? affine.linear(f[k]) : affine(f[k]);
                if (e % VEC == VEC - 1)
                    Vector<T>::of(out).store(period + e / VEC * VEC, false);
            }
        }
    };
    auto const change_all = [&](auto plain) {
#pragma unroll 1
        for (int i = 0; i < live; ++i)
            change(stage + i * pitch + thread * ELEMENTS, plain);
    };
    if (params.slope == 1.f && params.eps > kLeastNormal)
        change_all(std::true_type{});
    else
        change_all(std::false_type{});
    __syncthreads();
    if (inside)
    {
        T* to = y + first * ELEMENTS + thread * VEC;
        for (int j = thread; j < width * P::VECTORS; j += blockDim.x, to += blockDim.x * VEC)
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i)
                Vector<T>::of_shared(stage + i * pitch + j * VEC).store(to + i * hop, stream);
    }
    else
#pragma unroll 1
        for (int i = 0; i < AT_ONCE; ++i)
            span(i).store(y, stream);
}

// x is [rows, length] with row = n * channels + c. A row is kept in registers by `lanes` neighbouring threads, or by a
// block (lanes == blockDim.x). x is read once.
template <class T, int R>
__global__ void __launch_bounds__(512, R <= 8 ? 2 : 1)
    instance_norm_rows_kernel(T const* __restrict__ x, T* __restrict__ y, int64_t rows, int64_t length, int lanes,
        InstanceNormParams params, bool stream)
{
    await_predecessors();
    constexpr int VEC = kVectorBytes / sizeof(T);
    __shared__ float2 scratch[32];
    int64_t const row = int64_t(blockIdx.x) * (blockDim.x / lanes) + threadIdx.x / lanes;
    bool const live = row < rows;
    RowWindow<T> const window(live ? row * length : 0, live ? length : 0);
    int const last = window.vectors(), lane = threadIdx.x % lanes;
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
    Moments const m = moments_of<T, R>(v, window, lane, lanes, fmaxf(float(window.hi - window.lo), 1.f), scratch);
    if (!live)
        return;
    Affine const affine(params, Channel(params, row), m);
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

// ----------------------------------------------------------------------------------- shares in shared memory

// A part of a row as shared memory holds it: `per` vectors from a line on, of which [lo, n) are whole vectors of the
// row. Aligned to lines, 128 bytes, so that a warp's stores fill them.
constexpr int kLineVectors = 128 / kVectorBytes;

template <class T>
struct Share
{
    static constexpr int VEC = kVectorBytes / sizeof(T);
    int64_t first; // where it begins in the tensor, in elements
    int lo, n;

    __device__ Share(int64_t row, int64_t length, int index, int per)
    {
        int64_t const begin = row * length, from = (begin + VEC - 1) / VEC, to = (begin + length) / VEC;
        int64_t const vector = from / kLineVectors * kLineVectors + int64_t(index) * per;
        first = vector * VEC;
        lo = index == 0 ? int(from % kLineVectors) : 0;
        n = max(int(min(to - vector, int64_t(per))), lo);
    }

    __device__ unsigned bytes() const { return unsigned(n - lo) * kVectorBytes; }
};

// The size of each of so many shares of any row, in vectors: whole lines.
inline int share_vectors(int64_t length, int vec, int64_t shares)
{
    int64_t const most = ceil_div(length, int64_t(vec)) + kLineVectors - 1;
    return int(ceil_div(ceil_div(most, shares), int64_t(kLineVectors)) * kLineVectors);
}

// The elements of a row outside its whole vectors, which one warp takes: an element a lane, `at` negative for none.
template <class T>
struct Ends
{
    int count = 0;
    int64_t at = -1;
    float value = 0.f;

    __device__ void find(T const* x, int64_t row, int64_t length)
    {
        constexpr int VEC = kVectorBytes / sizeof(T);
        int64_t const begin = row * length, end = begin + length;
        int const head = int((VEC - begin % VEC) % VEC), lane = threadIdx.x % 32;
        count = head + int(end % VEC);
        at = lane < head ? begin + lane : lane < count ? end - count + lane : -1;
        value = at >= 0 ? to_float(x[at]) : 0.f;
    }
};

template <int N>
__device__ inline float tree(float (&f)[N])
{
#pragma unroll
    for (int w = N / 2; w > 0; w /= 2)
#pragma unroll
        for (int k = 0; k < w; ++k)
            f[k] += f[k + w];
    return f[0];
}

template <class T>
__device__ inline float sum_of(Vector<T> const& v)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    float f[VEC];
#pragma unroll
    for (int k = 0; k < VEC; ++k)
        f[k] = v[k];
    return tree(f);
}

// Adds the deviations from p to d.x, their squares to d.y.
template <class T>
__device__ inline void deviate(Vector<T> const& v, float p, float2& d)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    float f[VEC], squares = 0.f;
#pragma unroll
    for (int k = 0; k < VEC; ++k)
    {
        f[k] = v[k] - p;
        squares = fmaf(f[k], f[k], squares);
    }
    d.x += tree(f);
    d.y += squares;
}

// A warp's section [from, to) of a share, whole lines but for the share's end.
template <class T>
struct Section
{
    static constexpr int VEC = kVectorBytes / sizeof(T);
    uint4 const* stage; // the share
    int lo, from, to;

    __device__ Section(void const* shared, Share<T> const& share, int per, int warps)
        : stage(static_cast<uint4 const*>(shared)), lo(share.lo)
    {
        int const each = ceil_div(ceil_div(per, warps), kLineVectors) * kLineVectors;
        from = min(int(threadIdx.x) / 32 * each, share.n);
        to = min(from + each, share.n);
    }

    __device__ Vector<T> vector(int j) const
    {
        uint4 const w = stage[j];
        Vector<T> v;
        v.words[0] = w.x, v.words[1] = w.y, v.words[2] = w.z, v.words[3] = w.w;
        return v;
    }

    // The warp's first vectors give a provisional mean, the deviations of all from it the moments. The first vectors
    // are at least the 1/k-th of k rounds of vectors, and their squared deviations from the true mean are part of M2:
    // so the sum of squares about their mean is at most k + 1 times M2, however the values lie, and rounding grows no
    // more than that.
    __device__ Moments moments(Ends<T> const& ends) const
    {
        int const lane = threadIdx.x % 32, skipped = max(lo - from, 0);
        int const all = max(to - from - skipped, 0), sampled = min(all, 32 - skipped);
        bool const samples = lane >= skipped && from + lane < to;
        float const p = warp_sum((samples ? sum_of(vector(from + lane)) : 0.f) + ends.value)
            / fmaxf(float(sampled * VEC + ends.count), 1.f);
        float2 d = make_float2(0.f, 0.f);
        if (ends.at >= 0)
        {
            d.x = ends.value - p;
            d.y = d.x * d.x;
        }
#pragma unroll 4
        for (int j = from + lane + (lane < skipped ? 32 : 0); j < to; j += 32)
            deviate(vector(j), p, d);
        d.x = warp_sum(d.x);
        d.y = warp_sum(d.y);
        float const count = float(all * VEC + ends.count);
        Moments m = corrected(fmaxf(count, 1.f), p, d);
        m.count = count;
        return m;
    }

    // y is where the share begins.
    __device__ void apply(Affine const& affine, T* y, bool stream) const
    {
        if (affine.slope == 1.f)
            map([&](float x) { return affine.linear(x); }, y, stream);
        else
            map(affine, y, stream);
    }

private:
    template <class F>
    __device__ void map(F const& f, T* y, bool stream) const
    {
        int const lane = threadIdx.x % 32;
#pragma unroll 4
        for (int j = from + lane + (from + lane < lo ? 32 : 0); j < to; j += 32)
        {
            Vector<T> const v = vector(j);
            float out[VEC];
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                out[k] = f(v[k]);
            Vector<T>::of(out).store(y + int64_t(j) * VEC, stream);
        }
    }
};

constexpr int kMostBlocksOfRow = 16; // of a cluster; more than 8 only where the device has room for them

// A row to a cluster, or to a single block: each block brings a share of it into shared memory by one bulk copy, each
// of its warps sends its moments to all the blocks, and whoever has them all finishes its section. There is no other
// barrier: a warp that produces copies the share of the cluster's next row as soon as the others have read a stage. x
// is read once.
template <class T, int STAGES, int WARPS, int BLOCKS>
__global__ void __launch_bounds__(WARPS * 32 + 32, BLOCKS)
    instance_norm_cluster_kernel(T const* __restrict__ x, T* __restrict__ y, int64_t rows, int64_t length, int per,
        InstanceNormParams params, bool stream)
{
#if SURGEON_DEVICE_HAS_ST_ASYNC
    // Two sets of slots do: a warp sends the moments of row i + 2 once it has those of row i + 1 from all, who by then
    // had read those of row i.
    constexpr int SETS = 2;
    extern __shared__ __align__(128) unsigned char staged[];
    __shared__ __align__(8) uint64_t full[STAGES], empty[STAGES], met[SETS];
    int const warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int const blocks = cluster_size(), rank = cluster_rank(), parts = blocks * WARPS;
    int64_t const first = blockIdx.x / blocks, step = gridDim.x / blocks;
    Moments* const slots = reinterpret_cast<Moments*>(staged + size_t(STAGES) * per * kVectorBytes);
    if (threadIdx.x == 0)
    {
        for (int i = 0; i < STAGES; ++i)
        {
            barrier_init(full + i);
            barrier_init(empty + i, WARPS * 32);
        }
        for (int i = 0; i < SETS; ++i)
            barrier_init(met + i, blocks > 1 ? 1 : WARPS);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    await_predecessors();
    __syncwarp();
    cluster_arrive();
    cluster_wait();
    int s = 0, turn = 0;
    auto const next_stage = [&] {
        if (++s == STAGES)
            s = 0, ++turn;
    };
    if (warp == WARPS)
    {
        uint64_t const policy = cache_policy(stream);
        for (int64_t row = first; lane == 0 && row < rows; row += step)
        {
            if (turn > 0)
                barrier_wait(empty + s, (turn - 1) & 1);
            Share<T> const share(row, length, rank, per);
            bulk_announce(share.bytes(), full + s);
            bulk_load(staged + (s * per + share.lo) * kVectorBytes, x + share.first + share.lo * Share<T>::VEC,
                share.bytes(), full + s, policy);
            next_stage();
        }
    }
    else
    {
        int set = 0, meeting = 0;
        bool const has_ends = rank == 0 && warp == 0;
        Ends<T> ends;
        if (has_ends && first < rows)
            ends.find(x, first, length);
        for (int64_t row = first; row < rows; row += step)
        {
            Share<T> const share(row, length, rank, per);
            Section<T> const section(staged + s * per * kVectorBytes, share, per, WARPS);
            Channel const channel(params, row);
            barrier_wait(full + s, turn & 1);
            Moments const own = section.moments(ends);
            if (blocks == 1)
            {
                if (lane == 0)
                {
                    slots[set * parts + warp] = own;
                    barrier_arrive(met + set);
                }
            }
            else
            {
                if (threadIdx.x == 0)
                    bulk_announce(parts * sizeof(Moments), met + set); // some may be there already
                if (lane < blocks)
                    send_remote(reinterpret_cast<float4*>(slots + set * parts + rank * WARPS + warp),
                        make_float4(own.count, own.mean, own.m2, own.tail), met + set, lane);
            }
            barrier_wait(met + set, meeting & 1);
            Moments const m = merged([&](int i) { return slots[set * parts + i]; }, parts, float(length));
            Affine const affine(params, channel, m);
            if (ends.at >= 0)
                y[ends.at] = from_float<T>(affine(ends.value));
            if (has_ends && row + step < rows)
                ends.find(x, row + step, length); // they are here when the next share is
            section.apply(affine, y + share.first, stream);
            barrier_arrive(empty + s);
            next_stage();
            if (++set == SETS)
                set = 0, ++meeting;
        }
    }
    __syncwarp();
    cluster_arrive(); // no block leaves while others may still send to it
    cluster_wait();
#endif
}

// --------------------------------------------------------------------------------------- two passes over memory
constexpr int kTileThreads = 512, kTilePacks = 8;
constexpr int kTileVectors = kTileThreads * kTilePacks; // 64 KiB
constexpr int kMostChunks = 1024;
constexpr int kMomentPacks = 4; // a thread's vectors at once, of as many as 16 times as many
constexpr int kMomentVectors = kTileThreads * kMomentPacks, kMostMomentRounds = 16;

// What a thread knows of a chunk by itself, so that nobody waits but for memory. Its first vectors give a provisional
// mean, as in Section.
template <class T>
struct Deviations
{
    float count = 0.f, mean = 0.f;
    float2 sums = {0.f, 0.f}; // of the deviations from the mean and of their squares

    // The row's elements in the vectors first, first + kTileThreads, ... before `to`, at least one.
    template <int R>
    __device__ void add(Vector<T> (&v)[R], RowWindow<T> const& window, int first, int to)
    {
        constexpr int VEC = kVectorBytes / sizeof(T);
        int const last = first + (R - 1) * kTileThreads;
        bool const whole = window.whole(first) && last < to && window.whole(last);
        float held = R * VEC;
        if (!whole)
        {
            held = 0.f;
#pragma unroll
            for (int r = 0; r < R; ++r)
            {
                int const j = first + r * kTileThreads;
                window.trim(j, v[r]);
                held += j < to ? elements_in(window, j, j + 1) : 0.f;
            }
        }
        if (count == 0.f)
        {
            float sum = 0.f;
#pragma unroll
            for (int r = 0; r < R; ++r)
                sum += sum_of(v[r]);
            mean = sum / held;
        }
        count += held;
#pragma unroll
        for (int r = 0; r < R; ++r)
        {
            int const j = first + r * kTileThreads;
            if (whole || (j < to && window.whole(j)))
                deviate(v[r], mean, sums);
            else if (j < to)
#pragma unroll
                for (int k = 0; k < VEC; ++k)
                    if (window.inside(j * VEC + k))
                    {
                        float const deviation = v[r][k] - mean;
                        sums.x += deviation;
                        sums.y = fmaf(deviation, deviation, sums.y);
                    }
        }
    }

    __device__ Moments moments() const
    {
        Moments m = corrected(fmaxf(count, 1.f), mean, sums);
        m.count = count;
        return m;
    }
};

// Rows too long for the chip and the cache, first pass: the moments of each chunk of each row.
template <class T>
__global__ void __launch_bounds__(kTileThreads, 2)
    instance_norm_moments_kernel(T const* __restrict__ x, Moments* __restrict__ moments, int64_t elements,
        int64_t length, int chunks, int vectors_a_chunk)
{
    await_predecessors();
    constexpr int WARPS = kTileThreads / 32;
    __shared__ Moments of_warps[WARPS];
    int64_t const row = blockIdx.x / chunks;
    int const chunk = blockIdx.x - row * chunks, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    RowWindow<T> const window(row * length, length);
    int const from = chunk * vectors_a_chunk, to = min(window.vectors(), from + vectors_a_chunk);
    Deviations<T> own;
    for (int first = from + threadIdx.x; first < to; first += kMomentVectors)
    {
        Vector<T> v[kMomentPacks];
#pragma unroll
        for (int r = 0; r < kMomentPacks; ++r)
        {
            int const j = first + r * kTileThreads;
            v[r] = j < to ? window.raw(x, j, elements, false) : Vector<T>::zeros();
        }
        own.add(v, window, first, to);
    }
    auto const of_all = [](Moments const& m) {
        float const count = warp_sum(m.count);
        Moments all = merged([&](int) { return m; }, 32, fmaxf(count, 1.f));
        all.count = count;
        return all;
    };
    Moments const of_warp = of_all(own.moments());
    if (lane == 0)
        of_warps[warp] = of_warp;
    __syncthreads();
    if (warp > 0)
        return;
    Moments const all = of_all(lane < WARPS ? of_warps[lane] : Moments{0.f, 0.f, 0.f, 0.f});
    if (lane == 0)
        moments[blockIdx.x] = all;
}

// Between the passes: one warp a row merges its chunks' moments into the row's.
template <int THREADS>
__global__ void __launch_bounds__(THREADS)
    instance_norm_merge_kernel(Moments const* __restrict__ chunk_moments, Moments* __restrict__ row_moments,
        int64_t rows, int64_t length, int chunks)
{
    await_predecessors();
    int64_t const row = int64_t(blockIdx.x) * (THREADS / 32) + threadIdx.x / 32;
    if (row >= rows)
        return;
    Moments const m = merged([&](int i) { return chunk_moments[row * chunks + i]; }, chunks, float(length));
    if (threadIdx.x % 32 == 0)
        row_moments[row] = m;
}

// Second pass, last chunk first: what the first pass read last is still in the L2 cache.
template <class T>
__global__ void __launch_bounds__(kTileThreads, 2)
    instance_norm_apply_kernel(T const* __restrict__ x, Moments const* __restrict__ row_moments, T* __restrict__ y,
        int64_t elements, int64_t length, int tiles, InstanceNormParams params)
{
    await_predecessors();
    constexpr int VEC = kVectorBytes / sizeof(T);
    int64_t const block = gridDim.x - 1 - blockIdx.x, row = block / tiles;
    RowWindow<T> const window(row * length, length);
    int const first = int(block - row * tiles) * kTileVectors + threadIdx.x;
    Vector<T> v[kTilePacks];
#pragma unroll
    for (int r = 0; r < kTilePacks; ++r)
        v[r] = window.raw(x, first + r * kTileThreads, elements, true);
    Affine const affine(params, Channel(params, row), row_moments[row]);
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
